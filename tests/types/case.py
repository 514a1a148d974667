"""A case of the type test: a table, what is done to it, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from tests.value_cases import MARIADB, MYSQL, Case

T = TypeVar("T")
METADATA = ("default", "FULL")
IMAGE = "binlog_row_image"


class TableCase(NamedTuple):
    """A table, filled by `inserts`, changed by `update`, and emptied again, as SQL without `INSERT INTO table`.

    `settings` are variables and values that hold while the table is made and changed. `period`: the two columns that
    say from when to when a row of a system-versioned table was there, if it is one. `alone`: it is read in a stream of
    its own, because what is refused by name there would leave nothing proven of other tables.
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
