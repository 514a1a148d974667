"""A case of the type test: a table, what is done to it, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

MYSQL, MARIADB = ("mysql97",), ("mariadb1011", "mariadb118")
METADATA = ("default", "FULL")


class Case(NamedTuple):
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


def column(
    family: str, sql: str, values: Sequence[str], on: tuple[str, ...] = MYSQL + MARIADB, *, name: str = ""
) -> Case:
    """A case of one column, v, of the type `sql`: NULL and each of the values."""
    rows = ", ".join(f"({value}, -7)" for value in ["NULL", *values])
    columns = f"id INT PRIMARY KEY AUTO_INCREMENT, v {sql}, w INT"
    return Case(family, name or sql.replace(" CHARACTER SET", ""), columns, [f"(v, w) VALUES {rows}"], on=on)


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in groups of `size`; the last may be smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
