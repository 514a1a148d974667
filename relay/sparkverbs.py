"""The verbs of `relay spark`: jobs over a lake, on this machine or on a cluster, through spark-submit."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from relay.config import Config
from relay.lakeverbs import lake_of, parse_lake, parse_tables
from relay.verbs import cli, configurable


@cli.group()
def spark() -> None:
    """Jobs over a lake, on this machine or on any cluster of Spark."""


def job(verb: Callable[..., dict[str, str]]) -> Callable[..., None]:
    """Make a verb of a function that turns options of its own into those of the job of its name."""

    @configurable
    @click.option("--lake", metavar="PATH", callback=parse_lake, help="Folder or URL of the lake; default [Lake] Path.")
    @click.option("--table", "patterns", metavar="SCHEMA.TABLE", multiple=True, callback=parse_tables,
                  help="Only these tables, * for any name; may be repeated.")  # fmt: skip
    @click.option("--master", metavar="URL", default="local[*]", show_default=True, callback=_parse_master,
                  help="Where Spark runs.")  # fmt: skip
    @click.option("--conf", "settings", metavar="KEY=VALUE", multiple=True, callback=_parse_settings,
                  help="A setting of Spark; may be repeated.")  # fmt: skip
    @wraps(verb)
    def wrapper(
        load: Callable[[], Config], lake: str, patterns: list[str], master: str, settings: list[str], **own: Any
    ) -> None:
        path = lake or lake_of(load(), "", "--lake")
        options = verb(**own)
        from relay.spark import jobs, submit

        submit.prepare(verb.__name__, master, settings)
        for line in jobs.run(verb.__name__, path, patterns, options):
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
@job
@click.option("--grace", type=click.FloatRange(min=0), default=24.0, show_default=True, metavar="HOURS",
              help="How long the files of earlier versions stay for who reads them.")  # fmt: skip
def merge(grace: float) -> dict[str, str]:
    """Bring the merged state of tables to the end of the export."""
    return {"grace": str(grace * 3600)}


def _file(*suffixes: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """The callback of an option that names a file of these kinds."""

    def check(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value and not value.endswith(suffixes):
            raise click.BadParameter(f"{value!r} ends in none of {', '.join(suffixes)}")
        return value

    return check


@spark.command()
@job
@click.option("--out", metavar="FILE", callback=_file(".csv", ".parquet"),
              help="Write the rows to a .csv or .parquet file.")  # fmt: skip
@click.option("--plot", metavar="FILE", callback=_file(".png", ".html"), help="Draw them into a .png or .html file.")
def usage(out: str | None, plot: str | None) -> dict[str, str]:
    """Count rows by table, kind and hour."""
    return {name: value for name, value in (("out", out), ("plot", plot)) if value}


@spark.command()
@job
@click.option("--target", type=click.IntRange(min=1), default=64, show_default=True, metavar="MIB",
              help="About how large the merged files become.")  # fmt: skip
@click.option("--grace", type=click.FloatRange(min=0), default=24.0, show_default=True, metavar="HOURS",
              help="How long files that no commit refers to stay: for who reads or commits them yet.")  # fmt: skip
def compact(target: int, grace: float) -> dict[str, str]:
    """Merge small files into larger ones, and delete those that no commit refers to."""
    return {"target": str(target << 20), "grace": str(grace * 3600)}
