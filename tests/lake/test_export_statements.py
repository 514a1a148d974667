"""The lake's columns of a table follow a statement at once: the new version is made before a row comes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import KINDS, DatabaseServer
from relay.ddl import Dialect
from relay.ddl.dialect import packed
from relay.ddl.syntax import DataType
from relay.ingest.reading import rules
from relay.lake.buffer import PendingCommit
from relay.lake.documents import Marker, TableVersion
from relay.lake.exporter import Exporter, Settings
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.schema import history
from relay.schema.table import ABSENT, Column, State, Table, Unknown
from tests.ddl_corpus import CASES
from tests.lake.test_export import exporter, flushed
from tests.schema.test_ddl_corpus import SCHEMAS
from tests.support.exported_lake import Lake, export
from tests.support.journal_builder import Made
from tests.support.reader_process import Reader
from tests.support.server_variables import full_metadata_of
from tests.support.statement_replay import record

pytestmark = pytest.mark.brands

MakeReader = Callable[..., Reader]
KINDS_OF_COLUMNS = frozenset({
    "integers", "decimals", "floats", "bits and booleans", "times", "texts", "national texts", "bytes",
    "texts by character set", "labels", "many labels", "geometry", "json", "serial", "nullability", "invisible",
    "keys", "a unique index counts as the key", "a part of a column is no key", "indexes come and go", "many clauses",
    "moved and renamed", "case of names", "odd names", "rename several", "convert", "vectors",
    "types of MariaDB", "compressed columns", "system versioning",
    "vectors of MariaDB", "collations for several", "explicit defaults are off",
})  # fmt: skip
"""Cases of the corpus with one column or key of each kind, and the statements that move or copy some."""


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(300)
def test_rows_have_the_columns_that_were_made_of_the_statement_before(
    kind: str,
    metadata: str,
    request: pytest.FixtureRequest,
    make_reader: MakeReader,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    made_of_rows: list[TableVersion] = []
    add = PendingCommit.add

    def watched(self: PendingCommit, *arguments: Any) -> None:
        before = len(self.versions)
        add(self, *arguments)
        made_of_rows.extend(self.versions[before:])

    monkeypatch.setattr(PendingCommit, "add", watched)
    with full_metadata_of(server) if metadata == "FULL" else nullcontext():
        reader = make_reader(server).streaming()
        for name, statements in CASES[kind].items():
            if name in KINDS_OF_COLUMNS:
                record(server, statements, SCHEMAS)
        flushed(reader, server)
        export(exporter(lake, reader, tables=["d.*", "d_*.*"]))
    versions = sum(len(state.versions) for state in lake.state().tables.values())
    assert versions > 60
    assert not made_of_rows, f"{len(made_of_rows)} of {versions}"


def columns(lake: Lake, schema: str, table: str) -> dict[str, str]:
    return {field.column: field.type for field in lake.table(schema, table).version.fields if not field.side}


def test_columns_come_and_go_without_a_row(
    server: DatabaseServer, db: str, make_reader: MakeReader, lake: Lake
) -> None:
    left_out = {"Source.ExcludeColumns": f"{db}.*.secret", "Source.ExcludeTables": f"{db}.private"}
    reader = make_reader(server, left_out).streaming()
    settings = {"tables": [f"{db}.*"], "rules": rules(reader.context.config)}

    def after(*statements: str) -> None:
        server.execute(f"USE {db}", *statements)
        flushed(reader, server)
        export(exporter(lake, reader, **settings))

    after("CREATE TABLE t (id INT PRIMARY KEY, secret INT, n INT)", "CREATE TABLE private (id INT PRIMARY KEY)")
    assert columns(lake, db, "t") == {"id": "int", "n": "int"}
    assert lake.table(db, "t").version.key == ["id"]
    assert lake.table(db, "private").versions == [], "its rows are not in the journal"
    after("INSERT INTO t VALUES (1, 2, 3)", "ALTER TABLE t ADD more BIGINT, DROP n")
    assert columns(lake, db, "t") == {"id": "int", "more": "bigint"}
    assert lake.table(db, "t").complete_from is not None, "no reset"
    assert [row["n"] for row in lake.rows(db, "t")] == [3]
    versions = lake.table(db, "t").versions
    after("INSERT INTO t VALUES (2, 3, 4)", "ALTER TABLE t ADD INDEX (more)", "TRUNCATE t")
    assert lake.table(db, "t").versions == versions, "a row and an index change no column"
    after("RENAME TABLE t TO u", "CREATE TABLE t (secret INT PRIMARY KEY, n TEXT CHARACTER SET latin1)")
    assert columns(lake, db, "u") == {"id": "int", "more": "bigint"}
    assert lake.table(db, "u").last_marker == "reset"
    assert columns(lake, db, "t") == {"n": "string"}
    assert lake.table(db, "t").version.key == []
    after("DROP TABLE t")
    assert lake.table(db, "t").last_marker == "drop"
    lake.check()


def test_a_key_or_a_type_that_changes_is_a_reset_without_a_row(
    server: DatabaseServer, db: str, make_reader: MakeReader, lake: Lake
) -> None:
    reader = make_reader(server).streaming()
    server.execute(
        f"USE {db}",
        "CREATE TABLE keyed (a INT NOT NULL, b INT NOT NULL, UNIQUE x (a), UNIQUE y (b))",
        "CREATE TABLE typed (a INT PRIMARY KEY, b INT)",
        "INSERT INTO keyed VALUES (1, 2)",
        "INSERT INTO typed VALUES (1, 2)",
        "DROP INDEX x ON keyed",
        "ALTER TABLE typed MODIFY b VARCHAR(10) CHARACTER SET latin1",
    )
    flushed(reader, server)
    export(exporter(lake, reader, tables=[f"{db}.*"]))
    keyed, typed = lake.table(db, "keyed"), lake.table(db, "typed")
    assert [version.key for version in keyed.versions] == [["a"], ["b"]]
    assert [(version.generation, version.version) for version in typed.versions] == [(1, 1), (2, 2)]
    for table in (keyed, typed):
        assert table.last_marker == "reset"
        assert table.complete_from is None and table.before is not None
        assert table.reset > max(
            row["_seq"] for row in lake.rows(db, table.table.table) if row["_change_type"] == "insert"
        )
    resets = [marker for marker in markers(lake) if marker.kind == "reset"]
    assert [marker.seq for marker in resets] == [keyed.reset, typed.reset], "one for each statement"


def markers(lake: Lake) -> list[Marker]:
    return [marker for commit in LakeLog(open_storage(str(lake.folder))).commits() for marker in commit.markers]


def test_what_is_not_known_makes_no_columns(tmp_path: Path, lake: Lake) -> None:
    made = Made(tmp_path / "journal")
    dialect = packed(Dialect(False, 90704))

    def after(text: str, state: State | None, spoken: bytes = dialect) -> list[TableVersion]:
        outcomes = history.packed([] if state is None else [("shop", "t", state)]) if spoken else b""
        made.writer.ddl(made.place, 1_700_000_000, "shop", text, spoken, outcomes)
        made.commit()
        made.flush()
        export(Exporter(open_storage(str(lake.folder)), made.folder, Settings()))
        return lake.table("shop", "t").versions

    number = Column("n", DataType("int", 11))
    table = Table("shop", "t", (number,), (), "latin1")
    assert after("CREATE TABLE t (n INT)", Unknown("it is not understood")) == []
    assert after("ALTER TABLE t COMMENT 'x'", table) == [], "the lake knows neither columns nor rows, and gets none"
    assert len(after("CREATE OR REPLACE TABLE t (n INT)", table)) == 1
    for text, state in (("ALTER TABLE t FROB", Unknown("FROB")), ("DROP TABLE t", ABSENT), ("TRUNCATE t", None)):
        assert len(after(text, state)) == 1, text
    assert len(after("ALTER TABLE t ADD m INT", None, b"")) == 1, "of a journal from before the schema history"
