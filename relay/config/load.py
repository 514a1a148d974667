"""Read the configuration: an INI file, then the environment, then flags. A later one overrides an earlier one.

An environment variable sets `[Section] Key` as `RELAY_SECTION_KEY`, a flag as `Section.Key`. RELAY_PASSWORD is short
for RELAY_SERVER_PASSWORD. A secret may be in a file of its own: `PasswordFile = PATH` means `Password = <first line of
that file>`. `PasswordCommand = PROGRAM ARGUMENTS` is kept as a `Command`. A relative path is relative to the folder of
the configuration file.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from relay.base.errors import ErrorCode, RelayError
from relay.config import ini
from relay.config.keys import CLIENT_KEYS, KEYS, ORIGINAL_ONLY, Key
from relay.config.tree import (
    Account,
    CDCConfig,
    ClientConfig,
    Config,
    LakeConfig,
    LoggerConfig,
    RelayConfig,
    ServerConfig,
    SourceConfig,
)
from relay.config.values import Command, is_url, secret

DATA: Final = "relay-data"
"""The folder for data of `relay start URL`."""

SEARCH_PATH: Final = ("relay.conf", "replicaterelay.conf", f"{DATA}/relay.conf", "/etc/relay/relay.conf")
"""Where the relay looks for a configuration file if none is named. The second name is the original's."""

_ENVIRONMENT_PREFIX: Final = "RELAY_"
_SHORT: Final = {"RELAY_PASSWORD": "RELAY_SERVER_PASSWORD"}
_PATH_ATTRIBUTES: Final = frozenset({("Server", "source_ca"), ("Server", "login_cert"),
                                     ("Server", "login_key"), ("Server", "tls_cert"), ("Server", "tls_key"),
                                     ("Relay", "data_dir"), ("Logger", "path"), ("Lake", "path"),
                                     ("CDC", "users")})  # fmt: skip


class ConfigWarning(NamedTuple):
    """A setting without effect, or with an unexpected effect."""

    position: str
    text: str

    def __str__(self) -> str:
        """`position: text`."""
        return f"{self.position}: {self.text}"


class _Setting(NamedTuple):
    """A value as written. `client` is empty except in `[Client NAME]`; relative paths are relative to `folder`.

    `form` is one of the key's forms, "" for the value itself.
    """

    key: Key
    client: str
    content: str
    form: str
    position: str
    folder: Path

    @property
    def name(self) -> str:
        """The key's name with the form."""
        return self.key.name + self.form

    @property
    def is_path(self) -> bool:
        """Whether the content is a path: that of a file with the secret, or the value itself."""
        return self.form == "File" or (self.key.section, self.key.attribute) in _PATH_ATTRIBUTES

    @property
    def path(self) -> str:
        """The content as a path. A URL and an empty content stay as they are."""
        if not self.content or is_url(self.content):
            return self.content
        # Joined as text: the `/` at the end of the log's path is part of the original's file naming.
        return os.path.join(self.folder, os.path.expanduser(self.content))


class Given(NamedTuple):
    """A setting as a line of a file: `name` is the key's, or with its form; paths are absolute."""

    key: Key
    name: str
    content: str


def find(path: str | None) -> str | None:
    """Return the configuration file to use: `path` if given, else the first that exists of `SEARCH_PATH`, else None."""
    return path or next((candidate for candidate in SEARCH_PATH if Path(candidate).is_file()), None)


def load(
    path: str | None, environment: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[Config, list[ConfigWarning]]:
    """Read the configuration file `path` (None: no file), then `environment`, then `flags`.

    Raises `RelayError` (config) that names the file and line, variable or flag at fault.
    """
    warnings: list[ConfigWarning] = []
    settings: dict[tuple[str, str, str], _Setting] = {}
    from_file = _from_file(path, warnings) if path is not None else iter(())
    for layer in (from_file, _from_environment(environment), _from_flags(flags)):
        settings |= _indexed(layer, warnings)
    if path is None and not settings:
        hint = "`relay init` writes one; `relay start mysql://LOGIN@HOST/` and `relay tail` with that URL need none"
        raise _error("", f"there is no configuration: no file {', '.join(SEARCH_PATH)}", hint)
    config = _build(settings)
    warnings += _readable_secrets(path, settings.values())
    _validate(config, path or "the environment and --set", warnings)
    return config, warnings


def given(environment: Mapping[str, str], flags: Mapping[str, str]) -> list[Given]:
    """Return what environment and flags set, in the order of the table. Raises `RelayError` (config) as `load` does."""
    found = _indexed(_from_environment(environment), []) | _indexed(_from_flags(flags), [])
    settings = [found[at] for key in KEYS if (at := (key.section, key.attribute, "")) in found]
    return [Given(one.key, one.name, _anywhere(one)) for one in settings]


def _anywhere(setting: _Setting) -> str:
    """Return the content, with a path that is absolute."""
    if setting.form == "Command" and setting.content:
        return shlex.join(_command(setting))
    return setting.path if setting.is_path else setting.content


def _from_file(path: str, warnings: list[ConfigWarning]) -> Iterator[_Setting]:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise _error(
            path, error.strerror or str(error), "name the file with -c, or write one with `relay init`"
        ) from None
    folder = Path(path).absolute().parent
    entries, ignored = ini.parse(content, path)
    warnings += [ConfigWarning(f"{path}:{line}", "a line without '=' has no effect") for line in ignored]
    for section, name, value, line in entries:
        position = f"{path}:{line}"
        if (section.lower(), name.lower()) in ORIGINAL_ONLY:
            warnings.append(ConfigWarning(position, f"[{section}] {name} has no effect here"))
            continue
        client = _client_name(section, position)
        keys = CLIENT_KEYS if client else _section_keys(section, position)
        key, form = _lookup(keys, name, section, position)
        yield _Setting(key, client, value, form, position, folder)


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Setting]:
    sections = {key.section.upper() for key in KEYS}
    for variable, value in environment.items():
        section, _, name = _SHORT.get(variable, variable).removeprefix(_ENVIRONMENT_PREFIX).partition("_")
        if not variable.startswith(_ENVIRONMENT_PREFIX) or section not in sections:
            continue
        position = f"environment {variable}"
        key, form = _lookup(_section_keys(section, position), name, section, position)
        yield _Setting(key, "", value, form, position, Path.cwd())


