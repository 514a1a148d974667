"""The configuration: one frozen tree, read from an INI file, then the environment, then flags, each over the former.

The environment sets `[Section] Key` as `RELAY_SECTION_KEY`, flags as `Section.Key`. Secrets may be kept in files of
their own: `PasswordFile = PATH` stands for `Password = <first line of that file>`. Relative paths start at the folder
of the configuration file.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from relay import inifile
from relay.config_keys import CLIENT_KEYS, KEYS, ORIGINAL_ONLY, Key, is_url, secret
from relay.errors import ErrorCode, RelayError

EXPOSURE_HINT: Final = "set TLS = required with TLSCert and TLSKey in [Server], or BindAddress = 127.0.0.1"
"""What to do about `ServerConfig.exposure`."""

SEARCH_PATH: Final = ("relay.conf", "replicaterelay.conf", "/etc/relay/relay.conf")
"""Where a configuration file is looked for when none is named; the second is the original's."""

_ENVIRONMENT_PREFIX: Final = "RELAY_"
_PATH_ATTRIBUTES: Final = frozenset({("Server", "source_ca"), ("Server", "tls_cert"), ("Server", "tls_key"),
                                     ("Relay", "data_dir"), ("Logger", "path"), ("Lake", "path"),
                                     ("CDC", "users")})  # fmt: skip


class ServerConfig(msgspec.Struct, frozen=True):
    """`[Server]`: the source's address and account, and the addresses, secrets and caps of the relay's own ports."""

    ip_addr: list[str]
    port: int
    login: str
    password: str
    database: str
    source_tls: str
    source_ca: str
    source_key: list[str]
    password_to_unverified_source: str
    auth_secret: str
    admin_secret: str
    admin_from: list[str]
    clients_from: list[str]
    bind_address: str
    server_port: int
    http_address: str
    http_port: int
    http_from: list[str]
    http_hosts: list[str]
    tls: str
    tls_cert: str
    tls_key: str
    legacy_keys: bool
    unlisted_clients: str
    max_connections: int
    auth_attempts: int

    @property
    def exposure(self) -> str:
        """What is wrong if other machines reach the classic port without TLS, "" if they do not."""
        if self.tls != "off" or ipaddress.ip_address(self.bind_address).is_loopback:
            return ""
        open_to = f"the clients' port {self.bind_address}:{self.server_port} is open to other machines without TLS"
        return f"{open_to}: who reads the wire has the rows, and logins that can be sent again"


class Account(msgspec.Struct, frozen=True):
    """Where and as whom schema queries are made: `[MySQL]`, where it is silent `[Server]`."""

    login: str
    password: str
    host: str
    port: int


class LoggerConfig(msgspec.Struct, frozen=True):
    """`[Logger]`: the log of changed rows. Sizes are bytes, durations seconds, 0 for no limit."""

    path: str
    schema: list[str]
    excludes: list[str]
    format: str
    time_zone: str
    rotate_bytes: int
    keep_for: int


class SourceConfig(msgspec.Struct, frozen=True):
    """`[Source]`: what is read from the binlog, and from where."""

    tables: list[str]
    exclude_tables: list[str]
    exclude_columns: list[str]
    start_position: str
    server_id: int
    heartbeat_seconds: int


class RelayConfig(msgspec.Struct, frozen=True):
    """`[Relay]`: delivery, values, retention and caps. Sizes are bytes, durations seconds."""

    data_dir: str
    user: str
    workers: int
    delivery: str
    max_repeats: int
    event_position: str
    null_text: str
    time_zone: str
    on_unknown: str
    on_partial_image: str
    on_unproven: str
    journal_keep_bytes: int
    journal_keep_age: int
    journal_max_bytes: int
    segment_bytes: int
    client_expiry: int
    max_clients: int
    max_filters: int
    max_request_bytes: int
    max_buffered_bytes: int
    queue_memory: int
    log_format: str
    drain_timeout: int


class LakeConfig(msgspec.Struct, frozen=True):
    """`[Lake]`: where changes are exported to, a folder or a URL, "" for nowhere; which; and how large files become."""

    path: str
    tables: list[str]
    roll_seconds: int
    roll_bytes: int
    snapshot: str


class CDCConfig(msgspec.Struct, frozen=True):
    """`[CDC]`: the port for clients of MaxScale. `command_gap` is in milliseconds."""

    enabled: bool
    address: str
    port: int
    allowed_from: list[str]
    users: str
    service_user: str
    tables: list[str]
    values: str
    codec: str
    workers: int
    max_streams: int
    auth_attempts: int
    tls: str
    command_gap: int


