"""Clients as text for a terminal of 80 columns. Pure: structs in, text out."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.columns import fit, moment, span
from relay.deliveries import Delivery
from relay.errors import printable
from relay.stat import Client, Filter

_WIDTH: Final = 80
_NAME: Final = 23
_DISCARD: Final = {0: "newest", 1: "oldest", 2: "newest"}


def table(clients: Sequence[Client]) -> str:
    """A line a client, by name."""
    head = f"{'CLIENT':<{_NAME}} {'STATUS':<9} {'ADDRESS':<15}{'WAITING':>10}{'CONFIRMED':>12}{'DROPPED':>9}"
    lines = [_line(each) for each in sorted(clients, key=lambda each: each.name)]
    return "\n".join([head, *(lines or ["none"])])


def details(client: Client, last: Sequence[Delivery]) -> str:
    """Everything about one client: who it is, its queue, its filters, its last deliveries, newest first."""
    return "\n".join(
        textwrap.fill(value, _WIDTH, initial_indent=f"{name:<12}", subsequent_indent=" " * 14)
        for name, value in (*_facts(client), *_delivered(last))
    )


def _line(client: Client) -> str:
    return (
        f"{fit(client.name, _NAME)} {client.status:<9} {fit(client.address, 15)}"
        f"{client.waiting:>10,}{client.confirmed:>12,}{dropped_rows(client):>9,}"
    )


def _facts(client: Client) -> Iterator[tuple[str, str]]:
    yield "client", f"{printable(client.name)} (id {client.id}), known since {moment(client.first_seen)} UTC"
    ago = f", last poll {span(time.time() - client.last_seen)} ago" if client.last_seen else ""
    yield "status", client.status + (f" from {client.address}" if client.address else "") + ago
    yield (
        "queue",
        f"{client.waiting:,} waiting, {client.in_flight:,} in flight, {client.max_waiting:,} at most so far",
    )
    if client.repeats:
        yield "repeats", f"the client has taken the same row {client.repeats + 1:,} times and not confirmed it"
    yield (
        "rows",
        (
            f"{client.matched:,} matched, {client.served:,} handed out, {client.confirmed:,} confirmed, "
            f"{dropped_rows(client):,} dropped"
        ),
    )
    for reason, count in msgspec.structs.asdict(client.dropped).items():
        if count:
            yield "", f"{count:,} dropped: {reason.replace('_', ' ')}"
    if client.lagging:
        yield "", "lagging: the queue goes on in the journal"
    for number, each in enumerate(client.filters):
        yield "" if number else "filters", filter_text(each)
    if not client.filters:
        yield "filters", "none: nothing is queued for it"


def _delivered(last: Sequence[Delivery]) -> Iterator[tuple[str, str]]:
    for number, each in enumerate(last):
        table = printable(f"{each.schema}.{each.table}") if each.table else "no longer in the journal"
        gap = "" if each.gap_ms is None else f", {span(each.gap_ms / 1000)} after the one before"
        rows = "1 row" if each.rows == 1 else f"{each.rows:,} rows"
        yield "" if number else "deliveries", f"{moment(each.at)} {each.kind} {table}, {rows}{gap}"


def filter_text(rule: Filter) -> str:
    """A filter in a line: `shop.orders IUD, at most 100 wait, then the oldest goes`."""
    limit = f", at most {rule.limit:,} wait, then the {_DISCARD.get(rule.discard, 'newest')} goes" if rule.limit else ""
    return f"{printable(f'{rule.schema}.{rule.table}')} {rule.kinds}{limit}"


def dropped_rows(client: Client) -> int:
    """Rows that it asked for and did not get, for whatever reason."""
    return sum(msgspec.structs.astuple(client.dropped))
