"""Positions in a source's binlog."""

from __future__ import annotations

import msgspec


class BinlogPosition(msgspec.Struct, frozen=True):
    """A position in the source's binlog. Positions are ordered by the number at the end of the file's name."""

    file: str
    position: int

    def __lt__(self, other: BinlogPosition) -> bool:
        return self.order < other.order

    def __le__(self, other: BinlogPosition) -> bool:
        return self.order <= other.order

    @property
    def order(self) -> tuple[int, int]:
        """The sort key: the file's number, and the position."""
        suffix = self.file.rpartition(".")[2]
        return (int(suffix) if suffix.isdecimal() else 0), self.position

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"
