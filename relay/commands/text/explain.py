"""The result of `relay explain` as text for a terminal of 80 columns. Pure: a struct in, text out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from relay.base.errors import printable
from relay.commands.text.clients import filter_text
from relay.monitoring.explain import KINDS, ClientVerdict, Explanation, OutputVerdict

_WIDTH: Final = 80


def text(found: Explanation) -> str:
    """Return the verdicts on journal, lake and log, then those on clients.

    The clients are those that get rows, or have a filter that nearly matches.
    """
    lines = [*textwrap.wrap(printable(f"{found.schema}.{found.table}"), _WIDTH), *_facts(found), ""]
    rest = []
    for client in found.clients:
        if client.by or client.near or client.kinds:
            lines += _client(client, found.journal.takes)
        else:
            rest.append(printable(client.name))
    if rest:
        lines += _line("no match", f"{', '.join(rest)}: no filter names the table")
    elif not found.clients:
        lines += _line("no match", "there are no clients")
    return "\n".join(lines)


def _facts(found: Explanation) -> Iterator[str]:
    yield from _output("journal", found.journal)
    for pattern in found.columns:
        yield from _line("", f"without the columns {pattern} ([Source] ExcludeColumns)")
    if found.seen:
        yield from _line("seen", f"{found.seen:,} rows")
    elif found.similar:
        yield from _line("seen", f"no rows of this table, but of {', '.join(map(printable, found.similar))}")
    else:
        yield from _line("seen", "no rows")
    yield from _output("lake", found.lake)
    yield from _output("log", found.log)


def _output(name: str, verdict: OutputVerdict) -> list[str]:
    return _line(name, f"{'yes' if verdict.takes else 'no'}: {printable(verdict.why)}")


def _client(client: ClientVerdict, journaled: bool) -> Iterator[str]:
    kinds = ", ".join(word for kind, word in KINDS.items() if kind in client.kinds)
    nothing = "nothing" if journaled else "nothing: the journal does not have the table"
    yield from textwrap.wrap(f"{printable(client.name)} ({client.status}) gets {kinds or nothing}", _WIDTH)
    for rule in client.by:
        yield from _line("  by", filter_text(rule))
    for near in client.near:
        yield from _line("  not by", f"{filter_text(near.filter)}: {printable(near.why)}")
    if client.dropping:
        yield from _line("  dropping", client.dropping)
    if client.forbidden:
        yield from _line("  forbidden", printable(client.forbidden))


def _line(name: str, value: str) -> list[str]:
    return textwrap.wrap(value, _WIDTH, initial_indent=f"{name:<12} ", subsequent_indent=" " * 15)
