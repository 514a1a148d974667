"""The documents of the HTTP interface that docs/http.md must describe: structs, fields and types, as in JSON."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec

from relay.monitoring import documents
from relay.monitoring.schema_report import TableHistory
from relay.monitoring.stat import Stat

PLAIN = {str: "text", int: "integer", float: "number", bool: "true or false"}
DOCUMENTS: tuple[type[msgspec.Struct], ...] = (
    Stat,
    documents.History,
    documents.ClientDetail,
    documents.TableDetail,
    documents.TableSchema,
    TableHistory,
    documents.Health,
    documents.Failure,
)


def fields(struct: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """Names and types of a struct's fields, in their order."""
    hints = typing.get_type_hints(struct)
    return [(name, kind(hints[name])) for name in struct.__struct_fields__]


def kind(hint: Any) -> str:
    """A type in words: `list of Client`, `integer or null`."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if part is type(None) else kind(part) for part in arguments)
    if origin is list:
        return f"list of {kind(arguments[0])}"
    if origin is dict:
        return f"object of {kind(arguments[1])}"
    return f"[{hint.__name__}](#{hint.__name__.lower()})"


def structs() -> list[type[msgspec.Struct]]:
    """All structs of all documents, each before those that it contains."""
    found: list[type[msgspec.Struct]] = []

    def visit(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if hint in found:
                return
            found.append(hint)
            for inner in typing.get_type_hints(hint).values():
                visit(inner)
        for argument in typing.get_args(hint):
            visit(argument)

    for document in DOCUMENTS:
        visit(document)
    return found
