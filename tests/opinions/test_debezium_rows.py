"""Debezium's envelope of the value cases is Debezium's own, but for the listed differences: `make opinions`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import Flag, Replication, Stream, events
from relay.protocol.debezium import envelope
from tests.opinions.debezium_differences import DIFFERENCES, OF_CHARACTER_SETS, difference
from tests.support import ROOT
from tests.support.binlogs import place
from tests.support.server_variables import full_metadata_of
from tests.support.waiting import until
from tests.types.case import TableCase
from tests.types.cases import cases

pytestmark = [pytest.mark.opinions, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "recipes" / "come-from-debezium.md"
SESSION = "SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'"
Images = dict[str, list[dict[str, Any]]]


class Debezium:
    """Debezium's connector for MySQL, which follows a database from now on."""

    def __init__(self, server: DatabaseServer, db: str, folder: Path) -> None:
        self._server, self._table = server, f"{db}.ready"
        self._file = folder / "changes"
        server.execute(f"CREATE TABLE {self._table} (id INT)")
        program = Path(__file__).with_name("debezium_engine.py")
        command = [sys.executable, str(program), str(server.port), USER, PASSWORD, db, str(self._file)]
        with open(folder / "log", "wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        self.await_row(1)

    def await_row(self, number: int) -> None:
        """Insert a row until it comes; every row before has come then."""

        def came() -> bool:
            self._server.execute(f"INSERT INTO {self._table} VALUES ({number})")
            return any(row["id"] == number for row in self.images().get("ready", ()))

        until(came, seconds=120, pause=0.5, what="Debezium sends no change")

    def images(self) -> Images:
        """The rows after each insert, by table."""
        found: Images = defaultdict(list)
        for line in self._file.read_bytes().split(b"\n")[:-1] if self._file.exists() else ():
            document = json.loads(line.decode("utf-8", "replace"))
            assert document["op"] == "c"
            found[document["source"]["table"]].append(document["after"])
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def fill(server: DatabaseServer, db: str, tables: dict[str, TableCase], folder: Path) -> Images:
    """Make the tables, let Debezium begin, fill them; what Debezium says."""
    with ExitStack() as stack:
        connection = stack.enter_context(closing(server.connect(database=db, use_unicode=False)))
        cursor = connection.cursor()

        def execute(case: TableCase, *statements: str) -> None:
            for statement in (SESSION, *(f"SET {name} = {value}" for name, value in case.settings), *statements):
                cursor.execute(statement.encode())
            connection.commit()

        for table, case in tables.items():
            execute(case, f"CREATE TABLE {table} ({case.columns}) {case.options}")
        debezium = stack.enter_context(closing(Debezium(server, db, folder)))
        for table, case in tables.items():
            execute(case, *(f"INSERT INTO {table} {insert}" for insert in case.inserts))
        debezium.await_row(2)
        return debezium.images()


def ours(server: DatabaseServer, db: str, start: Replication) -> Images:
    """The same as our envelope says it."""
    found: Images = defaultdict(list)
    with closing(server.connect()) as connection, Stream(connection, start, values="python") as stream:
        for event in stream:
            if isinstance(event, events.RowsEvent) and event.table_map and event.table_map.database == db:
                documents = [envelope(row.before, row.after, {}, 0) for row in stream.rows(event)]
                found[event.table_map.table] += [json.loads(json.dumps(each))["after"] for each in documents]
    return found


def column_types(server: DatabaseServer, db: str) -> Iterator[tuple[tuple[str, str], str]]:
    """The SQL type of each column."""
    for table, column, sql in server.execute(
        f"SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{db}'"
    ):
        yield (str(table), str(column)), sql if isinstance(sql, str) else sql.decode("utf-8", "replace")


def test_values_are_debeziums_but_for_those_listed(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    db = make_db(mysql97)
    wanted = [case for case in cases(mysql97) if not case.alone and not case.partial]
    tables = {f"c{number}": case for number, case in enumerate(wanted)}
    begin = place(mysql97)
    with full_metadata_of(mysql97):
        theirs = fill(mysql97, db, tables, tmp_path)
    found = ours(mysql97, db, Replication(begin.file, begin.position, flags=Flag.NON_BLOCK))
    types = dict(column_types(mysql97, db))
    differing, wrong, values = Counter[str](), [], 0
    for table, case in tables.items():
        assert len(theirs[table]) == len(found[table]) > 0, f"{case.family}, {case.name}"
        for right, row in zip(theirs[table], found[table], strict=True):
            assert list(right) == list(row)
            for column, value in row.items():
                values += 1
                if repr(value) == repr(right[column]):
                    continue
                word = difference(types[table, column], right[column], value)
                differing[word] += 1
                if not word or (word == OF_CHARACTER_SETS and "latin1" not in case.name and case.family != word):
                    wrong.append(
                        f"{case.name}, {types[table, column]:.40}: {value!r:.80}, theirs {right[column]!r:.80}"
                    )
    print(f"{values} values, {values - differing.total()} equal, {dict(differing)}")
    assert not wrong, "\n".join(wrong)
    assert set(differing) == set(DIFFERENCES), "a difference that does not exist is listed"


def test_the_page_lists_every_difference() -> None:
    listed = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert set(DIFFERENCES) <= set(listed)