class ClientConfig(msgspec.Struct, frozen=True):
    """`[Client NAME]`: a name with a secret of its own, the tables it may ask for, and where it may come from."""

    secret: str
    tables: list[str]
    allowed_from: list[str]


class Config(msgspec.Struct, frozen=True):
    """The whole configuration. `clients` is keyed by client name."""

    server: ServerConfig
    schema_account: Account
    logger: LoggerConfig
    source: SourceConfig
    relay: RelayConfig
    lake: LakeConfig
    cdc: CDCConfig
    clients: dict[str, ClientConfig]


class ConfigWarning(NamedTuple):
    """Something in the configuration that has no effect, or not the one it seems to have."""

    position: str
    text: str

    def __str__(self) -> str:
        """`position: text`."""
        return f"{self.position}: {self.text}"


class _Setting(NamedTuple):
    """A value as it was written. `client` is empty except in `[Client NAME]`; relative paths start at `folder`."""

    key: Key
    client: str
    content: str
    in_file: bool
    position: str
    folder: Path


def find(path: str | None) -> str | None:
    """The configuration file to use: `path` if given, else the first that exists of `SEARCH_PATH`, else None."""
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
        settings |= _first_wins(layer, warnings)
    config = _build(settings)
    warnings += _exposed(path, settings.values())
    _validate(config, path or f"no file ({', '.join(SEARCH_PATH)})", warnings)
    return config, warnings


def _from_file(path: str, warnings: list[ConfigWarning]) -> Iterator[_Setting]:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise _error(path, error.strerror or str(error), "name the file with -c; conf/relay.conf is a sample") from None
    folder = Path(path).absolute().parent
    entries, ignored = inifile.parse(content, path)
    warnings += [ConfigWarning(f"{path}:{line}", "a line without '=' has no effect") for line in ignored]
    for section, name, value, line in entries:
        position = f"{path}:{line}"
        if (section.lower(), name.lower()) in ORIGINAL_ONLY:
            warnings.append(ConfigWarning(position, f"[{section}] {name} has no meaning here"))
            continue
        client = _client_name(section, position)
        keys = CLIENT_KEYS if client else _section_keys(section, position)
        key, in_file = _lookup(keys, name, section, position)
        yield _Setting(key, client, value, in_file, position, folder)


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Setting]:
    sections = {key.section.upper() for key in KEYS}
    for variable, value in environment.items():
        section, _, name = variable.removeprefix(_ENVIRONMENT_PREFIX).partition("_")
        if not variable.startswith(_ENVIRONMENT_PREFIX) or section not in sections:
            continue
        position = f"environment {variable}"
        key, in_file = _lookup(_section_keys(section, position), name, section, position)
        yield _Setting(key, "", value, in_file, position, Path.cwd())


def _from_flags(flags: Mapping[str, str]) -> Iterator[_Setting]:
    for flag, value in flags.items():
        section, _, name = flag.partition(".")
        position = f"flag {flag}"
        key, in_file = _lookup(_section_keys(section, position), name, section, position)
        yield _Setting(key, "", value, in_file, position, Path.cwd())


def _first_wins(layer: Iterable[_Setting], warnings: list[ConfigWarning]) -> dict[tuple[str, str, str], _Setting]:
    """Index one layer; of several settings of a key the first counts, as in TIniFile."""
    settings: dict[tuple[str, str, str], _Setting] = {}
    for setting in layer:
        first = settings.setdefault((setting.key.section, setting.key.attribute, setting.client), setting)
        if first is not setting:
            warnings.append(
                ConfigWarning(setting.position, f"{setting.key.name} is ignored: {first.position} came first")
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
        raise _error(position, f"unknown section [{section}]", _nearest(section, known))
    return keys


def _lookup(keys: Iterable[Key], name: str, section: str, position: str) -> tuple[Key, bool]:
    """The key called `name`, and whether its value is in a file (`NAMEFile`)."""
    names: dict[str, tuple[Key, bool]] = {}
    for key in keys:
        names |= dict.fromkeys((key.name, *key.aliases), (key, False))
        if key.files:
            names[key.name + "File"] = (key, True)
    for known, found in names.items():
        if known.lower() == name.lower():
            return found
    elsewhere = [f"[{key.section}] {key.name}" for key in KEYS if key.name.lower() == name.lower()]
    hint = f"it belongs into {elsewhere[0]}" if elsewhere else _nearest(name, list(names))
    raise _error(position, f"unknown key {name!r} in [{section}]", hint)


def _nearest(word: str, known: list[str]) -> str:
    folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[close[0]]}?" if close else f"known: {', '.join(known)}"


