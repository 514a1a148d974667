"""`relay query`: SQL on a lake."""

from __future__ import annotations

import sys
import time
import warnings

import click

from relay.base.errors import printable
from relay.commands.app import cli, configurable
from relay.commands.lake import existing_lake, parse_lake
from relay.commands.loader import Loader
from relay.commands.output import closable_output
from relay.commands.progress import Bar


@cli.command()
@configurable
@click.argument("statement", metavar="SQL")
@click.option("--lake", metavar="PATH", callback=parse_lake, help="Folder or URL of the lake. Default: [Lake] Path.")
@click.option("--as-of", "moment", metavar="MOMENT",
              help="State at a _seq, after a GTID, or at a time: 2026-11-20T09:30:00Z.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True,
              help="A table that fits the terminal, or all rows as CSV or as lines of JSON.")  # fmt: skip
def query(load: Loader, statement: str, lake: str, moment: str | None, form: str) -> None:
    """Run a SELECT on a lake, with DuckDB.

    SCHEMA.TABLE has the rows of a table, as its last export left them. changes.SCHEMA.TABLE has its changes.
    """
    from relay.lake import query as queries

    path = existing_lake(load, lake)
    as_of = int(moment) if moment and moment.isdecimal() else moment
    began = time.monotonic()
    with Bar(sys.stderr, "reading") as bar, closable_output():
        rows = 0

        def watch(more: int, total: int) -> None:
            nonlocal rows
            rows += more
            seconds = time.monotonic() - began
            bar.show(seconds, min(1.0, rows / total), f"{rows:,} rows  {rows / seconds:,.0f} rows/s")

        with warnings.catch_warnings(record=True) as noted, queries.query(path, statement, as_of, watch) as result:
            bar.remove()
            for text in dict.fromkeys(str(each.message) for each in noted):
                click.echo(f"relay: note: {printable(text)}", err=True)
            queries.write(result, form)
