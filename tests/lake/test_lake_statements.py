"""The effects of statements on the lake's rows: never less than on a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest

from relay.ddl import Dialect, SqlMode
from relay.lake.documents import Field, MarkerKind, Table, TableState, TableVersion
from relay.lake.statements import effects
from tests.support import ROOT

PAGE = (ROOT / "docs" / "lake-ddl.md").read_text()
T, U = Table("d", "t"), Table("d", "u")
COLUMNS = {
    "id": "int", "n": "int(11)", "small": "smallint(5) unsigned", "filled": "int(5) unsigned zerofill",
    "price": "decimal(10,2)", "code": "varbinary(20)", "word": "varchar(20)", "kind": "enum('a','b')",
}  # fmt: skip

KEEPING = [
    "ADD c INT", "ADD COLUMN c INT", "ADD COLUMN c INT NULL DEFAULT NULL COMMENT 'x, y' FIRST",
    "ADD `c` INT AFTER n",
    "ADD c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "ADD c DECIMAL(10,2) UNSIGNED ZEROFILL, ADD e JSON",
    "ADD COLUMN (c INT, e ENUM('a','b''c') NULL, INDEX (c))", "ADD c TIMESTAMP NULL", "ADD c DATETIME(6)",
    "ADD c TEXT COMMENT 'DEFAULT 5', ALGORITHM=INSTANT, LOCK = NONE", "ADD c SET('x') AFTER `select`",
    "ADD vector INT", "ADD VECTOR INDEX (code)", "ADD `key` INT", "ADD `primary` INT NULL",
    "DROP n", "DROP COLUMN n", "DROP COLUMN IF EXISTS n, DROP small", "DROP n RESTRICT", "DROP COLUMN gone",
    "DROP `Index`",
    "ADD INDEX (n)", "ADD KEY i (n), ADD FULLTEXT INDEX (word)", "ADD UNIQUE (n)",
    "ADD CONSTRAINT u UNIQUE KEY (n)",
    "ADD CONSTRAINT FOREIGN KEY (n) REFERENCES u (id)", "ADD CONSTRAINT c CHECK (n > 0)", "ADD CHECK (n > 0)",
    "DROP INDEX i", "DROP KEY i, DROP FOREIGN KEY f", "DROP CHECK c", "DROP CONSTRAINT c",
    "RENAME INDEX a TO b", "RENAME KEY a TO b", "ALTER INDEX i INVISIBLE", "ALTER n SET DEFAULT 5",
    "ALTER COLUMN n DROP DEFAULT", "ALTER COLUMN n SET INVISIBLE", "ALTER CHECK c NOT ENFORCED",
    "COMMENT = 'it''s'", "COMMENT='a' AUTO_INCREMENT = 99, ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
    "DEFAULT CHARSET = utf8mb4 COLLATE utf8mb4_bin", "CHARACTER SET latin1", "DEFAULT CHARACTER SET = latin1",
    "ENGINE = InnoDB", "ENGINE=Aria", "FORCE", "ORDER BY n", "ENABLE KEYS", "DISABLE KEYS", "STATS_PERSISTENT=1",
    "COMPRESSION='zlib'", "WITHOUT VALIDATION", "ENCRYPTION='N'", "",
    "ADD PARTITION (PARTITION p VALUES LESS THAN (9))",
    "REORGANIZE PARTITION a, b INTO (PARTITION c VALUES IN (1, 2))",
    "COALESCE PARTITION 2", "REBUILD PARTITION ALL", "REMOVE PARTITIONING", "PARTITION BY HASH (id) PARTITIONS 4",
    "ENGINE = InnoDB PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1), PARTITION q VALUES LESS THAN (2))",
    "MODIFY n BIGINT", "MODIFY COLUMN n INT NULL DEFAULT -5", "CHANGE n n BIGINT COMMENT 'x' FIRST",
    "MODIFY id BIGINT NOT NULL",
    "MODIFY small INT UNSIGNED", "MODIFY small INTEGER UNSIGNED", "MODIFY code VARBINARY(21)",
    "MODIFY price DECIMAL(12,2)",
    "MODIFY price NUMERIC(12,4)", "MODIFY n BIGINT, ADD c INT, DROP word",
]  # fmt: skip
CHANGING = [
    "ADD c INT DEFAULT 'NULL'", "ADD c INT DEFAULT (NULL)", "ADD c INT AS (n)",
    "ADD c INT GENERATED ALWAYS AS (n) STORED", "ADD c INT AUTO_INCREMENT", "ADD c INT PRIMARY KEY",
    "ADD c INT UNIQUE", "ADD c SERIAL", "ADD c TIMESTAMP(6) DEFAULT NULL",
    "ADD c DATETIME ON UPDATE CURRENT_TIMESTAMP", "ADD (c INT, e INT DEFAULT 1)", "ADD c INT, ADD e INT DEFAULT 1",
    "ADD c INT FROBNICATED", "ADD c INT NOT NULL FIRST", "ADD n INT", "ADD GONE INT", "DROP gone, ADD gone INT",
    "ADD COLUMN IF NOT EXISTS n INT", "DROP id", "DROP COLUMN `ID`", "DROP INDEX `PRIMARY`",
    "DROP CONSTRAINT `primary`", "ADD PRIMARY KEY (n)", "ADD CONSTRAINT p PRIMARY KEY (n)",
    "ADD CONSTRAINT PRIMARY KEY (n)", "CHANGE n m INT", "CHANGE n N INT", "MODIFY n INT UNSIGNED",
    "MODIFY n BIGINT AUTO_INCREMENT", "MODIFY n DECIMAL(20,0)", "MODIFY small INT", "MODIFY filled BIGINT UNSIGNED",
    "MODIFY n BIGINT ZEROFILL", "MODIFY unknown INT", "MODIFY word VARCHAR(30)", "MODIFY kind ENUM('a','b','c')",
    "MODIFY price DECIMAL(12,1)", "MODIFY price DECIMAL(11,4)", "MODIFY price DECIMAL", "MODIFY code VARBINARY(19)",
    "MODIFY code BINARY(30)", "MODIFY price DECIMAL(12,2) UNSIGNED", "DISCARD PARTITION p TABLESPACE",
    "IMPORT PARTITION p TABLESPACE", "REPAIR PARTITION p", "DISCARD TABLESPACE", "IMPORT TABLESPACE",
    "ENGINE = BLACKHOLE", "ENGINE = MEMORY", "UNION = (a, b)", "ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING",
    "ADD PERIOD FOR SYSTEM_TIME (a, b)", "DROP PERIOD FOR SYSTEM_TIME", "ADD c INT,", "ADD c INT DEFAULT",
    "ADD (c INT", "ADD", "ADD c INT COMMENT 'a' 'b'", "CONNECTION = 'elsewhere'", "FILE_NAME = 'elsewhere'",
]  # fmt: skip


def state(table: Table, key: Sequence[str] = ("id",), gone: Sequence[str] = ("gone",), **more: object) -> TableState:
    """A table that is complete in the lake; its first version had columns that are `gone`."""
    fields = [Field(name, "string", name, sql) for name, sql in COLUMNS.items()]
    old = [*fields, *(Field(name, "int", name, "int") for name in gone)]
    versions = [TableVersion(table, 1, 1, old, list(key)), TableVersion(table, 1, 2, fields, list(key))]
    return TableState(table, versions, {}, [], **{"complete_from": 1, **more})  # type: ignore[arg-type]


def lake(*states: TableState) -> Mapping[str, TableState]:
    return {str(each.table): each for each in states}


KNOWN = lake(state(T), state(U, key=()))


def told(
    statement: str, known: Mapping[str, TableState] = KNOWN, schema: str = "d", dialect: Dialect | None = None
) -> dict[str, MarkerKind]:
    """The effects by table, without the schema where that is d."""
    found = effects(statement, schema, known, dialect)
    assert len({table for table, _ in found}) == len(found)
    return {str(table).removeprefix("d."): kind for table, kind in found}


DOCUMENTED = [
    (statement, dict(re.findall(r"`(\w+)` (\w+)", markers)))
    for statements, markers in re.findall(r"^\| (`[A-Z].*) \| (.*) ?\|$", PAGE, re.MULTILINE)
    for statement in re.findall(r"`([A-Z][^`]*)`", statements)
]


@pytest.mark.parametrize(("statement", "kinds"), DOCUMENTED)
def test_the_page_says_what_statements_do(statement: str, kinds: dict[str, MarkerKind]) -> None:
    assert told(statement, lake(state(T, gone=()))) == kinds


def test_the_page_lists_statements() -> None:
    assert len(DOCUMENTED) > 40 and {kind for _, kinds in DOCUMENTED for kind in kinds.values()} == set(
        get_args(MarkerKind)
    )


@pytest.mark.parametrize("clauses", KEEPING)
def test_what_keeps_all_values_is_nothing(clauses: str) -> None:
    assert told(f"ALTER TABLE t {clauses}") == {}


@pytest.mark.parametrize("clauses", CHANGING)
def test_what_may_change_a_value_is_a_reset(clauses: str) -> None:
    assert told(f"ALTER TABLE t {clauses}") == {"t": "reset"}


@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        ("TRUNCATE t", {"t": "truncate"}), ("TRUNCATE TABLE `d`.`t` WAIT 5", {"t": "truncate"}),
        ("DROP TABLE IF EXISTS `t`,`e`.`x` /* generated by server */", {"t": "drop",
        "e.x": "drop"}),
        ("DROP TABLES t, u CASCADE", {"t": "drop", "u": "drop"}), ("DROP TEMPORARY TABLE t", {}), ("DROP VIEW t", {}),
        ("DROP DATABASE d", {"t": "drop", "u": "drop"}), ("DROP SCHEMA IF EXISTS `e`", {}), ("CREATE DATABASE d", {}),
        ("ALTER DATABASE d CHARACTER SET latin1", {}), ("DROP SEQUENCE s", {"s": "drop"}),
        ("CREATE TABLE e.`x.y` LIKE t", {"e.x.y": "create"}),
        ("CREATE OR REPLACE TABLE t (id INT) ENGINE=InnoDB", {"t": "create"}),
        ("CREATE TABLE x (a INT) START TRANSACTION", {"x": "create"}),
        ("CREATE TABLE x (engine INT) ENGINE = MERGE UNION = (t, u)", {"x": "reset"}),
        ("CREATE TEMPORARY TABLE t (id INT)", {}),
        ("CREATE TABLE x (a INT /*!80023 INVISIBLE */) /*!50100 PARTITION BY HASH (a) */", {"x": "create"}),
        ("CREATE /*!99999 OR REPLACE */ TABLE t (a INT)", {"t": "create"}), ("CREATE SEQUENCE s", {"s": "reset"}),
        ("ALTER SEQUENCE s RESTART 7", {"s": "reset"}), ("CREATE OR REPLACE DATABASE d", {"t": "drop", "u": "drop"}),
        ("ALTER TABLE x FROBNICATE", {"x": "reset"}), ("CREATE TABLE x (a FROB)", {"x": "reset"}),
        ("CREATE UNIQUE INDEX i USING BTREE ON t (n)", {}), ("DROP INDEX i ON t", {}),
        ("CREATE UNIQUE INDEX i ON u (n)", {"u": "reset"}), ("ALTER TABLE u ADD UNIQUE (n)", {"u": "reset"}),
        ("CREATE OR REPLACE INDEX i ON u (n)", {"u": "reset"}), ("DROP INDEX `PRIMARY` ON t", {"t": "reset"}),
        ("CREATE VIEW v AS SELECT * FROM t", {}), ("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1", {}),
        ("RENAME TABLE t TO e.t", {"t": "drop", "e.t": "reset"}),
        ("RENAME TABLE t TO x, u TO t, x TO u", {"t": "reset", "u": "reset"}),
        ("RENAME TABLES IF EXISTS t WAIT 3 TO x, u TO y", {"t": "drop", "x": "reset", "u": "drop", "y": "reset"}),
        ("ALTER TABLE t RENAME x", {"t": "drop", "x": "reset"}),
        ("ALTER TABLE t ADD c INT, RENAME TO e.x", {"t": "drop", "e.x": "reset"}),
        ("ALTER TABLE t RENAME AS `x`, MODIFY n TEXT", {"t": "drop", "x": "reset"}), ("ALTER TABLE t RENAME = t", {}),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", {"t": "reset", "u": "reset"}),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE x", {"t": "reset", "x": "reset"}),
        ("ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (9)", {"t": "reset", "u": "drop"}),
        ("ALTER TABLE x MODIFY n BIGINT", {"x": "reset"}), ("ALTER ONLINE TABLE IF EXISTS t WAIT 5 ADD c INT", {}),
        ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", {}),
        ("SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE t ADD c INT DEFAULT 1", {"t": "reset"}),
        ("SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE t ADD c INT", {}),
        ("ALTER TABLE /* x */ t -- y\n ADD c INT # z", {}),
        ('ALTER TABLE "t" ADD "c" INT', {}), ("COMMIT", {}), ("ANALYZE TABLE t", {}), ("FLUSH TABLES", {}),
        ("FROBNICATE t", {"t": "reset", "u": "reset"}), ("ALTER TABLE t\ufffd ADD c INT", {"t": "reset", "u": "reset"}),
        ("RENAME TABLE t TO", {"t": "reset"}), ("DROP", {"t": "reset", "u": "reset"}),
        ("ALTER TABLE t EXCHANGE PARTITION u", {"t": "reset", "u": "reset"}),
    ],
)  # fmt: skip
def test_each_table_has_one_effect(statement: str, kinds: dict[str, MarkerKind]) -> None:
    assert told(statement) == kinds


def test_texts_in_another_character_set_hide_no_names() -> None:
    assert told("ALTER TABLE t COMMENT '\ufffd', ADD c INT") == {}
    assert told("ALTER TABLE t /* \ufffd */ ADD c INT DEFAULT '\ufffd'") == {"t": "reset"}
    assert told("ALTER TABLE t ADD `\ufffd` INT") == {"t": "reset", "u": "reset"}
    # The second byte of a character of GBK or Shift JIS may look like a backslash.
    assert told("ALTER TABLE t COMMENT '\ufffd\\', RENAME TO w, COMMENT 'x'") == {"t": "drop", "w": "reset"}
    assert told("TRUNCATE t", schema="\ufffd") == {"t": "reset", "u": "reset"}


def test_names_without_a_schema_are_of_the_default_one() -> None:
    assert told("ALTER TABLE t DROP id", schema="e") == {"e.t": "reset"}
    assert told("ALTER TABLE d.t DROP id", schema="") == {"t": "reset"}
    assert told("TRUNCATE t", schema="") == {"t": "reset"}


def test_a_table_that_was_dropped_is_not_there() -> None:
    known = lake(state(T, last_marker="drop"))
    assert told("CREATE TABLE IF NOT EXISTS t (id INT)", known) == {"t": "create"}


def test_a_name_in_another_case_may_be_the_same_table() -> None:
    assert told("DROP TABLE T") == {"T": "drop", "t": "reset"}
    assert told("ALTER TABLE T ADD c INT") == {}
    assert told("DROP DATABASE D") == {"t": "reset", "u": "reset"}
    both = lake(state(T), state(Table("d", "T")))
    assert told("DROP TABLE T", both) == {"T": "drop"}


@pytest.mark.parametrize("more", [{"complete_from": None}, {"complete_from": 7, "reset": 8}])
def test_a_type_is_compared_where_the_lake_has_the_whole_table(more: dict[str, Any]) -> None:
    known = lake(state(T, **more))
    assert told("ALTER TABLE t MODIFY n BIGINT", known) == {"t": "reset"}
    assert told("ALTER TABLE t ADD c INT, DROP n", known) == {}


@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        (r"ALTER TABLE t ADD c INT COMMENT 'it\'s', ADD e INT", {}),
        (r"ALTER TABLE t COMMENT '\', ADD c INT DEFAULT 5, COMMENT '\'", {"t": "reset"}),
        (r"ALTER TABLE t COMMENT '\', RENAME TO w, COMMENT '\'", {"t": "drop", "w": "reset"}),
        (r"ALTER TABLE t COMMENT '\', ADD c INT DEFAULT 5, COMMENT '# '", {"t": "reset", "u": "reset"}),
        (r"ALTER TABLE t COMMENT 'C:\\x', ADD c INT", {}),
    ],
)
def test_a_backslash_may_escape_a_quote_or_not(statement: str, kinds: dict[str, MarkerKind]) -> None:
    assert told(statement) == kinds


@pytest.mark.parametrize(
    ("statement", "before", "since"),
    [
        ("ALTER TABLE t ADD c INT /*!80000 NOT NULL */", {}, {"t": "reset"}),
        ("ALTER TABLE t ADD c TIMESTAMP /*!80000 NULL */", {"t": "reset"}, {}),
        ("ALTER TABLE t /*!80000 FROBNICATE */", {}, {"t": "reset"}),
        ("/*!80000 ALTER */ TABLE t ADD c INT NOT NULL", {"t": "reset", "u": "reset"}, {"t": "reset"}),
    ],
)
def test_a_comment_is_executed_from_a_version_on(
    statement: str, before: dict[str, MarkerKind], since: dict[str, MarkerKind]
) -> None:
    assert told(statement, dialect=Dialect(False, 50_744)) == before
    assert told(statement, dialect=Dialect(False, 80_000)) == since
    assert told(statement) == {"t": "reset", "u": "reset"}, "where nobody knows the version"


@pytest.mark.parametrize(
    ("statement", "dialect", "kinds"),
    [
        (r"ALTER TABLE t COMMENT '\', ADD c INT DEFAULT 5, COMMENT '# '", Dialect(False, 90704), {}),
        (
            r"ALTER TABLE t COMMENT '\', ADD c INT DEFAULT 5, COMMENT '# '",
            Dialect(False, 90704, SqlMode.NO_BACKSLASH_ESCAPES), {"t": "reset"},
        ),
        ("ALTER TABLE t ADD c TIMESTAMP", Dialect(False, 90704, explicit_timestamps=True), {}),
        ("ALTER TABLE t ADD c TIMESTAMP", Dialect(False, 90704, explicit_timestamps=False), {"t": "reset"}),
        ("ALTER TABLE t ADD c TIMESTAMP NOT NULL", Dialect(False, 90704, explicit_timestamps=True), {"t": "reset"}),
        ("ALTER TABLE t ADD c TIMESTAMP", Dialect(True, 110806), {"t": "reset"}),
        ('ALTER TABLE "t" ADD "c" INT', Dialect(True, 110806, SqlMode.ANSI_QUOTES), {}),
        ("ALTER TABLE t ADD c UUID", Dialect(True, 110806), {}),
    ],
)  # fmt: skip
def test_a_statement_is_read_as_its_server_read_it(
    statement: str, dialect: Dialect, kinds: dict[str, MarkerKind]
) -> None:
    assert told(statement, dialect=dialect) == kinds
