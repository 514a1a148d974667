"""`relay init`: asks for the source, the clients' secret and the folder for data, checks all, and writes relay.conf."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from relay.base.errors import ErrorCode, RelayError
from relay.commands import conf_file
from relay.commands.app import cli, with_flags, with_url
from relay.commands.loader import LOOPBACK
from relay.config import load as configuration
from relay.config import source_url
from relay.config.keys import KEYS, Key
from relay.config.values import secret
from relay.runtime import privileges


class _Question(NamedTuple):
    """A key that is asked for. `default` is None if it must be given."""

    section: str
    name: str
    text: str
    default: str | None = None

    @property
    def key(self) -> Key:
        return next(key for key in KEYS if (key.section, key.name) == (self.section, self.name))

    @property
    def flag(self) -> str:
        """The key as `--set` has it."""
        return f"{self.section}.{self.name}"

    def ask(self) -> str:
        """Return the answer of a person at the terminal."""
        hidden = self.key.read is secret
        default = "" if hidden else self.default
        answer = click.prompt(
            self.text, default, hide_input=hidden, show_default=not hidden, value_proc=self._checked, err=True
        )
        return str(answer) or self.default or ""

    def _checked(self, answer: str) -> str:
        """Return the answer. Raises `click.UsageError`, after which click asks again."""
        try:
            self.key.value(answer, "")
        except RelayError as error:
            raise click.UsageError(error.cause) from None
        return os.path.abspath(os.path.expanduser(answer)) if self.name == "DataDir" else answer


def _questions(folder: Path) -> tuple[_Question, ...]:
    from relay.commands.checks.host import is_usable  # imports a database driver that few commands need

    defaults = {(key.section, key.name): key.default for key in KEYS}
    data = Path(defaults["Relay", "DataDir"])
    return (
        _Question("Server", "IPAddr", "Host of the source", defaults["Server", "IPAddr"]),
        _Question("Server", "Port", "Port of the source", defaults["Server", "Port"]),
        _Question("Server", "Login", "Account on the source"),
        _Question("Server", "Password", "Password of that account"),
        _Question("Server", "AuthSecret", "Secret of the clients (empty: a new one)", secrets.token_hex(16)),
        _Question("Relay", "DataDir", "Folder for data", str(data if is_usable(data) else folder / configuration.DATA)),
    )


@cli.command()
@click.option("-c", "--config", "path", default="relay.conf", show_default=True, metavar="FILE", help="File to write.")
@with_flags
@click.option("-y", "--yes", is_flag=True, help="Ask nothing, take the defaults, and write even if a check fails.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@with_url
def init(path: str, flags: Mapping[str, str], yes: bool, force: bool, url: str | None) -> None:
    """Ask for the source, check it, and write a configuration.

    The URL mysql://LOGIN@HOST/ gives the source beforehand.

    --set and the environment give keys beforehand, such as --set Server.IPAddr=db1 or RELAY_SERVER_PASSWORD. Without a
    terminal, they have to give Login and Password of [Server].
    """
    from relay.commands import check  # imports a database driver that few commands need

    if url is not None:
        source = source_url.parse(url)
        password = {} if source.password is None else {"Server.Password": source.password}
        flags = {**flags, **source.settings, **password}
    target = Path(path).resolve()
    asks = not yes and sys.stdin.isatty()
    _may_write(target, path, asks, force)
    known = {(one.key.section, one.key.name) for one in configuration.given(os.environ, flags)}
    if asks:
        click.echo(
            f"This asks for the source, checks it, and writes {path}. Ctrl-C ends it and writes nothing.", err=True
        )
    questions = [each for each in _questions(target.parent) if (each.section, each.name) not in known]
    answers = {each.flag: each.ask() for each in questions} if asks else _defaults(questions)
    if ("Server", "BindAddress") not in known:
        answers["Server.BindAddress"] = LOOPBACK
    settings = {**flags, **answers}
    config, _ = configuration.load(None, os.environ, settings)
    content = conf_file.content(configuration.given(os.environ, settings), "relay init")
    cause = check.report(config)
    if cause and not yes and not (asks and click.confirm(f"{cause}. Write {path} all the same?", err=True)):
        hint = "apply the remedies above and run it again; --yes writes the file all the same"
        raise RelayError(ErrorCode.CHECK_FAILED, "init", f"{cause}; {path} is not written", hint=hint)
    # The relay becomes this user, who must be able to read the file at a reload.
    conf_file.write(target, content, privileges.owner(config.relay.user))
    named = shlex.quote(path)
    click.echo(f"wrote {path}; AuthSecret in it is the secret of the clients\n\nnext:")
    if cause:
        click.echo(f"  apply the remedies above; relay check -c {named}")
    click.echo(f"  relay start -c {named}\n  relay tail -c {named}    # in another terminal: shows each changed row")


def _may_write(target: Path, path: str, asks: bool, force: bool) -> None:
    """Raise `RelayError` if the file may not be written, before anything is asked."""
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise RelayError(
            ErrorCode.ENVIRONMENT, "init", f"cannot write to {target.parent}", hint="name another file with -c"
        )
    if target.exists() and not force and not (asks and click.confirm(f"{path} exists. Overwrite it?", err=True)):
        raise RelayError(ErrorCode.USAGE, "init", f"{path} exists", hint="--force overwrites it, -c names another file")


def _defaults(questions: list[_Question]) -> dict[str, str]:
    """Return the answers if nobody can be asked. Raises `RelayError` that names the missing keys."""
    missing = [each.flag for each in questions if each.default is None]
    if missing:
        variables = ", ".join(f"RELAY_{flag.upper().replace('.', '_')}" for flag in missing)
        cause = f"{' and '.join(missing)} must be given without a terminal, and with --yes"
        hint = f"--set {missing[0]}=..., or the environment: {variables}"
        raise RelayError(ErrorCode.USAGE, "init", cause, hint=hint)
    return {each.flag: each.default or "" for each in questions}
