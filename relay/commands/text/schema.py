"""The schema history as text for a terminal of 100 columns. Pure: structs in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from relay.base.errors import printable
from relay.commands.text.columns import cut, display_width, fact, fit
from relay.monitoring.schema_report import SchemaColumn, SchemaVersion, TableHistory
from relay.schema.columntype import UNKNOWN_CHARSET

_WIDTH: Final = 100
_NAME: Final = 40
_STATE: Final = 12
_SINCE: Final = 28
_INDENT: Final = "  "


def overview(tables: Sequence[TableHistory]) -> str:
    """One line per table: its newest definition, since when, and its proof."""
    lines = [f"{'TABLE':<{_NAME}} {'COLUMNS':<{_STATE}} {'SINCE':<{_SINCE}} PROOF"]
    for table in tables:
        name = fit(f"{table.schema}.{table.table}", _NAME)
        if not table.versions:
            lines.append(f"{name} {cut('damaged: ' + table.damaged, _WIDTH - _NAME - 1)}")
            continue
        newest = table.versions[0]
        what = str(len(newest.columns)) if newest.state == "table" else newest.state
        lines.append(f"{name} {what:<{_STATE}} {fit(_since(newest), _SINCE)} {newest.proof}")
    return "\n".join(lines if tables else [*lines, "none"])


def details(tables: Sequence[TableHistory]) -> str:
    """Return the whole history of these tables."""
    return "\n\n".join("\n".join(_table(table)) for table in tables)


def _table(table: TableHistory) -> Iterator[str]:
    yield cut(f"{table.schema}.{table.table}", _WIDTH)
    if table.damaged:
        yield from fact("damaged", f"{table.damaged}: older definitions are unknown", _WIDTH)
    for version in table.versions:
        yield ""
        yield from fact("since", _since(version) + ("" if version.current else ", from an earlier source"), _WIDTH)
        if version.gtid:
            yield from fact("gtid", version.gtid, _WIDTH)
        yield from fact("proof", version.proof, _WIDTH)
        if version.statement:
            yield from fact("by", " ".join(version.statement.split()), _WIDTH)
        if version.state == "unknown":
            yield from fact("unknown", version.cause, _WIDTH)
        elif version.state == "absent":
            yield from fact("absent", "the table does not exist", _WIDTH)
        else:
            yield from _columns(version.columns)


def _columns(columns: Sequence[SchemaColumn]) -> Iterator[str]:
    names = [printable(column.name) for column in columns]
    widest = min(max(map(display_width, names), default=0), _NAME)
    for column, name in zip(columns, names, strict=True):
        words = [column.type]
        words += [_charset(column.charset)] if column.charset else []
        words += ["not null"] if column.nullable is False else []
        words += ["key"] if column.key else []
        words += [column.generated] if column.generated else []
        words += ["invisible"] if column.invisible else []
        yield cut(f"{_INDENT}{fit(name, widest)}  {' '.join(words)}", _WIDTH)


def _charset(name: str) -> str:
    return "unknown charset" if name == UNKNOWN_CHARSET else name


def _since(version: SchemaVersion) -> str:
    return f"{version.file}:{version.position}" if version.file else "the beginning"
