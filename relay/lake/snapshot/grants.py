"""Check whether an account may read the tables that a lake needs, by its SHOW GRANTS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from relay.config.tree import Config

_NAME: Final = r"\*|`(?:[^`]|``)+`"
_GRANT: Final = re.compile(rf"GRANT (?P<privileges>.+?) ON (?:TABLE )?(?P<schema>{_NAME})\.(?P<table>{_NAME}) TO ")
_WILD: Final = {"%": "*", "_": "?"}


def wanted(config: Config) -> Sequence[str]:
    """Patterns of the tables that the lake exports."""
    return config.source.tables if config.lake.tables == ["*.*"] else config.lake.tables


def unreadable(grants: Iterable[str], patterns: Iterable[str], privilege: str = "SELECT") -> list[str]:
    """Return the patterns (`schema.table`) for which the account lacks the privilege on some table."""
    granted = list(_granted(grants, privilege))
    return [pattern for pattern in patterns if not any(_covers(one, pattern.split(".", 1)) for one in granted)]


def _granted(grants: Iterable[str], privilege: str) -> Iterator[tuple[str, str]]:
    for grant in grants:
        if found := _GRANT.match(grant):
            names = {name.strip().upper() for name in found["privileges"].split(",")}
            if names & {privilege, "ALL PRIVILEGES"}:
                yield _name(found["schema"]), _name(found["table"])


def _name(quoted: str) -> str:
    return quoted if quoted == "*" else quoted[1:-1].replace("``", "`")


def _covers(granted: tuple[str, str], pattern: Sequence[str]) -> bool:
    (schema, table), (wanted_schema, wanted_table) = granted, pattern
    if schema == "*":
        return True
    # In a grant on a schema, % and _ are wildcards unless they are escaped.
    likes = re.sub(r"\\(.)|[%_*?[]", lambda one: one[1] or _WILD.get(one[0], f"[{one[0]}]"), schema)
    return "*" not in wanted_schema and fnmatchcase(wanted_schema, likes) and table in ("*", wanted_table)
