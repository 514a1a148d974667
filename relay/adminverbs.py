"""The verbs by which an administrator acts on the clients of the running relay."""

from __future__ import annotations

import signal

import click
import msgspec

from relay import admin, clienttext, explaintext
from relay.config import Config
from relay.deliveries import Delivery
from relay.errors import ErrorCode, RelayError
from relay.explain import Explanation
from relay.reload import Outcome
from relay.runverbs import signal_relay
from relay.stat import Client
from relay.verbs import cli, configured


@cli.command()
@configured
@click.option("--json", "as_json", is_flag=True, help="The answer itself, on one line.")
def reload(config: Config, as_json: bool) -> None:
    """Have the running relay read its configuration anew, and say what came of it."""
    if not config.server.admin_secret:
        pid = admin.running_pid(config)
        signal_relay(config, signal.SIGHUP, "reload")
        click.echo(f"process {pid} was told to; its log says what came of it")
        return
    with admin.connect(config) as connection:
        try:
            answer = connection.reload()
        except RelayError as error:
            if error.code is ErrorCode.ADMIN_REFUSED:
                error.hint = (
                    f"{error.hint}; where AdminSecret itself has changed: kill -HUP {admin.running_pid(config)}"
                )
            raise
    outcome = admin.converted(answer, Outcome)
    click.echo(msgspec.json.encode(answer).decode() if as_json else _reloaded(outcome))
    if outcome.missing:
        hint = "each takes it as soon as it can; `relay stat` shows whether they live"
        cause = f"the new configuration is not in use yet by {', '.join(outcome.missing)}"
        raise RelayError(ErrorCode.UNEXPECTED, "reload", cause, hint=hint)


def _reloaded(outcome: Outcome) -> str:
    lines = [f"changed: {', '.join(outcome.changed)}" if outcome.changed else "nothing has changed"]
    if outcome.restarted:
        lines.append(f"restarted: {', '.join(outcome.restarted)}")
    if outcome.waiting:
        lines.append(f"needs a restart of the relay: {', '.join(outcome.waiting)}")
    return "\n".join(lines)


@cli.command("explain")
@click.argument("table", metavar="SCHEMA.TABLE")
@click.option("--json", "as_json", is_flag=True, help="The answer itself, on one line.")
@configured
def explain_table(config: Config, table: str, as_json: bool) -> None:
    """Say which clients would get the events of a table and why, and which filters just miss it."""
    schema, _, name = table.partition(".")
    if not schema or not name:
        raise click.BadParameter("a table is SCHEMA.TABLE")
    with admin.connect(config) as connection:
        found = connection.explain(schema, name)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo(explaintext.text(admin.converted(found, Explanation)))


@cli.group()
def client() -> None:
    """List the clients, or act on one of them."""


@client.command()
@click.argument("name")
@configured
def flush(config: Config, name: str) -> None:
    """Drop what waits in the client's queue."""
    with admin.connect(config) as connection:
        answer = connection.flush(name)
    click.echo(f"flushed {name}: {answer.get('dropped', 0)} rows dropped")


@client.command()
@click.argument("name")
@configured
def forget(config: Config, name: str) -> None:
    """Remove the client with its filters, queue and counters."""
    with admin.connect(config) as connection:
        connection.forget(name)
    click.echo(f"forgot {name}")


@client.command()
@click.argument("name")
@click.argument("position")
@configured
def seek(config: Config, name: str, position: str) -> None:
    """Have the client continue at POSITION: newest, oldest or FILE:POS."""
    with admin.connect(config) as connection:
        answer = connection.seek(name, position)
    click.echo(f"{name} continues at {answer.get('position', position)}")


@client.command("list")
@click.argument("name", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="The answer itself, on one line.")
@configured
def list_clients(config: Config, name: str, as_json: bool) -> None:
    """Show the clients; with NAME that one, its filters and its last ten deliveries."""
    with admin.connect(config) as connection:
        found = connection.clients(name)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    clients = admin.converted(found["clients"], list[Client])
    if name:
        click.echo(clienttext.details(clients[0], admin.converted(found["deliveries"], list[Delivery])))
    else:
        click.echo(clienttext.table(clients))


@client.command()
@click.argument("name")
@configured
def skip(config: Config, name: str) -> None:
    """Leave out the row that the client is handed out next: one that it takes again and again and never confirms."""
    with admin.connect(config) as connection:
        answer = connection.skip(name)
    sequence = answer.get("sequence")
    click.echo(f"skipped the row with sequence {sequence} of {name}" if sequence else f"no row waits for {name}")


@client.command()
@click.argument("name")
@configured
def kick(config: Config, name: str) -> None:
    """End the client's connection; it keeps filters and queue, and may come back."""
    with admin.connect(config) as connection:
        answer = connection.kick(name)
    click.echo(f"kicked {name}" if answer.get("connected") else f"{name} is not connected")
