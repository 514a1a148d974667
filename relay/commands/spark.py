"""The commands of `relay spark`: jobs on a lake, on this machine or on a cluster, through spark-submit."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from relay.base.errors import printable
from relay.commands.app import cli, configurable
from relay.commands.lake import existing_lake, parse_lake, parse_tables
from relay.commands.loader import Loader
from relay.commands.progress import Bar


@cli.group()
def spark() -> None:
    """Run a Spark job on a lake, on this machine or on a cluster."""


_of_lake = click.option("--lake", metavar="PATH", callback=parse_lake,
                        help="Folder or URL of the lake. Default: [Lake] Path.")  # fmt: skip
_of_tables = click.option("--table", "patterns", metavar="SCHEMA.TABLE", multiple=True, callback=parse_tables,
                          help="Only these tables; * matches any name. Repeatable.")  # fmt: skip


def job(command: Callable[..., dict[str, str]]) -> Callable[..., None]:
    """Make a command of a function that converts its own options to those of the job of the same name."""

    @configurable
    @_of_lake
    @_of_tables
    @click.option("--master", metavar="URL", default="local[*]", show_default=True, callback=_parse_master,
                  help="Spark master.")  # fmt: skip
    @click.option("--conf", "settings", metavar="KEY=VALUE", multiple=True, callback=_parse_settings,
                  help="Spark setting. Repeatable.")  # fmt: skip
    @wraps(command)
    def wrapper(load: Loader, lake: str, patterns: list[str], master: str, settings: list[str], **own: Any) -> None:
        path = existing_lake(load, lake)
        options = command(**own)
        from relay.spark import jobs, submit

        submit.prepare(command.__name__, master, settings)
        began = time.monotonic()
        with Bar(sys.stderr, command.__name__) as bar:

            def show(what: str, done: int, rows: int, left: float) -> None:
                text = f"{done:,} of {rows:,} rows  {left:,.0f} s left  {printable(what)}"
                bar.show(time.monotonic() - began, done / rows, text)

            for line in jobs.run(command.__name__, path, patterns, options, show):
                bar.remove()
                click.echo(line)

    return wrapper


def _parse_master(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.startswith(("local", "yarn", "spark://", "k8s://")):
        raise click.BadParameter(f"{value!r} is not local[N], spark://HOST:PORT, yarn or k8s://URL")
    return value


def _parse_settings(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return list(values)


@spark.command()
@configurable
@click.argument("project", metavar="FOLDER", type=click.Path(path_type=Path))
@_of_lake
@_of_tables
def init(load: Loader, project: Path, lake: str, patterns: list[str]) -> None:
    """Write a project for `spark-pipelines run`.

    FOLDER gets a streaming table of the changes of each table, and a view of its rows.
    """
    from relay.lake.tables import find_table, open_log
    from relay.spark.jobs import selected_tables
    from relay.spark.project import write_project

    log = open_log(existing_lake(load, lake))
    chosen, state = selected_tables(log, patterns), log.state()
    tables = [find_table(state, table) for table in chosen]
    for written in write_project(project, log.storage.url(), [table for table in tables if table.versions]):
        click.echo(written)
    click.echo(f"run: cd {shlex.quote(str(project))} && spark-pipelines run")


@spark.command()
@job
@click.option("--grace", type=click.FloatRange(min=0), default=24.0, show_default=True, metavar="HOURS",
              help="Keep the files of earlier versions this long, for jobs that read them.")  # fmt: skip
@click.option("--into", metavar="CATALOG.SCHEMA.TABLE",
              help="Merge one table into a table of a catalog instead, with MERGE.")  # fmt: skip
def merge(grace: float, into: str | None) -> dict[str, str]:
    """Update the merged state of tables to the end of the export."""
    return {"grace": str(grace * 3600)} | ({"into": into} if into else {})


def _file(*suffixes: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return the callback of an option that names a file of these kinds."""

    def check(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value and not value.endswith(suffixes):
            raise click.BadParameter(f"{value!r} does not end in {' or '.join(suffixes)}")
        if value and not Path(value).absolute().parent.is_dir():
            raise click.BadParameter(f"there is no folder {str(Path(value).absolute().parent)!r}")
        return value

    return check


@spark.command()
@job
@click.option("--out", metavar="FILE", callback=_file(".csv", ".parquet"),
              help="Write the counts to a .csv or .parquet file.")  # fmt: skip
@click.option("--plot", metavar="FILE", callback=_file(".png", ".html"),
              help="Plot the counts to a .png or .html file.")  # fmt: skip
def usage(out: str | None, plot: str | None) -> dict[str, str]:
    """Count rows by table, kind and hour."""
    return {name: value for name, value in (("out", out), ("plot", plot)) if value}


@spark.command()
@job
@click.option("--target", type=click.IntRange(min=1), default=64, show_default=True, metavar="MIB",
              help="Approximate size of the merged files.")  # fmt: skip
@click.option("--grace", type=click.FloatRange(min=0, max=48), default=24.0, show_default=True, metavar="HOURS",
              help="Keep unreferenced files this long, for jobs that still read or commit them.")  # fmt: skip
def compact(target: int, grace: float) -> dict[str, str]:
    """Merge small files, and delete unreferenced ones. No commit refers to the deleted files."""
    return {"target": str(target << 20), "grace": str(grace * 3600)}
