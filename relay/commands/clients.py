"""The commands that act on the clients of the running relay."""

from __future__ import annotations

import click
import msgspec

from relay.base.errors import ErrorCode, RelayError
from relay.commands import admin_client
from relay.commands.admin_client import Target, administrative
from relay.commands.app import cli
from relay.commands.text import clients as client_text
from relay.commands.text import explain
from relay.monitoring.deliveries import Delivery
from relay.monitoring.explain import Explanation
from relay.monitoring.stat import Client
from relay.runtime.reload import Outcome


@cli.command()
@administrative
@click.option("--json", "as_json", is_flag=True, help="Print JSON on one line.")
def reload(target: Target, as_json: bool) -> None:
    """Reload the configuration, and print what changed."""
    with target.connect() as connection:
        try:
            answer = connection.reload()
        except RelayError as error:
            if error.code is ErrorCode.ADMIN_REFUSED and target.tcp:
                error.hint = f"{error.hint}; where AdminSecret itself has changed: `relay reload` on its own machine"
            raise
    outcome = admin_client.converted(answer, Outcome)
    click.echo(msgspec.json.encode(answer).decode() if as_json else _reloaded(outcome))
    if outcome.missing:
        hint = "each process retries by itself; `relay stat` shows the state of the processes"
        cause = f"these processes do not use the new configuration yet: {', '.join(outcome.missing)}"
        raise RelayError(ErrorCode.UNEXPECTED, "reload", cause, hint=hint)


def _reloaded(outcome: Outcome) -> str:
    lines = [f"changed: {', '.join(outcome.changed)}" if outcome.changed else "nothing changed"]
    if outcome.restarted:
        lines.append(f"restarted: {', '.join(outcome.restarted)}")
    if outcome.waiting:
        lines.append(f"needs a restart of the relay: {', '.join(outcome.waiting)}")
    return "\n".join(lines)


@cli.command("explain")
@click.argument("table", metavar="SCHEMA.TABLE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on one line.")
@administrative
def explain_table(target: Target, table: str, as_json: bool) -> None:
    """Show which clients get the events of a table. Say why, and which filters nearly match."""
    schema, _, name = table.partition(".")
    if not schema or not name:
        raise click.BadParameter("a table is SCHEMA.TABLE")
    with target.connect() as connection:
        found = connection.explain(schema, name)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo(explain.text(admin_client.converted(found, Explanation)))


@cli.group()
def client() -> None:
    """List clients, or act on one."""


@client.command()
@click.argument("name")
@administrative
def flush(target: Target, name: str) -> None:
    """Drop all rows in the client's queue."""
    with target.connect() as connection:
        answer = connection.flush(name)
    click.echo(f"flushed {name}: {answer.get('dropped', 0)} rows dropped")


@client.command()
@click.argument("name")
@administrative
def forget(target: Target, name: str) -> None:
    """Remove the client with its filters, queue and counters."""
    with target.connect() as connection:
        connection.forget(name)
    click.echo(f"forgot {name}")


@client.command()
@click.argument("name")
@click.argument("position")
@administrative
def seek(target: Target, name: str, position: str) -> None:
    """Move the client to POSITION: newest, oldest or FILE:POS."""
    with target.connect() as connection:
        answer = connection.seek(name, position)
    click.echo(f"{name} continues at {answer.get('position', position)}")


@client.command("list")
@click.argument("name", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on one line.")
@administrative
def list_clients(target: Target, name: str, as_json: bool) -> None:
    """List clients, or show one. With NAME, show its filters and last ten deliveries."""
    with target.connect() as connection:
        found = connection.clients(name)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    clients = admin_client.converted(found["clients"], list[Client])
    if name:
        click.echo(client_text.details(clients[0], admin_client.converted(found["deliveries"], list[Delivery])))
    else:
        click.echo(client_text.table(clients))


@client.command()
@click.argument("name")
@administrative
def skip(target: Target, name: str) -> None:
    """Skip the next row of the client. Use it for a row that the client fetches again and again and never confirms."""
    with target.connect() as connection:
        answer = connection.skip(name)
    sequence = answer.get("sequence")
    click.echo(f"skipped the row with sequence {sequence} of {name}" if sequence else f"no row waits for {name}")


@client.command()
@click.argument("name")
@administrative
def kick(target: Target, name: str) -> None:
    """Close the client's connection. The client keeps its filters and queue, and may reconnect."""
    with target.connect() as connection:
        answer = connection.kick(name)
    click.echo(f"kicked {name}" if answer.get("connected") else f"{name} is not connected")
