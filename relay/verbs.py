"""The `relay` command's verbs: where each is, how it gets its configuration, and those that need nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, Final

import click

from relay import __version__
from relay import config as configuration
from relay.config import Config

_ELSEWHERE: Final = {  # the module of a verb
    "cdc": "cdcverbs",
    "check": "runverbs",
    "client": "adminverbs",
    "drain": "runverbs",
    "explain": "adminverbs",
    "export": "lakeverbs",
    "pause": "runverbs",
    "reload": "adminverbs",
    "repair": "runverbs",
    "resume": "runverbs",
    "schema": "runverbs",
    "snapshot": "lakeverbs",
    "spark": "sparkverbs",
    "stat": "runverbs",
    "stop": "runverbs",
    "tail": "runverbs",
    "verify": "runverbs",
}


class _Verbs(click.Group):
    """Imports the module of a verb when that verb is asked for: a relay that starts has no use for the others'."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_ELSEWHERE, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ELSEWHERE:
            import_module(f"relay.{_ELSEWHERE[cmd_name]}")
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
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


def configurable(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb `-c` and `--set`, and hand it as its first argument what loads the configuration."""

    @click.option("-c", "--config", "path", metavar="FILE", help="Configuration file.")
    @click.option("--set", "flags", metavar="SECTION.KEY=VALUE", multiple=True, callback=_parse_set,
                  help="Override a key of the configuration; may be repeated.")  # fmt: skip
    @wraps(verb)
    def wrapper(path: str | None, flags: Mapping[str, str], **arguments: Any) -> None:
        found = configuration.find(path)

        def load() -> Config:
            config, warnings = configuration.load(found, os.environ, flags)
            if click.get_current_context().command.name in ("start", "check"):
                for warning in warnings:
                    click.echo(f"relay: warning: {warning}", err=True)
            return config

        verb(load, **arguments)

    return wrapper


def configured(verb: Callable[..., None]) -> Callable[..., None]:
    """As `configurable`, with the configuration itself."""

    @configurable
    @wraps(verb)
    def wrapper(load: Callable[[], Config], **arguments: Any) -> None:
        verb(load(), **arguments)

    return wrapper


@cli.command()
@configurable
@click.option("--accept-gap", is_flag=True, help="Go on after events that are lost, and record the gap.")
@click.pass_context
def start(context: click.Context, load: Callable[[], Config], accept_gap: bool) -> None:
    """Run in the foreground until SIGTERM, SIGINT or `relay stop`; SIGHUP reloads the configuration."""
    from relay import supervisor  # the native core is needed by this verb only

    context.exit(supervisor.run(load, accept_gap))


@cli.command()
@click.option("-c", "--config", metavar="FILE", expose_value=False, help="Accepted as by every verb; not read.")
def version() -> None:
    """Print the version."""
    click.echo(f"relay {__version__}")
