"""The documents of the HTTP interface that docs/http.md must describe: sections, fields and types, as in JSON."""

from __future__ import annotations

import types
import typing
from collections import Counter
from functools import cache
from typing import Any

import msgspec

from relay.monitoring import documents
from relay.monitoring.schema_report import TableHistory
from relay.monitoring.stat import Stat

PLAIN = {str: "text", int: "integer", float: "number", bool: "boolean"}
LISTS = list, tuple
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
    """Names and types of a section's fields, in their order. Fields of a part without a section follow it."""
    found: list[tuple[str, str]] = []
    hints = typing.get_type_hints(struct)
    for name in struct.__struct_fields__:
        found.append((name, kind(hints[name])))
        for part in parts(hints[name]):
            if part not in sections():
                prefix = f"{name}[]" if typing.get_origin(hints[name]) in LISTS else name
                found += [(f"{prefix}.{inner}", inner_kind) for inner, inner_kind in fields(part)]
    return found


def kind(hint: Any) -> str:
    """A type in words: `list of Client`, `integer or null`."""
    if hint in PLAIN:
        return PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if part is type(None) else kind(part) for part in arguments)
    if origin in LISTS:
        return f"list of {kind(arguments[0])}"
    if origin is dict:
        return f"object of {kind(arguments[1])}"
    return f"[{hint.__name__}](#{hint.__name__.lower()})" if hint in sections() else "object"


def parts(hint: Any) -> list[type[msgspec.Struct]]:
    """The structs that a field refers to."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [part for argument in typing.get_args(hint) for part in parts(argument)]


def _referred(struct: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    hints = typing.get_type_hints(struct)
    return [part for name in struct.__struct_fields__ for part in parts(hints[name])]


@cache
def sections() -> tuple[type[msgspec.Struct], ...]:
    """The structs with a section: documents, and what more than one field refers to."""
    found: list[type[msgspec.Struct]] = []

    def visit(struct: type[msgspec.Struct]) -> None:
        if struct not in found:
            found.append(struct)
            for part in _referred(struct):
                visit(part)

    for document in DOCUMENTS:
        visit(document)
    references = Counter(part for struct in found for part in _referred(struct))
    return tuple(struct for struct in found if struct in DOCUMENTS or references[struct] > 1)
