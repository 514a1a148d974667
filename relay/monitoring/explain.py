"""Which clients and outputs get the events of a table, and why: a pure function of configuration and stat document.

It says what would happen to a row that the source writes now. It does not consider removed filters, or rows that
already wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from relay.config.tree import Config
from relay.ingest.rules import Rules
from relay.linelog.choice import matching_exclude, matching_schema
from relay.monitoring.stat import Client, Filter, Stat
from relay.net.access import Access
from relay.protocol.classic import Discard
from relay.runtime.process_status import Status

KINDS: Final = {"I": "inserts", "U": "updates", "D": "deletes"}


class NearFilter(msgspec.Struct):
    """A filter that nearly matches the table, or gets only some of its kinds of rows, and why."""

    filter: Filter
    why: str


class ClientVerdict(msgspec.Struct):
    """What a client would get of the table: `kinds`, a subset of "IUD", by the filters in `by`.

    `dropping`: what its limits would do with a row now, "" for nothing. `forbidden`: why the client may not have the
    table, "" if it may; its filters have no effect then.
    """

    id: int
    name: str
    status: str
    kinds: str
    by: list[Filter]
    near: list[NearFilter]
    dropping: str
    forbidden: str


class OutputVerdict(msgspec.Struct):
    """Whether the journal, the lake or the log of `[Logger]` takes the table, and why."""

    takes: bool
    why: str


class Explanation(msgspec.Struct):
    """Where the events of a table go. Nobody gets events that the journal does not take.

    `columns`: patterns of ExcludeColumns that exclude columns of the table. `seen`: rows of the table that were read
    since counting began. `similar`: if there are none, tables with similar names of which rows were read.
    """

    schema: str
    table: str
    seen: int
    similar: list[str]
    journal: OutputVerdict
    columns: list[str]
    clients: list[ClientVerdict]
    lake: OutputVerdict
    log: OutputVerdict


def explain(config: Config, document: Stat, schema: str, table: str) -> Explanation:
    """Where events of the table `schema`.`table` would go; both are spelled as the source spells them."""
    import difflib  # takes memory in the monitor, which seldom explains

    source = config.source
    journal = _journal(source.tables, source.exclude_tables, schema, table)
    access = Access(config)
    known = document.usage.tables
    seen = sum(each.total.rows for each in known if (each.schema, each.table) == (schema, table))
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


def _journal(tables: Sequence[str], excluded: Sequence[str], schema: str, table: str) -> OutputVerdict:
    if not (pattern := _matching(tables, schema, table)):
        return OutputVerdict(False, f"[Source] Tables = {', '.join(tables)} does not name it")
    if against := _matching(excluded, schema, table):
        return OutputVerdict(False, f"[Source] ExcludeTables excludes it: {against}")
    return OutputVerdict(True, f"[Source] Tables: {pattern}")


def _matching(patterns: Sequence[str], schema: str, table: str) -> str:
    """Return the first pattern that matches `schema.table`, "" if none does."""
    return next((pattern for pattern in patterns if Rules(tables=(pattern,)).wants(schema, table)), "")


def _client(client: Client, access: Access, journaled: bool, schema: str, table: str) -> ClientVerdict:
    matching = [each for each in client.filters if each.schema in ("*", schema) and each.table in ("*", table)]
    allowed = access.may_ask(client.name, schema, table)
    kinds = "".join(kind for kind in KINDS if any(kind in each.kinds for each in matching))
    near = []
    for each in client.filters:
        why = _missing_kinds(each, kinds) if each in matching else _near_miss(each, schema, table)
        if why:
            near.append(NearFilter(each, why))
    return ClientVerdict(
        id=client.id,
        name=client.name,
        status=client.status,
        kinds=kinds if journaled and allowed else "",
        by=matching,
        near=near,
        dropping=_dropping(client.waiting_limited, matching, kinds) if journaled and allowed else "",
        forbidden="" if allowed else f"Tables in [Client {client.name}] does not name it",
    )


def _missing_kinds(rule: Filter, kinds: str) -> str:
    """Which kinds of rows a matching filter does not ask for, if no other filter does; "" if there are none."""
    missing = [word for kind, word in KINDS.items() if kind not in kinds]
    asked = [word for kind, word in KINDS.items() if kind in rule.kinds]
    return f"kinds: it asks for {', '.join(asked)}, not for {', '.join(missing)}" if missing else ""


def _near_miss(rule: Filter, schema: str, table: str) -> str:
    """Why a filter that nearly matches the table does not match; "" if it is not similar."""
    wrong = []
    for what, asked, name in (("schema", rule.schema, schema), ("table", rule.table, table)):
        if asked in ("*", name):
            continue
        if asked.strip().casefold() == name.casefold():
            difference = "blanks" if asked.strip() == name else "case"
            wrong.append(f"{difference}: the filter has {what} {asked!r}, the table {name!r}")
        elif "*" in asked and fnmatchcase(name.casefold(), asked.casefold()):
            wrong.append(f"pattern: {what} {asked!r} is literal; only * alone matches all")
        elif what == "schema":
            wrong.append(f"other schema: {asked!r}")
        else:
            return ""
    # A filter on another schema is similar only if it names the table. Otherwise all filters on schemas would be.
    return "" if rule.table == "*" and wrong[0].startswith("other") else "; ".join(wrong)


def _dropping(waiting: int, matching: Sequence[Filter], kinds: str) -> str:
    """Return what the limits do with a new row now, by the broker's rule for several filters.

    `waiting`: number of rows that count towards limits.
    """
    found: dict[str, list[str]] = {}
    for kind in kinds:
        rules = [each for each in matching if kind in each.kinds]
        limit = max(each.limit for each in rules)
        if not all(each.limit for each in rules) or waiting < limit:
            continue
        displaces = all(each.discard == Discard.OLDEST for each in rules)
        what = "a new row replaces the oldest" if displaces else "a new row is dropped"
        found.setdefault(f"the limit of {limit} is reached: {what}", []).append(kind)
    return "; ".join(f"{', '.join(KINDS[kind] for kind in which)}: {text}" for text, which in found.items())


def _lake(config: Config, document: Stat, journal: OutputVerdict, schema: str, table: str) -> OutputVerdict:
    if not config.lake.path or document.lake is None:
        return OutputVerdict(False, "no export: [Lake] Path is empty")
    pattern = _matching(config.lake.tables, schema, table)
    if not pattern:
        return OutputVerdict(False, f"[Lake] Tables = {', '.join(config.lake.tables)} does not name it")
    return _by_process(journal, f"[Lake] Tables: {pattern}", document.lake.export)


def _log(config: Config, document: Stat, journal: OutputVerdict, schema: str, table: str) -> OutputVerdict:
    logger = config.logger
    if not logger.schema or document.log is None:
        return OutputVerdict(False, "no log: [Logger] Schema is empty")
    pattern = matching_schema(logger.schema, schema)
    if not pattern:
        return OutputVerdict(False, f"[Logger] Schema = {', '.join(logger.schema)} does not name it")
    if against := matching_exclude(logger.excludes, schema, table):
        return OutputVerdict(False, f"[Logger] Excludes excludes it: {against}")
    return _by_process(journal, f"[Logger] Schema: {pattern}", document.log.status)


def _by_process(journal: OutputVerdict, why: str, status: Status) -> OutputVerdict:
    """Return the verdict on a table that the configuration selects for the process with this status."""
    if not journal.takes:
        return OutputVerdict(False, "the journal does not have the table")
    if status.stop:
        why += f"; it is stopped by fatal error {status.stop.code}, and continues with this table after that"
    return OutputVerdict(True, why)