def _build(settings: Mapping[tuple[str, str, str], _Setting]) -> Config:
    """Read every value, in the table's order, and put the tree together."""

    def read(key: Key, client: str = "") -> Any:
        setting = settings.get((key.section, key.attribute, client))
        if setting is None:
            return key.value(key.default, "default")
        _, _, content, in_file, position, folder = setting
        if in_file:
            content = _secret_file(folder / Path(content).expanduser(), position)
        value = key.value(content, position)
        is_path = (key.section, key.attribute) in _PATH_ATTRIBUTES
        if is_path and isinstance(value, str) and value and not is_url(value):
            # Joined as text: the `/` at the end of the log's path is part of the original's file naming.
            return os.path.join(folder, os.path.expanduser(value))
        return value

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
        raise _error(position, f"{error.strerror}: {path}", "the file has to be readable by the relay") from None
    return content.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "surrogateescape")


def _validate(config: Config, name: str, warnings: list[ConfigWarning]) -> None:
    """Check what needs more than one key, or a key that has no usable default."""
    server, relay = config.server, config.relay
    if not server.auth_secret:
        raise _error(name, "[Server] AuthSecret is empty", "set AuthSecret, or AuthSecretFile = PATH")
    if not server.login:
        raise _error(name, "[Server] Login is empty", "set Login and Password of the replication account")
    if not server.ip_addr:
        raise _error(name, "[Server] IPAddr is empty", "name the host of the source")
    if server.tls != "off" and not (server.tls_cert and server.tls_key):
        raise _error(name, f"[Server] TLS = {server.tls} needs a certificate", "set TLSCert and TLSKey")
    if config.cdc.enabled and config.cdc.tls != "off" and not (server.tls_cert and server.tls_key):
        raise _error(name, f"[CDC] TLS = {config.cdc.tls} needs a certificate", "set TLSCert and TLSKey in [Server]")
    for path in (server.tls_cert, server.tls_key, server.source_ca):
        if path and not os.access(path, os.R_OK):
            raise _error(name, f"cannot read {path}", "correct TLSCert, TLSKey or SourceCA in [Server]")
    if server.server_port == server.http_port != 0:
        raise _error(name, f"ServerPort and HTTPPort are both {server.http_port}", "choose two ports")
    if config.cdc.enabled and config.cdc.port and config.cdc.port in (server.server_port, server.http_port):
        raise _error(name, f"[CDC] Port is {config.cdc.port}, as another one is", "choose another port")
    if relay.journal_keep_bytes > relay.journal_max_bytes:
        raise _error(name, "JournalKeepBytes is above JournalMaxBytes", "history cannot exceed the journal's cap")
    if 2 * relay.segment_bytes > relay.journal_max_bytes:
        raise _error(name, "JournalMaxBytes holds fewer than two segments", "lower SegmentBytes in [Relay]")
    for client, settings in config.clients.items():
        if not settings.secret:
            raise _error(name, f"[Client {client}] Secret is empty", "set Secret, or SecretFile = PATH")
    if server.admin_secret and server.admin_secret == server.auth_secret:
        warnings.append(ConfigWarning(name, "AdminSecret equals AuthSecret: every client may give admin commands"))


def _exposed(path: str | None, settings: Iterable[_Setting]) -> Iterator[ConfigWarning]:
    """Secrets that others on this machine can see."""
    files: dict[str, None] = {}
    for setting in settings:
        if setting.key.read is not secret or not setting.content:
            continue
        if setting.in_file:
            files[str(setting.folder / Path(setting.content).expanduser())] = None
        elif setting.position.startswith("flag "):
            text = "who lists processes sees this secret: it belongs into a file, or the environment"
            yield ConfigWarning(setting.position, text)
        elif path is not None and setting.position.startswith(f"{path}:"):
            files[path] = None
    for file in files:
        if os.stat(file).st_mode & stat.S_IROTH:
            yield ConfigWarning(file, "others may read it, and there are secrets in it: chmod o-r")


def _error(position: str, cause: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.CONFIG, "read config", cause, position=position, hint=hint)
