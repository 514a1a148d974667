"""Text cases in every character set of a server, with every character of each set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from pymysql.cursors import Cursor

from examples.dbserver import DatabaseServer
from tests.types.case import TableCase, chunks

CHARACTERS = 128  # in a value
STRICT = (("sql_mode", "STRICT_ALL_TABLES"),)  # a value that does not fit is an error
UNICODE = {
    "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}  # fmt: skip
_BMP = [*range(0xD800), *range(0xE000, 0x10000)]
_PLANES = [
    *range(0x10000, 0x110000, 61),
    *(plane << 16 | last for plane in range(1, 17) for last in (0, 0xFFFE, 0xFFFF)),
]
_FOUR_BYTES_BMP, _FOUR_BYTES_ALL = 39_420, 1_587_600  # four-byte codes of GB18030: those of the BMP, and all


class Charset(NamedTuple):
    """A character set, and the codes that it accepts."""

    name: str
    codes: Sequence[bytes]


def cases(server: DatabaseServer) -> list[TableCase]:
    """For each character set a case with all its characters and one with each column type; and all collations."""
    with closing(server.connect(database="test")) as connection, connection.cursor() as cursor:
        sets = _charsets(cursor)
        samples = {charset.name: _sample(cursor, charset) for charset in sets}
        surrogates = {name: codes for name in UNICODE if (codes := _accepted(cursor, name, 4, _surrogates(name)))}
        name = "COLLATION_NAME" if server.kind.mysql else "FULL_COLLATION_NAME"  # the same for several sets
        cursor.execute(
            f"SELECT {name}, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
            " WHERE CHARACTER_SET_NAME <> 'binary' ORDER BY 1"
        )
        collations = [(str(name), str(charset)) for name, charset in cursor.fetchall()]
    listed = [_repertoire(f"{name}: {len(codes)} codes", name, codes) for name, codes in sets]
    listed += [_columns(charset.name, samples[charset.name]) for charset in sets]
    listed += [_repertoire(f"{name}: surrogates that are no pair", name, codes) for name, codes in surrogates.items()]
    return listed + list(_collations(collations))


def _charsets(cursor: Cursor) -> list[Charset]:
    cursor.execute("SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS ORDER BY 1")
    sizes = {str(name): int(longest) for name, longest in cursor.fetchall() if name not in ("binary", "filename")}
    cursor.execute("SET max_error_count = 0, max_heap_table_size = 268435456")
    candidates, sets = list(_candidates()), []
    for name, longest in sizes.items():
        if name in UNICODE:
            points = _BMP if name in ("ucs2", "utf8mb3") else _BMP + _PLANES
            codes = [chr(point).encode(UNICODE[name]) for point in points]
        else:
            codes = _accepted(cursor, name, longest, candidates if longest > 1 else candidates[:0x100])
        sets.append(Charset(name, codes))
    return sets


def _accepted(cursor: Cursor, charset: str, longest: int, candidates: Sequence[bytes]) -> list[bytes]:
    """The codes that a column stores unchanged."""
    cursor.execute("CREATE TEMPORARY TABLE codes (code VARBINARY(4)) ENGINE = MEMORY")
    for some in chunks([code for code in candidates if len(code) <= longest], 20_000):
        cursor.execute(f"INSERT INTO codes VALUES ({'),('.join(map(_hex, some))})")
    kept = f"kept (code VARBINARY(4), v VARCHAR(1) CHARACTER SET {charset}) ENGINE = MEMORY"
    cursor.execute(f"CREATE TEMPORARY TABLE {kept}")
    cursor.execute("INSERT IGNORE INTO kept SELECT code, code FROM codes")
    cursor.execute("SELECT code FROM kept WHERE CAST(v AS BINARY) = code ORDER BY code")
    found = [bytes(code) for (code,) in cursor.fetchall()]
    cursor.execute("DROP TEMPORARY TABLE codes, kept")
    return found


def _surrogates(charset: str) -> list[bytes]:
    points = (0xD800, 0xDBFF, 0xDC00, 0xDFFF)
    return [chr(point).encode(UNICODE[charset], "surrogatepass") for point in points]


def _candidates() -> Iterator[bytes]:
    """Codes that may be characters; the server decides."""
    for one in range(0x100):
        yield bytes([one])
    for lead in range(0x80, 0x100):
        for trail in range(0x20, 0x100):
            yield bytes([lead, trail])
    for row in range(0xA1, 0xFF):
        for cell in range(0xA1, 0xFF):
            yield bytes([0x8F, row, cell])
    for number in (*range(_FOUR_BYTES_BMP), *range(_FOUR_BYTES_BMP, _FOUR_BYTES_ALL, 97)):
        rest, fourth = divmod(number, 10)
        rest, third = divmod(rest, 126)
        first, second = divmod(rest, 10)
        yield bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth])


def _sample(cursor: Cursor, charset: Charset) -> list[str]:
    """Some characters of all parts of the character set, as the server prints them."""
    codes = charset.codes[0x21 :: max(1, len(charset.codes) // 400)]
    texts = ", ".join(f"CONVERT(CONVERT({_hex(code)} USING {charset.name}) USING utf8mb4)" for code in codes)
    cursor.execute(f"SELECT {texts}")
    (found,) = cursor.fetchall()
    printable = [text for text in found if text and text.isalpha() and text <= "\uffff"]
    return printable[:: max(1, len(printable) // 12)]


def _repertoire(name: str, charset: str, codes: Sequence[bytes]) -> TableCase:
    values = [_hex(b"".join(some)) for some in chunks(codes, CHARACTERS)]
    inserts = [f"(v) VALUES ({'),('.join(some)})" for some in chunks(values, 200)]
    columns = f"id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR({CHARACTERS}) CHARACTER SET {charset}, w INT"
    return TableCase("character sets", name, columns, inserts, settings=STRICT)


def _columns(charset: str, sample: Sequence[str]) -> TableCase:
    """A column of every type with a character set, also ENUM and SET with labels in it."""
    labels = ", ".join(f"'{number}{character}{number}'" for number, character in enumerate(sample))
    text = "".join(sample)
    types = ("CHAR(30)", "CHAR(64)", "VARCHAR(60)", "VARCHAR(300)", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT",
             f"ENUM({labels})", f"SET({labels})")  # fmt: skip
    columns = ", ".join(f"v{number} {sql} CHARACTER SET {charset}" for number, sql in enumerate(types))
    texts = ", ".join([f"'{text}'"] * 8)
    rows = [f"({texts}, {number + 1}, {1 << number})" for number in range(len(sample))]
    rows += [f"({'NULL, ' * 9}NULL)", "('', '', '', '', '', '', '', '', 1, '')"]
    names = ", ".join(f"v{number}" for number in range(len(types)))
    return TableCase(
        "character sets", f"{charset}: CHAR, VARCHAR, TEXT, ENUM, SET", f"id INT PRIMARY KEY AUTO_INCREMENT, {columns}",
        [f"({names}) VALUES {', '.join(rows)}"], "v0 = 'a'", settings=STRICT,
    )  # fmt: skip


def _collations(collations: Sequence[tuple[str, str]]) -> Iterator[TableCase]:
    """A column for each collation: table maps with FULL metadata name character sets only by numbers of collations."""
    for number, some in enumerate(chunks(collations, 300), 1):
        columns = [
            f"`{name}` {('ENUM', 'VARCHAR(3)', 'CHAR(3)')[at % 3]} CHARACTER SET {charset} COLLATE {name}"
            for at, (name, charset) in enumerate(some)
        ]
        columns = [sql.replace("ENUM", "ENUM('a', 'b')") for sql in columns]
        names, values = ", ".join(f"`{name}`" for name, _ in some), ", ".join(["'a'"] * len(some))
        yield TableCase(
            "character sets", f"collations, part {number}: {len(some)}",
            f"id INT PRIMARY KEY AUTO_INCREMENT, {', '.join(columns)}", [f"({names}) VALUES ({values})"], "id = 77",
        )  # fmt: skip


def _hex(code: bytes) -> str:
    return f"X'{code.hex()}'"
