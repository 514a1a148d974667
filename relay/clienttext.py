"""Clients as text for a terminal of 80 columns. Pure: structs in, text out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.errors import printable
from relay.stat import Client, Filter

_NAME: Final = 24
_DISCARD: Final = {0: "newest", 1: "oldest", 2: "newest"}


def table(clients: Sequence[Client]) -> str:
    """A line a client, by name."""
    head = f"{'CLIENT':<{_NAME}} {'STATUS':<7}{'WAITING':>11}{'IN FLIGHT':>10}{'CONFIRMED':>14}{'DROPPED':>12}"
    lines = [_line(each) for each in sorted(clients, key=lambda each: each.name)]
    return "\n".join([head, *(lines or ["none"])])


def details(client: Client) -> str:
    """Everything about one client: who it is, its queue, its filters."""
    return "\n".join(f"{name:<12}{value}" for name, value in _facts(client))


def _line(client: Client) -> str:
    return (
        f"{_cut(client.name, _NAME):<{_NAME}} {_status(client):<7}{client.waiting:>11,}{client.in_flight:>10,}"
        f"{client.confirmed:>14,}{_dropped(client):>12,}"
    )


def _facts(client: Client) -> Iterator[tuple[str, str]]:
    yield "client", f"{printable(client.name)} (id {client.id})"
    ago = f", last request {_age(time.time() - client.last_seen)} ago" if client.last_seen else ""
    yield "status", _status(client) + ago
    yield "queue", f"{client.waiting:,} waiting, {client.in_flight:,} in flight"
    yield "rows", f"{client.matched:,} matched, {client.confirmed:,} confirmed, {_dropped(client):,} dropped"
    for reason, count in msgspec.structs.asdict(client.dropped).items():
        if count:
            yield "", f"{count:,} dropped: {reason.replace('_', ' ')}"
    if client.lagging:
        yield "", "lagging: the queue goes on in the journal"
    for number, each in enumerate(client.filters):
        yield "" if number else "filters", filter_text(each)
    if not client.filters:
        yield "filters", "none: nothing is queued for it"


def filter_text(rule: Filter) -> str:
    """A filter in a line: `shop.orders IUD, at most 100 wait, then the oldest goes`."""
    limit = f", at most {rule.limit:,} wait, then the {_DISCARD.get(rule.discard, 'newest')} goes" if rule.limit else ""
    return f"{printable(f'{rule.schema}.{rule.table}')} {rule.kinds}{limit}"


def _status(client: Client) -> str:
    return "online" if client.connected else "away"


def _dropped(client: Client) -> int:
    return sum(msgspec.structs.astuple(client.dropped))


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0.0, seconds):.1f} s"


def _cut(text: str, width: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
