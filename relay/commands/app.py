"""The `relay` command: the group of commands, the options of the configuration, `start` and `completion`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from relay import __version__
from relay.commands.loader import Loader
from relay.config.load import ConfigWarning

_MODULES: Final = {  # by command, the module of this folder that defines it
    "cdc": "cdc_users",
    "check": "run",
    "client": "clients",
    "drain": "run",
    "explain": "clients",
    "export": "lake",
    "init": "init",
    "pause": "run",
    "query": "query",
    "reload": "clients",
    "repair": "run",
    "resume": "run",
    "schema": "run",
    "snapshot": "lake",
    "spark": "spark",
    "stat": "run",
    "stop": "run",
    "tail": "run",
    "verify": "run",
}


class _Commands(click.Group):
    """Import the module of a command when that command runs, so that `start` does not load the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_MODULES, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULES:
            import_module(f"relay.commands.{_MODULES[cmd_name]}")
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="relay %(version)s", help="Show the version and exit.")
def cli() -> None:
    """Relay the changes of a MySQL or MariaDB server to any number of clients."""


def _parse_set(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    flags: dict[str, str] = {}
    for value in values:
        key, separator, content = value.partition("=")
        if not separator:
            raise click.BadParameter(f"{value!r} is not SECTION.KEY=VALUE")
        flags[key.strip()] = content.strip()
    return flags


with_flags: Final = click.option(
    "--set", "flags", metavar="SECTION.KEY=VALUE", multiple=True, callback=_parse_set,
    help="Override a configuration key. Repeatable.",
)  # fmt: skip
"""The option `--set`."""


_WARNING: Final = frozenset({"start", "check"})
"""Commands that show the warnings of the configuration."""

_CONNECTING: Final = frozenset({"start", "check", "verify", "repair", "snapshot"})
"""Commands that connect to the source."""


def configurable(command: Callable[..., None]) -> Callable[..., None]:
    """Add `-c`, `--data` and `--set` to a command. Its first argument is the `Loader` of the configuration."""

    @click.option("-c", "--config", "path", metavar="FILE", help="Configuration file.")
    @click.option("--data", "folder", metavar="FOLDER", help="Folder for data with a relay.conf.")
    @with_flags
    @wraps(command)
    def wrapper(path: str | None, folder: str | None, flags: Mapping[str, str], **arguments: Any) -> None:
        name = click.get_current_context().command.name

        def warn(warning: ConfigWarning) -> None:
            if name in _WARNING:
                click.echo(f"relay: warning: {warning}", err=True)

        command(Loader(path, folder, flags, name in _CONNECTING, warn), **arguments)

    return wrapper


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Like `configurable`, but the first argument is the configuration."""

    @configurable
    @wraps(command)
    def wrapper(load: Loader, **arguments: Any) -> None:
        command(load(), **arguments)

    return wrapper


with_url: Final = click.argument("url", required=False, metavar="[URL]")
"""The argument that names the source."""


@cli.command()
@configurable
@with_url
@click.option("--accept-gap", is_flag=True, help="Continue after lost events, and record the gap.")
@click.pass_context
def start(context: click.Context, load: Loader, url: str | None, accept_gap: bool) -> None:
    """Run the relay in the foreground.

    Run until SIGTERM, SIGINT or `relay stop`. SIGHUP reloads the configuration.

    With the URL of the source, mysql://LOGIN@HOST/, no configuration is necessary. The password is in the URL or in
    RELAY_PASSWORD, or the relay asks for it. What the relay makes, such as the secret of the clients, is kept in FOLDER
    (default: relay-data) in relay.conf.
    """
    from relay.commands.start import run  # few commands need the native core

    if (folder := load.keep(url)) is not None:
        shown = f"clients log in with AuthSecret of {load.file}; relay tail --data {shlex.quote(folder)} prints rows"
        click.echo(f"relay: note: {shown}", err=True)
    context.exit(run(load, accept_gap))


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completion(shell: str) -> None:
    """Print a script for the completion of commands and options.

    For bash: source <(relay completion bash)
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "relay", "_RELAY_COMPLETE").source())
