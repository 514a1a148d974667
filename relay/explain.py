"""Who would get the events of a table, and why: a pure function of the configuration and the stat document.

It says what would happen to a row that the source writes now; filters that were removed, and rows that wait already,
are no part of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from relay.binlog.rules import Rules
from relay.board import Status
from relay.config import Config
from relay.linelog.choice import excluding, wanting
from relay.serving.access import Access
from relay.stat import Client, Filter, Stat

KINDS: Final = {"I": "inserts", "U": "updates", "D": "deletes"}
_DROP_OLDEST: Final = 1


class Near(msgspec.Struct):
    """A filter that comes close to the table but does not get all of it, and why."""

    filter: Filter
    why: str


class ClientVerdict(msgspec.Struct):
    """What a client would get of the table: `kinds`, a subset of "IUD", by the filters in `by`.

    `dropping`: what its limits would do with a row now, "" for nothing; `forbidden`: why it may not have the table, ""
    if it may; a filter that it still has is of no use then.
    """

    id: int
    name: str
    status: str
    kinds: str
    by: list[Filter]
    near: list[Near]
    dropping: str
    forbidden: str


class Taker(msgspec.Struct):
    """Whether the journal, the lake or the log of `[Logger]` takes the table, and why."""

    takes: bool
    why: str


class Explanation(msgspec.Struct):
    """Of a table: where its events go. What the journal does not take, nobody gets.

    `columns`: patterns of ExcludeColumns that leave out columns of it. `seen`: rows of it were read since usage is
    counted; `similar`: tables of nearly that name of which rows were read, if there were none of this one.
    """

    schema: str
    table: str
    seen: int
    similar: list[str]
    journal: Taker
    columns: list[str]
    clients: list[ClientVerdict]
    lake: Taker
    log: Taker


def explain(config: Config, document: Stat, schema: str, table: str) -> Explanation:
    """Where events of the table `schema`.`table`, as the source spells them, would go."""
    source = config.source
    journal = _journal(source.tables, source.exclude_tables, schema, table)
    access = Access(config)
    known = document.usage.tables
    seen = sum(
        each.total.insert + each.total.update + each.total.delete
        for each in known
        if (each.schema, each.table) == (schema, table)
    )
    names = [f"{each.schema}.{each.table}" for each in known]
    return Explanation(
        schema=schema,
        table=table,
        seen=seen,
        similar=[] if seen else difflib.get_close_matches(f"{schema}.{table}", names, n=3, cutoff=0.8),
        journal=journal,
        columns=[
            pattern
            for pattern in source.exclude_columns
            if Rules(exclude_columns=(pattern,)).columns_at_stake(schema, table)
        ],
        clients=[_client(each, access, journal.takes, schema, table) for each in document.clients],
        lake=_lake(config, document, journal, schema, table),
        log=_log(config, document, journal, schema, table),
    )


def _journal(tables: Sequence[str], excluded: Sequence[str], schema: str, table: str) -> Taker:
    if not _matching(tables, schema, table):
        return Taker(False, f"[Source] Tables = {', '.join(tables)} does not name it")
    if against := _matching(excluded, schema, table):
        return Taker(False, f"[Source] ExcludeTables leaves it out: {against}")
    return Taker(True, f"[Source] Tables: {_matching(tables, schema, table)}")


def _matching(patterns: Sequence[str], schema: str, table: str) -> str:
    """The first of some patterns `schema.table` that fits, "" if none does."""
    return next((pattern for pattern in patterns if Rules(tables=(pattern,)).wants(schema, table)), "")


def _client(client: Client, access: Access, journaled: bool, schema: str, table: str) -> ClientVerdict:
    matching = [each for each in client.filters if each.schema in ("*", schema) and each.table in ("*", table)]
    allowed = access.may_ask(client.name, schema, table)
    kinds = "".join(kind for kind in KINDS if any(kind in each.kinds for each in matching))
    near = []
    for each in client.filters:
        why = _lacks(each, kinds) if each in matching else _misses(each, schema, table)
        if why:
            near.append(Near(each, why))
    return ClientVerdict(
        id=client.id,
        name=client.name,
        status=client.status,
        kinds=kinds if journaled and allowed else "",
        by=matching,
        near=near,
        dropping=_dropping(client.waiting, matching, kinds) if journaled and allowed else "",
        forbidden="" if allowed else f"Tables in [Client {client.name}] does not name it",
    )


def _lacks(rule: Filter, kinds: str) -> str:
    """Why a filter that names the table does not get the kinds of rows that no filter gets."""
    missing = [word for kind, word in KINDS.items() if kind not in kinds]
    asked = [word for kind, word in KINDS.items() if kind in rule.kinds]
    return f"kinds: it asks for {', '.join(asked)}, not for {', '.join(missing)}" if missing else ""


def _misses(rule: Filter, schema: str, table: str) -> str:
    """Why a filter that nearly names the table does not; "" if it is far from it."""
    wrong = []
    for what, asked, name in (("schema", rule.schema, schema), ("table", rule.table, table)):
        if asked in ("*", name):
            continue
        if asked.strip().casefold() == name.casefold():
            wrong.append(
                f"{'blanks' if asked.strip() == name else 'case'}: it says {what} {asked!r}, the table has {name!r}"
            )
        elif "*" in asked and fnmatchcase(name.casefold(), asked.casefold()):
            wrong.append(f"pattern: {what} {asked!r} is taken letter by letter, only * alone stands for all")
        elif what == "schema":
            wrong.append(f"other schema: {asked!r}")
        else:
            return ""
    # Another schema is near only where the filter says which table: else every filter on a schema would be.
    return "" if rule.table == "*" and wrong[0].startswith("other") else "; ".join(wrong)


def _dropping(waiting: int, matching: Sequence[Filter], kinds: str) -> str:
    """What the limits would do with a row now, by the broker's rule for several filters."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        rules = [each for each in matching if kind in each.kinds]
        limits = [each for each in rules if each.limit]
        oldest = [each for each in limits if each.discard == _DROP_OLDEST]
        limit = max((each.limit for each in limits), default=0)
        if not limits or waiting < limit or (0 < len(oldest) < len(limits)):
            continue
        if oldest:
            found.setdefault(f"the limit of {limit} is reached: the oldest row goes for it", []).append(kind)
        elif len(limits) == len(rules):
            found.setdefault(f"the limit of {limit} is reached: it would be dropped", []).append(kind)
    return "; ".join(f"{', '.join(KINDS[kind] for kind in which)}: {text}" for text, which in found.items())


