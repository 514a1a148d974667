"""All cases of the type test for a server."""

from __future__ import annotations

from examples.dbserver import DatabaseServer
from tests.types import charsets, tables
from tests.types.case import Case
from tests.value_cases import CASES


def cases(server: DatabaseServer) -> list[Case]:
    """What applies to this server."""
    return [case for case in (*CASES, *tables.CASES, *charsets.cases(server)) if server.name in case.on]