def _from_flags(flags: Mapping[str, str]) -> Iterator[_Setting]:
    for flag, value in flags.items():
        section, _, name = flag.partition(".")
        position = f"flag {flag}"
        key, form = _lookup(_section_keys(section, position), name, section, position)
        yield _Setting(key, "", value, form, position, Path.cwd())


def _indexed(layer: Iterable[_Setting], warnings: list[ConfigWarning]) -> dict[tuple[str, str, str], _Setting]:
    """Return the settings of one layer by key. If a key is set several times, the first counts, as in TIniFile.

    Raises `RelayError` (config) for two forms of a key, unless one is empty.
    """
    settings: dict[tuple[str, str, str], _Setting] = {}
    for setting in layer:
        index = setting.key.section, setting.key.attribute, setting.client
        first = settings.get(index)
        if first is None or (first.form != setting.form and not first.content):
            settings[index] = setting
        elif first.form != setting.form and setting.content:
            key = setting.key
            names = ", ".join((key.name, *(key.name + form for form in key.forms)))
            raise _error(setting.position, f"{first.position} sets {first.name} too", f"set one of {names}")
        else:
            warnings.append(
                ConfigWarning(setting.position, f"{setting.name} is ignored: {first.position} sets it first")
            )
    return settings


def _client_name(section: str, position: str) -> str:
    """NAME of `[Client NAME]`, empty for any other section."""
    word, _, name = section.partition(" ")
    if word.lower() != "client":
        return ""
    if not name.strip():
        raise _error(position, "[Client] needs a name", "write [Client NAME]")
    return name.strip()


def _section_keys(section: str, position: str) -> list[Key]:
    keys = [key for key in KEYS if key.section.lower() == section.lower()]
    if not keys:
        known = list(dict.fromkeys(key.section for key in (*KEYS, *CLIENT_KEYS)))
        raise _error(position, f"unknown section [{section}]", _suggestion(section, known))
    return keys


def _lookup(keys: Iterable[Key], name: str, section: str, position: str) -> tuple[Key, str]:
    """Return the key called `name`, and the form that the name asks for."""
    names: dict[str, tuple[Key, str]] = {}
    for key in keys:
        names |= dict.fromkeys((key.name, *key.aliases), (key, ""))
        names |= {key.name + form: (key, form) for form in key.forms}
    for known, found in names.items():
        if known.lower() == name.lower():
            return found
    elsewhere = [f"[{key.section}] {key.name}" for key in KEYS if key.name.lower() == name.lower()]
    hint = f"it belongs to {elsewhere[0]}" if elsewhere else _suggestion(name, list(names))
    raise _error(position, f"unknown key {name!r} in [{section}]", hint)


def _suggestion(word: str, known: list[str]) -> str:
    import difflib  # takes memory, and only wrong names need it

    folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[close[0]]}?" if close else f"known: {', '.join(known)}"


def _build(settings: Mapping[tuple[str, str, str], _Setting]) -> Config:
    """Read all values in the order of the table, and build the tree."""

    def read(key: Key, client: str = "") -> Any:
        setting = settings.get((key.section, key.attribute, client))
        if setting is None:
            return key.value(key.default, "default")
        if setting.form == "Command" and setting.content:
            return _command(setting)
        content = setting.path if setting.is_path else setting.content
        if setting.form == "File":
            content = _secret_file(Path(content), setting.position)
        return key.value(content, setting.position)

    sections: dict[str, dict[str, Any]] = {}
    for key in KEYS:
        sections.setdefault(key.section, {})[key.attribute] = read(key)
    names = dict.fromkeys(setting.client for setting in settings.values() if setting.client)
    server = ServerConfig(**sections["Server"])
    mysql = sections["MySQL"]
    return Config(
        server=server,
        schema_account=Account(
            login=mysql["login"] or server.login,
            password=mysql["password"] if mysql["login"] else server.password,
            host=mysql["host"] or next(iter(server.ip_addr), ""),
            port=mysql["port"] or server.port,
        ),
        logger=LoggerConfig(**sections["Logger"]),
        source=SourceConfig(**sections["Source"]),
        relay=RelayConfig(**sections["Relay"]),
        lake=LakeConfig(**sections["Lake"]),
        cdc=CDCConfig(**sections["CDC"]),
        clients={name: ClientConfig(**{key.attribute: read(key, name) for key in CLIENT_KEYS}) for name in names},
    )


