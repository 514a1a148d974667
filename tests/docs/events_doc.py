"""docs/binlog-events.md, generated from the structs: python -m tests.docs.events_doc writes it."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from enum import IntEnum, IntFlag
from itertools import pairwise

import msgspec

from relay.binlog import events
from tests.support import ROOT

PATH = ROOT / "docs" / "binlog-events.md"
INTRODUCTION = """# Binlog events

`relay.binlog` decodes each event to a frozen msgspec struct of `relay.binlog.events`, whose first field is `header`.
[binlog-api.md](binlog-api.md) says how to read events. `python -m tests.docs.events_doc` generates this page from the
code; a test compares the two.

`msgspec.json.encode(event)` returns JSON in which `event` is the name in capitals below.
`msgspec.json.decode(text, type=relay.binlog.events.Event)` returns the struct. Bytes are base64 in JSON.

Field names follow MariaDB's C API (MARIADB_RPL_EVENT) if it has the event.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, "## The header of every event\n", _struct(events.Header), "## Events\n"]
    first: dict[str, str] = {}
    for event in sorted(typing.get_args(events.Event), key=lambda kind: str(kind.__struct_config__.tag)):
        tag, fields = str(event.__struct_config__.tag), _fields(event)
        if (other := first.setdefault(fields, tag)) != tag and fields.count("\n") > 5:
            fields = f"The fields are those of [{other}](#{other.lower()}).\n"
        parts += [f"### {tag}\n", f"`{event.__name__}`. {_text(event)}\n", fields]
    structs: list[type[msgspec.Struct]] = []
    enums: list[type[IntEnum] | type[IntFlag]] = []
    for _, found in inspect.getmembers(events, inspect.isclass):
        if issubclass(found, msgspec.Struct) and found.__struct_config__.tag is None and found is not events.Header:
            structs.append(found)
        elif issubclass(found, IntEnum | IntFlag):
            enums.append(found)
    parts.append("## Parts of events\n")
    for struct in structs:
        if struct not in (events.BinlogEvent, events.RowsEvent):
            parts += [f"### {struct.__name__}\n", f"{_text(struct)}\n", _fields(struct)]
    parts.append("## Numbers\n")
    for enum in enums:
        parts += [f"### {enum.__name__}\n", f"{_text(enum)}\n", _members(enum)]
    return "\n".join(parts)


def _members(enum: type[IntEnum] | type[IntFlag]) -> str:
    """A table; or a paragraph, if no member has a text."""
    told = _documented(enum)
    if not told:
        members = ", ".join(f"{member.value}\N{NO-BREAK SPACE}`{member.name}`" for member in enum)
        return textwrap.fill(members, 120, break_long_words=False) + ".\n"
    form = "#x" if issubclass(enum, IntFlag) else "d"
    lines = [f"| {member.value:{form}} | `{member.name}` | {told.get(str(member.name), '')} |" for member in enum]
    return "| | | |\n|---|---|---|\n" + "\n".join(lines) + "\n"


def _struct(struct: type[msgspec.Struct]) -> str:
    return f"`{struct.__name__}`. {_text(struct)}\n\n{_fields(struct)}"


def _text(documented: type) -> str:
    return " ".join((inspect.getdoc(documented) or "").split())


def _fields(struct: type[msgspec.Struct]) -> str:
    told, typed = _documented(struct), _annotated(struct)
    names = [field.name for field in msgspec.structs.fields(struct) if field.name != "header"]
    if not names:
        return "No fields of its own.\n"
    lines = [
        f"| `{name}` | `{typed[name]}` | {told.get(name, '')} |".replace(" | None`", " \\| None`") for name in names
    ]
    return "| field | type | |\n|---|---|---|\n" + "\n".join(lines) + "\n"


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
