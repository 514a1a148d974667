"""Cases for MySQL."""

from __future__ import annotations

from typing import Final

MYSQL: Final[dict[str, list[str]]] = {
    "texts sized by the old column": [
        "CREATE TABLE t (a TEXT, b INT) CHARACTER SET latin1",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, MODIFY a MEDIUMTEXT", "CREATE TABLE u (a INT)",
    ],
    "vectors": ["CREATE TABLE t (a VECTOR(3), b VECTOR, c INT)"],
    "attributes of MySQL": [
        "CREATE TABLE t (a INT COLUMN_FORMAT FIXED STORAGE DISK, b GEOMETRY SRID 4326, c JSON,"
        " d POINT NOT NULL SRID 0, e GEOMCOLLECTION, f INT VISIBLE, g INT CHECK (g > 0) NOT ENFORCED,"
        " SPATIAL INDEX (d))",
        "ALTER TABLE t ALTER f SET INVISIBLE", "ALTER TABLE t ALTER CHECK t_chk_1 ENFORCED, ADD h INT",
    ],
    "functional indexes": [
        "CREATE TABLE t (a INT, b VARCHAR(9), KEY k ((a + 1)), UNIQUE ((UPPER(b))), UNIQUE u (a, (a + 2)))",
        "ALTER TABLE t ADD INDEX ((LOWER(b))), DROP INDEX k", "ALTER TABLE t ADD c INT AFTER a",
    ],
    "a generated primary key": [
        "SET sql_generate_invisible_primary_key = ON", "CREATE TABLE t (a INT, b INT)", "CREATE TABLE u LIKE t",
        "ALTER TABLE t ADD c INT FIRST", "ALTER TABLE t DROP COLUMN my_row_id, ADD PRIMARY KEY (a)",
        "CREATE TABLE v AS SELECT 1 AS x", "ALTER TABLE u ALTER COLUMN my_row_id SET VISIBLE",
    ],
    "options of MySQL": [
        "CREATE TABLE t (a INT) ENCRYPTION = 'N' COMPRESSION = 'none' AUTOEXTEND_SIZE = 4M TABLESPACE = "
        "innodb_file_per_table",
        "ALTER TABLE t ADD INDEX i (a) INVISIBLE", "ALTER TABLE t ALTER INDEX i VISIBLE",
        "ALTER TABLE t ADD b INT, WITH VALIDATION",
    ],
    "index kinds of MySQL": [
        "CREATE TABLE t (a INT, b TEXT, FULLTEXT KEY f (b) WITH PARSER ngram, KEY (a) USING HASH,"
        " KEY c (a) COMMENT 'x' KEY_BLOCK_SIZE = 1 VISIBLE)",
        "DROP INDEX f ON t LOCK = SHARED",
    ],
    "constraints of MySQL": [
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, CONSTRAINT x UNIQUE (a), CONSTRAINT y CHECK (b > 0),"
        " UNIQUE z (b))",
        "ALTER TABLE t DROP CONSTRAINT x", "ALTER TABLE t DROP CHECK y", "ALTER TABLE t DROP CONSTRAINT `z`",
    ],
    "a transaction that creates": [
        "CREATE TABLE t (a INT)", "BEGIN", "INSERT INTO t VALUES (1)", "CREATE TABLE u SELECT a, a + 1 AS b FROM t",
    ],
    "schemas of MySQL": [
        "CREATE DATABASE d_2 CHARACTER SET latin1 ENCRYPTION = 'N'", "ALTER DATABASE d_2 READ ONLY = 1",
        "ALTER DATABASE d_2 READ ONLY = 0", "CREATE TABLE d_2.t (a TEXT)",
    ],
    "six digits of a version": [
        "CREATE TABLE t (a INT /*!080023 INVISIBLE */, b INT /*!999999 , c INT */)",
        "ALTER TABLE t ADD y INT /*M!100100 , ADD z INT */",
    ],
    "explicit defaults are off": [
        "SET explicit_defaults_for_timestamp = OFF", "SET sql_mode = ''",
        "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP NULL, c TIMESTAMP NOT NULL, d DATETIME)",
        "ALTER TABLE t ADD e TIMESTAMP FIRST",
    ],
    "like, with case": [
        "CREATE TABLE `T` (A INT)", "CREATE TABLE t LIKE `T`", "ALTER TABLE `T` ADD b INT", "ALTER TABLE t ADD c INT",
        "RENAME TABLE t TO tt, `T` TO t",
    ],
}  # fmt: skip