def _secret_file(path: Path, position: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _error(position, f"{error.strerror}: {path}", "make the file readable for the relay") from None
    return content.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "surrogateescape")


def _command(setting: _Setting) -> Command:
    try:
        program, *arguments = shlex.split(setting.content)
    except ValueError as error:
        hint = "write a program and its arguments, with blanks in quotes as for a shell"
        raise _error(setting.position, f"[{setting.key.section}] {setting.name}: {error}", hint) from None
    if "/" in program:
        program = os.path.join(setting.folder, os.path.expanduser(program))
    return Command((program, *arguments))


def _validate(config: Config, name: str, warnings: list[ConfigWarning]) -> None:
    """Check rules on several keys, and keys without a usable default."""
    server, relay = config.server, config.relay
    if not server.auth_secret:
        raise _error(name, "[Server] AuthSecret is empty", "set AuthSecret, or AuthSecretFile = PATH")
    if not server.login:
        raise _error(name, "[Server] Login is empty", "set Login and Password of the replication account")
    if not server.ip_addr:
        raise _error(name, "[Server] IPAddr is empty", "set it to the host of the source")
    if server.tls != "off" and not (server.tls_cert and server.tls_key):
        raise _error(name, f"[Server] TLS = {server.tls} needs a certificate", "set TLSCert and TLSKey")
    if config.cdc.enabled and config.cdc.tls != "off" and not (server.tls_cert and server.tls_key):
        raise _error(name, f"[CDC] TLS = {config.cdc.tls} needs a certificate", "set TLSCert and TLSKey in [Server]")
    if bool(server.login_cert) != bool(server.login_key):
        raise _error(name, "[Server] has only one of LoginCert and LoginKey", "set both, or neither")
    if server.login_cert and server.source_tls not in ("required", "verify"):
        cause = f"[Server] LoginCert has no effect with SourceTLS = {server.source_tls}"
        raise _error(name, cause, "set SourceTLS = verify, or required")
    for path in (server.tls_cert, server.tls_key, server.source_ca, server.login_cert, server.login_key):
        if path and not os.access(path, os.R_OK):
            hint = "correct TLSCert, TLSKey, SourceCA, LoginCert or LoginKey in [Server]"
            raise _error(name, f"cannot read {path}", hint)
    if server.server_port == server.http_port != 0:
        raise _error(name, f"ServerPort and HTTPPort are both {server.http_port}", "set two different ports")
    if config.cdc.enabled and config.cdc.port and config.cdc.port in (server.server_port, server.http_port):
        raise _error(name, f"[CDC] Port {config.cdc.port} is also ServerPort or HTTPPort", "set another port")
    if relay.journal_keep_bytes > relay.journal_max_bytes:
        raise _error(name, "JournalKeepBytes is larger than JournalMaxBytes", "lower JournalKeepBytes")
    if 2 * relay.segment_bytes > relay.journal_max_bytes:
        raise _error(name, "JournalMaxBytes is smaller than two segments", "lower SegmentBytes in [Relay]")
    for client, settings in config.clients.items():
        if not settings.secret:
            raise _error(name, f"[Client {client}] Secret is empty", "set Secret, or SecretFile = PATH")
    if isinstance(server.password, Command) and config.cdc.enabled and config.cdc.service_user != "never":
        text = "[CDC] ServiceUser lets nobody log in with what PasswordCommand prints: use `relay cdc add-user`"
        warnings.append(ConfigWarning(name, text))
    if server.admin_secret and server.admin_secret == server.auth_secret:
        warnings.append(ConfigWarning(name, "AdminSecret equals AuthSecret: every client may send admin commands"))


def _readable_secrets(path: str | None, settings: Iterable[_Setting]) -> Iterator[ConfigWarning]:
    """Warnings about secrets that other users of this machine can read."""
    files: dict[str, None] = {}
    for setting in settings:
        if setting.key.read is not secret or not setting.content:
            continue
        if setting.form == "Command":
            continue
        if setting.form == "File":
            files[setting.path] = None
        elif setting.position.startswith("flag "):
            text = "the list of processes shows this secret: put it into a file or the environment"
            yield ConfigWarning(setting.position, text)
        elif path is not None and setting.position.startswith(f"{path}:"):
            files[path] = None
    for file in files:
        if os.stat(file).st_mode & stat.S_IROTH:
            yield ConfigWarning(file, "other users may read this file with secrets: chmod o-r")


def _error(position: str, cause: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.CONFIG, "read config", cause, position=position, hint=hint)
