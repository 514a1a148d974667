"""All cases of the type test for a server."""

from __future__ import annotations

from examples.dbserver import DatabaseServer
from tests.support.value_cases import CASES, MORE_CASES
from tests.types import charsets, tables
from tests.types.case import TableCase, of_column


def cases(server: DatabaseServer) -> list[TableCase]:
    """The cases for this server."""
    every = (*map(of_column, (*CASES, *MORE_CASES)), *tables.CASES, *charsets.cases(server))
    return [case for case in every if server.name in case.on]
