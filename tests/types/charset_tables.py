"""Writes native/values/charsets.bin, MySQL's tables of the character sets that are not UTF-8.

Run `python -m tests.types.charset_tables`. MariaDB has the same tables: `tests/types/charsets.py` compares them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer

NATIVE = Path(__file__).parents[2] / "native/values"
FOUR_BYTES = 39_420  # codes of GB18030 that stand for characters of the BMP
CHUNK = 10_000  # codes in a query


def main() -> None:
    """Start a server, query the code points, and write the file."""
    known = re.findall(r'{"(\w+)", Shape::(\w+)}', (NATIVE / "charset_tables.hpp").read_text())
    packed = b""
    with DatabaseServer("mysql97") as server, closing(server.connect()) as connection, connection.cursor() as cursor:
        for name, shape in known:
            if not shape.startswith(("ucs", "utf")):
                data = _table(cursor, name, list(_codes(shape)))
                packed += len(data).to_bytes(4, "little") + data
                print(f"{name}: {len(data)} bytes")
    (NATIVE / "charsets.bin").write_bytes(packed)


def _codes(shape: str) -> Iterator[bytes]:
    """The codes of a table, in the order of native/values/charset.cpp."""
    for code in range(0x100):
        yield bytes([code])
    if shape != "one_byte":
        for code in range(0x8000, 0x10000):
            yield code.to_bytes(2, "big")
    if shape == "euc_jp":
        for code in range(0x8000, 0x10000):
            yield b"\x8f" + code.to_bytes(2, "big")
    if shape == "gb18030":
        for number in range(FOUR_BYTES):
            rest, fourth = divmod(number, 10)
            rest, third = divmod(rest, 126)
            first, second = divmod(rest, 10)
            yield bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth])


def _table(cursor: Cursor, charset: str, codes: Sequence[bytes]) -> bytes:
    """The packed table: the differences between consecutive code points (0: none) as u16, deflated."""
    points: list[int] = []
    for start in range(0, len(codes), CHUNK):
        some = codes[start : start + CHUNK]
        values = ", ".join(f"ROW({number}, x'{code.hex()}')" for number, code in enumerate(some))
        cursor.execute(
            f"SELECT CAST(CONVERT(CONVERT(column_1 USING {charset}) USING utf32) AS BINARY)"
            f" FROM (VALUES {values}) AS codes ORDER BY column_0"
        )
        points += [_point(code, text) for code, (text,) in zip(some, cursor.fetchall(), strict=True)]
    steps = ((point - before) % 0x10000 for before, point in zip([0, *points], points, strict=False))
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflate.compress(b"".join(step.to_bytes(2, "little") for step in steps)) + deflate.flush()


def _point(code: bytes, text: bytes | None) -> int:
    """The code point of a code. The server prints "?" for an undefined code, and several characters for a bad one."""
    if text is None or len(text) != 4 or (text == b"\0\0\0?" and code != b"?"):
        return 0
    point = int.from_bytes(text, "big")
    assert point < 0x10000, f"{code.hex()} is {point:x}"
    return point


if __name__ == "__main__":
    main()
