"""docs/binlog-events.md, generated from the structs: python -m tests.docs.events_doc writes it."""

from __future__ import annotations

import ast
import inspect
import typing
from enum import IntFlag
from functools import cache
from itertools import pairwise

import msgspec

from relay.binlog import events
from tests.support import ROOT

PATH = ROOT / "docs" / "binlog-events.md"
INTRODUCTION = """# Binlog events

This page lists every event of `relay.binlog`, for programs that read a binlog ([binlog-api.md](binlog-api.md)).

Each event is a frozen msgspec struct of `relay.binlog.events`, whose first field is `header`. Field names follow
MariaDB's C API (MARIADB_RPL_EVENT). `msgspec.json.encode(event)` returns JSON in which `event` is the name in capitals
below and bytes are base64. `msgspec.json.decode(text, type=relay.binlog.events.Event)` returns the struct. A type with
`?` stands for that type or None. The enumeration `EventType` has the codes of types: up to 42 MySQL's, from 160 on
MariaDB's.
"""
FEW = 4
"""An event with at most so many fields is a row of the table of events; one with more has a section."""


EVERY: tuple[type[msgspec.Struct], ...] = tuple(
    sorted(typing.get_args(events.Event), key=lambda kind: str(kind.__struct_config__.tag))
)


def page() -> str:
    """The whole page."""
    structs: list[type[msgspec.Struct]] = []
    flags: list[type[IntFlag]] = []
    for _, found in inspect.getmembers(events, inspect.isclass):
        if issubclass(found, IntFlag):
            flags.append(found)
        elif issubclass(found, msgspec.Struct) and found.__struct_config__.tag is None and found is not events.Header:
            structs.append(found)
    structs = [struct for struct in structs if struct not in (events.BinlogEvent, events.RowsEvent)]
    longer: list[type[msgspec.Struct]] = [events.Header, *(event for event in EVERY if _is_long(event))]
    parts = [INTRODUCTION, "## Events\n"]
    parts += ["| event | struct | | fields |\n|---|---|---|---|\n" + "".join(map(_row, EVERY))]
    parts += ["## The header and longer events\n", f"`Header`: {_text(events.Header)}\n", _table(*map(_tagged, longer))]
    parts += ["## Parts of events\n", "".join(f"- `{struct.__name__}`: {_text(struct)}\n" for struct in structs)]
    parts += [_table(*((struct.__name__, struct) for struct in structs))]
    parts += ["## Flags\n", "".join(f"- `{kind.__name__}`: {_text(kind)}\n" for kind in flags)]
    parts += ["| flag | bit | |\n|---|---|---|\n" + "".join(map(_bits, flags))]
    return "\n".join(parts)


def _tag(event: type[msgspec.Struct]) -> str:
    return str(event.__struct_config__.tag)


def _base(event: type[msgspec.Struct]) -> type[msgspec.Struct] | None:
    """The event with the fewest fields, more than a few, that all are the first of this one; None if it is this one."""
    fields = _lines(event)
    shared = ((other, _lines(other)) for other in EVERY)
    begun = [other for other, first in shared if len(first) > FEW and fields[: len(first)] == first]
    base = min(begun, key=lambda other: len(_lines(other)), default=event)
    return None if base is event else base


def _is_long(event: type[msgspec.Struct]) -> bool:
    base = _base(event)
    return len(_lines(event)) - (len(_lines(base)) if base else 0) > FEW


def _row(event: type[msgspec.Struct]) -> str:
    """An event in the table of events."""
    fields = _lines(event)
    if base := _base(event):
        inherited = f"those of `{_tag(base)}`"
        fields = [inherited, *fields[len(_lines(base)) :]]
    if _is_long(event):
        fields = ["[below](#the-header-and-longer-events)"]
    cells = [f"`{_tag(event)}`", f"`{event.__name__}`", _text(event), "<br>".join(fields) or "none"]
    return f"| {' | '.join(cells)} |\n"


def _bits(flags: type[IntFlag]) -> str:
    """The bits of some flags in the table of all."""
    told = _documented(flags)
    return "".join(f"| `{flags.__name__}.{bit.name}` | {bit.value:#x} | {told[str(bit.name)]} |\n" for bit in flags)


def _text(documented: type) -> str:
    return " ".join((inspect.getdoc(documented) or "").split())


def _tagged(struct: type[msgspec.Struct]) -> tuple[str, type[msgspec.Struct]]:
    """A struct with the name that the tables have: that of an event is its tag."""
    return (_tag(struct) if struct is not events.Header else "Header", struct)


def _table(*structs: tuple[str, type[msgspec.Struct]]) -> str:
    """A row for each field of some structs."""
    lines = ["| field | type | |", "|---|---|---|"]
    for name, struct in structs:
        lines += [f"| `{name}.{field}` | `{kind}` | {text} |" for field, kind, text in _fields(struct)]
    return "\n".join(lines) + "\n"


def _lines(struct: type[msgspec.Struct]) -> list[str]:
    """The fields of a struct, a text each."""
    return [f"`{name}`: `{kind}`. {text}" for name, kind, text in _fields(struct)]


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, str, str], ...]:
    """Name, type and text of each field that the struct does not share with all others."""
    told, typed = _documented(struct), _annotated(struct)
    names = [field.name for field in msgspec.structs.fields(struct) if field.name != "header"]
    return tuple((name, typed[name].replace(" | None", "?"), told.get(name, "")) for name in names)


def _body(documented: type) -> list[ast.stmt]:
    tree = ast.parse(inspect.getsource(documented))
    assert isinstance(tree.body[0], ast.ClassDef)
    return tree.body[0].body


def _documented(documented: type) -> dict[str, str]:
    """The text behind each name, of base classes too."""
    found: dict[str, str] = {}
    for kind in reversed(documented.__mro__):
        if kind.__module__.startswith("relay."):
            body = _body(kind)
            for named, text in pairwise(body):
                name = _name(named)
                if name and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                    found[name] = " ".join(str(text.value.value).split())
    return found


def _annotated(documented: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in reversed(documented.__mro__):
        if kind.__module__.startswith("relay."):
            found |= {
                node.target.id: ast.unparse(node.annotation)
                for node in _body(kind)
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            }
    return found


def _name(node: ast.stmt) -> str:
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


if __name__ == "__main__":
    PATH.write_text(page())
