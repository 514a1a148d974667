"""Clients as text for a terminal of 80 columns. Pure: structs in, text out."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.base.errors import printable
from relay.commands.text.columns import fit, moment, span
from relay.monitoring.deliveries import Delivery
from relay.monitoring.stat import Client, Filter
from relay.protocol.classic import Discard

_WIDTH: Final = 80
_NAME: Final = 23
NO_CLIENT: Final = "none; `relay tail` prints rows as a client gets them"


def table(clients: Sequence[Client]) -> str:
    """One line per client, by name."""
    head = f"{'CLIENT':<{_NAME}} {'STATUS':<9} {'ADDRESS':<15}{'WAITING':>10}{'CONFIRMED':>12}{'DROPPED':>9}"
    lines = [_line(each) for each in sorted(clients, key=lambda each: each.name)]
    return "\n".join([head, *(lines or [NO_CLIENT])])


def details(client: Client, last: Sequence[Delivery]) -> str:
    """One client: identity, queue, filters, and last deliveries, the newest first."""
    return "\n".join(
        textwrap.fill(value, _WIDTH, initial_indent=f"{name:<12}", subsequent_indent=" " * 14)
        for name, value in (*_facts(client), *_deliveries(last))
    )


def _line(client: Client) -> str:
    return (
        f"{fit(client.name, _NAME)} {client.status:<9} {fit(client.address, 15)}"
        f"{client.waiting:>10,}{client.confirmed:>12,}{dropped_rows(client):>9,}"
    )


def _facts(client: Client) -> Iterator[tuple[str, str]]:
    yield "client", f"{printable(client.name)} (id {client.id}), first seen {moment(client.first_seen)} UTC"
    ago = f", last poll {span(time.time() - client.last_seen)} ago" if client.last_seen else ""
    yield "status", client.status + (f" from {client.address}" if client.address else "") + ago
    yield "queue", f"{client.waiting:,} waiting, {client.in_flight:,} in flight, longest {client.max_waiting:,}"
    if client.repeats:
        yield "repeats", f"the client fetched the same row {client.repeats + 1:,} times without confirming it"
    rows = f"{client.matched:,} matched, {client.served:,} served, {client.confirmed:,} confirmed"
    yield "rows", f"{rows}, {dropped_rows(client):,} dropped"
    for reason, count in msgspec.structs.asdict(client.dropped).items():
        if count:
            yield "", f"{count:,} dropped: {reason.replace('_', ' ')}"
    if client.lagging:
        yield "", "lagging: the queue continues in the journal"
    for number, each in enumerate(client.filters):
        yield "" if number else "filters", filter_text(each)
    if not client.filters:
        yield "filters", "none: the queue gets no rows"


def _deliveries(last: Sequence[Delivery]) -> Iterator[tuple[str, str]]:
    for number, each in enumerate(last):
        table = printable(f"{each.schema}.{each.table}") if each.table else "no longer in the journal"
        gap = "" if each.gap_ms is None else f", {span(each.gap_ms / 1000)} after the previous one"
        rows = "1 row" if each.rows == 1 else f"{each.rows:,} rows"
        yield "" if number else "deliveries", f"{moment(each.at)} {each.kind} {table}, {rows}{gap}"


def filter_text(rule: Filter) -> str:
    """Return a filter in one line: `shop.orders IUD, at most 100 rows, then drops the oldest`."""
    text = f"{printable(f'{rule.schema}.{rule.table}')} {rule.kinds}"
    dropped = "oldest" if rule.discard == Discard.OLDEST else "newest"
    return f"{text}, at most {rule.limit:,} rows, then drops the {dropped}" if rule.limit else text


def dropped_rows(client: Client) -> int:
    """Rows that matched and were dropped, for any reason."""
    return sum(msgspec.structs.astuple(client.dropped))
