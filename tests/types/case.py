"""A case of the type test: a table, the changes to it, and the servers for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from tests.support.value_cases import MARIADB, MYSQL, Case

T = TypeVar("T")
METADATA = ("default", "FULL")
IMAGE = "binlog_row_image"


class TableCase(NamedTuple):
    """A table that is filled by `inserts` (SQL after `INSERT INTO table`), changed by `update`, and emptied.

    `settings` are variables that hold meanwhile. `period`: the two columns with the beginning and the end of a row, if
    the table is system-versioned. `alone`: the table gets a stream of its own, because a fatal error there would leave
    the definitions of other tables unproven.
    """

    family: str
    name: str
    columns: str
    inserts: Sequence[str]
    update: str = "w = 8"
    options: str = ""
    on: tuple[str, ...] = MYSQL + MARIADB
    settings: tuple[tuple[str, str], ...] = ()
    period: tuple[str, str] | None = None
    alone: bool = False

    @property
    def partial(self) -> bool:
        """Whether images of its rows lack columns."""
        return IMAGE in dict(self.settings)


def of_column(case: Case) -> TableCase:
    """A table of one column, v, of a type: NULL and each of its values."""
    rows = ", ".join(f"({value}, -7)" for value in ["NULL", *case.values])
    columns = f"id INT PRIMARY KEY AUTO_INCREMENT, v {case.sql}, w INT"
    name = case.name or case.sql.replace(" CHARACTER SET", "")
    return TableCase(case.family, name, columns, [f"(v, w) VALUES {rows}"], on=case.on)


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in groups of `size`; the last may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
