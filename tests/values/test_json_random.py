"""Random JSON documents, and random updates of parts of them, equal a SELECT."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from examples.dbserver import DatabaseServer
from tests.support import binlogs
from tests.support.binlogs import Fed
from tests.support.chance import SEED, seeds
from tests.support.journal_rows import journaled

PARTIAL_UPDATE_ROWS = 39
DOCUMENTS = 30
UPDATES = 300

KEYS = ["a", "b", "c", "key", "é", "日本", "", "a b", 'q"uote', "back\\slash", "$", "1", "new\nline", "k" * 40]
SCALARS = [
    "NULL", "TRUE", "FALSE", "0", "1", "-1", "32767", "-32768", "32768", "65535", "-32769", "65536", "2147483647",
    "-2147483648", "2147483648", "4294967295", "4294967296", "9223372036854775807", "-9223372036854775808",
    "18446744073709551615", "1.5e0", "-0e0", "1e100", "1e15", "0.1e0", "1e-7", "12.50", "-0.001", "123456789012345.678",
    "''", "'text'", "'é日本😀'", "'quote \" and \\\\ slash'", "'\\n\\t\\b'", "REPEAT('x', 127)", "REPEAT('x', 128)",
    "CAST('2024-02-29' AS DATE)", "CAST('2024-02-29 01:02:03.456' AS DATETIME(6))", "CAST('-838:59:59' AS TIME)",
    "CAST('00:00:00.000001' AS TIME(6))", "TIMESTAMP'1970-01-01 00:00:01'", "CAST(1999 AS YEAR)", "X'00FF10'", "b'101'",
    "CAST('bytes' AS BINARY)", "ST_GeomFromText('POINT(1 2)')", "CAST('null' AS JSON)", "CAST('1.0' AS JSON)",
]  # fmt: skip
LONG = ["REPEAT('long ', 3300)", "REPEAT('x', 65510)", "REPEAT('é', 20000)"]


class Documents:
    """Random SQL expressions for documents, paths and updates."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def document(self, depth: int = 0) -> str:
        kind = self.chance.random()
        if depth > 3 or (kind < 0.35 and depth > 0) or kind < 0.02:
            return self.chance.choice(LONG if self.chance.random() < 0.01 else SCALARS)
        count = self.chance.choice([0, 1, 2, 3, 5, 20]) if depth < 3 else self.chance.randrange(3)
        values = [self.document(depth + 1) for _ in range(count)]
        if kind < 0.65:
            return f"JSON_ARRAY({', '.join(values)})"
        keys = [self.chance.choice(KEYS) + self.chance.choice(["", "", str(number)]) for number in range(count)]
        return f"JSON_OBJECT({', '.join(f'{quoted(key)}, {value}' for key, value in zip(keys, values, strict=True))})"

    def path(self, value: Any) -> str:
        """One that leads into this value most of the time, and sometimes beyond it."""
        legs = "$"
        while legs == "$" or (isinstance(value, dict | list) and self.chance.random() < 0.8):
            fits = self.chance.random() < 0.8
            if isinstance(value, dict) if fits else self.chance.random() < 0.5:
                key = self.chance.choice(list(value) if fits and value else KEYS)
                legs += "." + json.dumps(key, ensure_ascii=self.chance.random() < 0.5)
                value = value.get(key) if isinstance(value, dict) else None
            else:
                count = len(value) if isinstance(value, list) else 1
                index = self.chance.randrange(count + (not fits) or 1)
                legs += self.chance.choice([f"[{index}]", f"[last-{count - 1 - index}]" if index < count else "[last]"])
                value = value[index] if isinstance(value, list) and index < count else None
        return quoted(legs)

    def update(self, value: Any) -> str:
        """Of a column that holds this value: functions within one another, each with one change or several."""
        expression = "j"
        for _ in range(self.chance.randrange(1, 4)):
            paths = [self.path(value) for _ in range(self.chance.randrange(1, 4))]
            function = self.chance.choice(["JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
            if function == "JSON_REMOVE":
                arguments = paths[:1]
            else:
                arguments = [part for path in paths for part in (path, self.document(2))]
            expression = f"{function}({expression}, {', '.join(arguments)})"
        return expression


def quoted(text: str) -> str:
    """A literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


class Shown(NamedTuple):
    """What SELECT showed of each row: as inserted, and after each of its updates."""

    inserted: list[str]
    updated: list[str]


def work(server: DatabaseServer, db: str, seed: int) -> Shown:
    """Insert documents and update them again and again."""
    sql = Documents(seed)
    updated: list[str] = []
    with closing(server.connect(database=db, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute("SET binlog_row_value_options = 'PARTIAL_JSON'")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON, n INT DEFAULT 0)")
        for _ in range(DOCUMENTS):
            cursor.execute(f"INSERT INTO t (j) SELECT JSON_EXTRACT(JSON_ARRAY({sql.document()}), '$[0]')")
        cursor.execute("SELECT j FROM t ORDER BY id")
        inserted = [row[0] for row in cursor.fetchall()]
        now = list(inserted)
        for _ in range(UPDATES):
            row = sql.chance.randrange(DOCUMENTS)
            cursor.execute(f"UPDATE t SET n = n + 1, j = {sql.update(json.loads(now[row]))} WHERE id = {row + 1}")
            cursor.execute(f"SELECT j FROM t WHERE id = {row + 1}")
            now[row] = cursor.fetchall()[0][0]
            updated.append(now[row])
    return Shown(inserted, updated)


def check(server: DatabaseServer, db: str, folder: Path, seed: int) -> None:
    start = binlogs.place(server)
    shown = work(server, db, seed)
    stream = binlogs.record(server, start)
    assert PARTIAL_UPDATE_ROWS in {binlogs.event_type(packet) for packet in binlogs.split(stream)}
    fed = Fed(folder, segment=1 << 24)
    fed.begin(start)
    fed.feed(stream)
    frames = journaled(fed)
    inserted = [after for frame in frames if frame.kind == 1 for _, after in frame.typed()]
    updated = [after for frame in frames if frame.kind == 2 for _, after in frame.typed()]
    assert [row["@2"] for row in inserted if row] == shown.inserted
    assert [row["@2"] for row in updated if row] == shown.updated


@pytest.fixture
def db97(mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    return make_db(mysql97)


def test_random_documents_and_updates_of_them(mysql97: DatabaseServer, db97: str, tmp_path: Path) -> None:
    check(mysql97, db97, tmp_path, SEED + 1)


@pytest.mark.slow
def test_many_random_documents_and_updates(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    for seed in seeds(30, 2):
        check(mysql97, make_db(mysql97), tmp_path / str(seed), seed)
