"""The verbs of the CDC port: its users. A relay that runs takes changes up by itself."""

from __future__ import annotations

from typing import BinaryIO

import click

from relay.cdc import users
from relay.config import Config
from relay.errors import ErrorCode, RelayError, printable
from relay.verbs import cli, configured


@cli.group()
def cdc() -> None:
    """List, add and remove the users of the CDC port."""


@cdc.command("add-user")
@click.argument("name")
@click.option(
    "--password-file", "file", type=click.File("rb"), help="Its first line is the password; - is standard input."
)
@configured
def add_user(config: Config, name: str, file: BinaryIO | None) -> None:
    """Let NAME log in, or change its password; without --password-file it is asked for."""
    if file:
        password = file.readline().rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    new = users.add(users.path_of(config), name, password)
    click.echo(f"{'added' if new else 'changed the password of'} {name}")


@cdc.command("list-users")
@configured
def list_users(config: Config) -> None:
    """Show who may log in, a name a line; the account on the source is not among them."""
    for name in users.names(users.path_of(config)):
        click.echo(printable(name))


@cdc.command("remove-user")
@click.argument("name")
@configured
def remove_user(config: Config, name: str) -> None:
    """Let NAME log in no more; a connection that it has goes on."""
    path = users.path_of(config)
    if not users.remove(path, name):
        hint = "`relay cdc list-users` shows who is there"
        raise RelayError(
            ErrorCode.USAGE, "remove CDC user", f"there is no such user in {path}", position=name, hint=hint
        )
    click.echo(f"removed {name}")
