"""Parsers that were compared with the relay's before it was chosen: which statements they accept, and what they keep.

Each parser writes a statement again from its tree. The relay's parser must find the same changes in that text.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from relay.ddl import parse_statement
from relay.ddl.statements import Kind
from relay.schema.queries import Query


class Outcome(StrEnum):
    """The result of a parser with a statement."""

    WHOLE = "kept whole"
    OTHERWISE = "written otherwise"
    OPAQUE = "kept as text"
    REFUSED = "refused"


def compared(statements: list[Query]) -> dict[str, Counter[Outcome]]:
    """By parser, the number of each outcome, for the statements that define tables."""
    texts = [each for each in statements if each.statement.kind is Kind.DDL and not each.statement.opaque]
    return {name: Counter(_outcome(each, again) for each in texts) for name, again in _PARSERS.items()}


def _outcome(found: Query, again: Callable[[str, bool], str]) -> Outcome:
    try:
        text = again(found.text, found.dialect.mariadb)
    except Exception:  # each has errors of its own, and some are no errors of parsing
        return Outcome.REFUSED
    if not text:
        return Outcome.OPAQUE
    return (
        Outcome.WHOLE
        if parse_statement(text, found.schema, found.dialect).changes == found.statement.changes
        else Outcome.OTHERWISE
    )


def _sqlglot(text: str, _: bool) -> str:
    import sqlglot
    from sqlglot import expressions

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    (found,) = sqlglot.parse(text, read="mysql")
    return "" if found is None or isinstance(found, expressions.Command) else found.sql(dialect="mysql")


def _sqloxide(text: str, _: bool) -> str:
    import sqloxide

    (found,) = sqloxide.restore_ast(ast=sqloxide.parse_sql(sql=text, dialect="mysql"))
    return str(found)


_PARSERS: Final[dict[str, Callable[[str, bool], str]]] = {"sqlglot": _sqlglot, "sqloxide": _sqloxide}