def _lake(config: Config, document: Stat, journal: Taker, schema: str, table: str) -> Taker:
    if not config.lake.path or document.lake is None:
        return Taker(False, "there is no export: [Lake] Path is empty")
    pattern = _matching(config.lake.tables, schema, table)
    if not pattern:
        return Taker(False, f"[Lake] Tables = {', '.join(config.lake.tables)} does not name it")
    return _taken(journal, f"[Lake] Tables: {pattern}", document.lake.export)


def _log(config: Config, document: Stat, journal: Taker, schema: str, table: str) -> Taker:
    logger = config.logger
    if not logger.schema or document.log is None:
        return Taker(False, "there is no log: [Logger] Schema is empty")
    pattern = wanting(logger.schema, schema)
    if not pattern:
        return Taker(False, f"[Logger] Schema = {', '.join(logger.schema)} does not name it")
    if against := excluding(logger.excludes, schema, table):
        return Taker(False, f"[Logger] Excludes leaves it out: {against}")
    return _taken(journal, f"[Logger] Schema: {pattern}", document.log.status)


def _taken(journal: Taker, why: str, status: Status) -> Taker:
    """What the configuration has whoever shows this status take."""
    if not journal.takes:
        return Taker(False, "it is not in the journal")
    stopped = f"; but it has stopped by {status.stop.code}, and takes it when it goes on" if status.stop else ""
    return Taker(True, why + stopped)
