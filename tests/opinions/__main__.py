"""python -m tests.opinions [KIND...]: the corpus, read by the relay, by Debezium's parser, by sqlglot and by sqloxide.

Prints the figures of docs/internals/ddl-corpus.md.
"""

from __future__ import annotations

import re

import click

from examples.dbserver import KINDS, DatabaseServer
from tests.opinions.debezium import Debezium
from tests.opinions.logged import Case, cases
from tests.opinions.parsers import Outcome, compared


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(list(KINDS)))
def main(kinds: tuple[str, ...]) -> None:
    """Run the corpus on each server, and compare."""
    with Debezium() as debezium:
        click.echo(f"Debezium {debezium.version}\n")
        for kind in kinds or KINDS:
            with DatabaseServer(kind) as server:
                _tell(KINDS[kind].title, list(cases(server)), debezium)


def _tell(title: str, found: list[Case], debezium: Debezium) -> None:
    wrong = [case for case in found if case.ours.wrong]
    unknown = [case for case in found if case.ours.unknown and not case.ours.wrong]
    faults = [(case, *fault) for case in found if (fault := debezium.fault(case))[1]]
    refused = sum(why.startswith("refused: ") for *_, why in faults)
    click.echo(f"## {title}\n")
    click.echo(
        f"| {len(found)} cases | right | does not know, or refuses | wrong without an error |\n|---|---|---|---|"
    )
    click.echo(f"| ours | {len(found) - len(wrong) - len(unknown)} | {len(unknown)} | {len(wrong)} |")
    click.echo(f"| Debezium | {len(found) - len(faults)} | {refused} | {len(faults) - refused} |\n")
    counts = compared([each for case in found for step in case.steps for each in step.statements])
    click.echo(
        f"| {sum(counts['sqlglot'].values())} statements | {' | '.join(Outcome)} |\n|---|{'---|' * len(Outcome)}"
    )
    for parser, count in counts.items():
        click.echo(f"| {parser} | {' | '.join(str(count[outcome]) for outcome in Outcome)} |")
    click.echo("\nOurs does not know:\n")
    for case in unknown:
        click.echo(f"- *{case.name}*: {_short(case.ours.unknown[0])}")
    click.echo("\nDebezium's parser is wrong, or refuses:\n")
    for case, statement, why in faults:
        click.echo(f"- *{case.name}*: `{_short(statement)}`: {_short(why)}")
    click.echo("")


def _short(text: str) -> str:
    text = re.sub(r"\s+", " ", text).replace("`", "'")
    return text if len(text) <= 160 else text[:157] + "..."


if __name__ == "__main__":
    main()
