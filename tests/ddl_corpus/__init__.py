"""Statements that define tables. The schema history must agree with the server on the result of each.

A case is a list of statements that are executed one after the other in an empty schema `d`; every other schema that one
creates begins with `d_`.
"""

from __future__ import annotations

from typing import Final

from tests.ddl_corpus.both import BOTH
from tests.ddl_corpus.chains import CHAINS
from tests.ddl_corpus.mariadb import MARIADB, MARIADB_118
from tests.ddl_corpus.mysql import MYSQL

CASES: Final[dict[str, dict[str, list[str]]]] = {
    "mysql97": {**BOTH, **CHAINS, **MYSQL},
    "mariadb118": {**BOTH, **CHAINS, **MARIADB, **MARIADB_118},
    "mariadb1011": {**BOTH, **CHAINS, **MARIADB},
}
FAILING: Final = frozenset({"statements that fail", "two phases"})
"""Cases with statements that the server refuses."""
UNKNOWN: Final[dict[str, frozenset[str]]] = {
    "mysql97": frozenset({"temporary tables that are logged"}),
    "mariadb118": frozenset({"temporary tables that are logged", "the default schema is altered"}),
    "mariadb1011": frozenset({"temporary tables that are logged", "the default schema is altered"}),
}
"""Cases of which the history says, at some point, that it does not know: docs/schema.md tells why."""
