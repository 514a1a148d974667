"""The `relay` command: the group of commands, the options of the configuration, `start` and `completion`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from relay import __version__
from relay.config import load as configuration
from relay.config.tree import Config

_MODULES: Final = {  # by command, the module of this folder that defines it
    "cdc": "cdc_users",
    "check": "run",
    "client": "clients",
    "drain": "run",
    "explain": "clients",
    "export": "lake",
    "init": "init",
    "pause": "run",
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


def configurable(command: Callable[..., None]) -> Callable[..., None]:
    """Add `-c` and `--set` to a command. Its first argument is a function that loads the configuration."""

    @click.option("-c", "--config", "path", metavar="FILE", help="Configuration file.")
    @with_flags
    @wraps(command)
    def wrapper(path: str | None, flags: Mapping[str, str], **arguments: Any) -> None:
        found = configuration.find(path)

        def load() -> Config:
            config, warnings = configuration.load(found, os.environ, flags)
            if click.get_current_context().command.name in ("start", "check"):
                for warning in warnings:
                    click.echo(f"relay: warning: {warning}", err=True)
            return config

        command(load, **arguments)

    return wrapper


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Like `configurable`, but the first argument is the configuration."""

    @configurable
    @wraps(command)
    def wrapper(load: Callable[[], Config], **arguments: Any) -> None:
        command(load(), **arguments)

    return wrapper


@cli.command()
@configurable
@click.option("--accept-gap", is_flag=True, help="Continue after lost events, and record the gap.")
@click.pass_context
def start(context: click.Context, load: Callable[[], Config], accept_gap: bool) -> None:
    """Run the relay in the foreground.

    Run until SIGTERM, SIGINT or `relay stop`. SIGHUP reloads the configuration.
    """
    from relay.commands.start import run  # few commands need the native core

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
