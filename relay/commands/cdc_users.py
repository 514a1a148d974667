"""The commands for users of the CDC port. A running relay applies changes by itself."""

from __future__ import annotations

from typing import BinaryIO

import click

from relay.base.errors import ErrorCode, RelayError, printable
from relay.cdc import users
from relay.commands.app import cli, configured
from relay.config.tree import Config


@cli.group()
def cdc() -> None:
    """List, add and remove the users of the CDC port."""


@cdc.command("add-user")
@click.argument("name")
@click.option("--password-file", "file", type=click.File("rb"), metavar="FILE",
              help="Read the password from the first line of FILE; - is standard input.")  # fmt: skip
@configured
def add_user(config: Config, name: str, file: BinaryIO | None) -> None:
    """Add user NAME, or change its password. Without --password-file, prompt for the password."""
    if file:
        password = file.readline().rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    new = users.add(users.path_of(config), name, password)
    click.echo(f"{'added' if new else 'changed the password of'} {name}")


@cdc.command("list-users")
@configured
def list_users(config: Config) -> None:
    """List the users, one per line. The account on the source is not listed."""
    for name in users.names(users.path_of(config)):
        click.echo(printable(name))


@cdc.command("remove-user")
@click.argument("name")
@configured
def remove_user(config: Config, name: str) -> None:
    """Remove user NAME. Its open connections continue."""
    path = users.path_of(config)
    if not users.remove(path, name):
        hint = "`relay cdc list-users` lists the users"
        cause = f"there is no such user in {path}"
        raise RelayError(ErrorCode.USAGE, "remove CDC user", cause, position=name, hint=hint)
    click.echo(f"removed {name}")
