"""Cases for MariaDB."""

from __future__ import annotations

from typing import Final

from tests.ddl_corpus.tables import LATIN1, T

MARIADB: Final[dict[str, list[str]]] = {
    "types of MariaDB": [
        "CREATE TABLE t (a UUID, b INET6, c INET4, d `uuid`, e INT)", "ALTER TABLE t MODIFY b VARBINARY(16) FIRST",
    ],
    "compressed columns": [
        "CREATE TABLE t (a TEXT COMPRESSED, b VARCHAR(100) COMPRESSED=zlib, c VARBINARY(50) COMPRESSED,"
        " d LONGBLOB COMPRESSED DEFAULT '')",
        "ALTER TABLE t MODIFY a TEXT, ADD e MEDIUMTEXT COMPRESSED CHARACTER SET latin1",
    ],
    "or replace": [
        T, "CREATE OR REPLACE TABLE t (b INT, a INT)", "CREATE TABLE u (x INT)", "CREATE OR REPLACE TABLE t LIKE u",
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS q, 'x' AS r", "CREATE OR REPLACE DATABASE d_2",
        "CREATE TABLE d_2.t (a INT)", "CREATE OR REPLACE DATABASE d_2 CHARACTER SET latin1",
        "CREATE TABLE d_2.u (a TEXT)",
    ],
    "if exists": [
        T, "ALTER TABLE t DROP COLUMN IF EXISTS d, ADD COLUMN IF NOT EXISTS e INT FIRST",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT FIRST, ADD COLUMN IF NOT EXISTS A2 INT",
        "ALTER TABLE t MODIFY COLUMN IF EXISTS zz INT, CHANGE COLUMN IF EXISTS b bb VARCHAR(20)",
        "ALTER TABLE t RENAME COLUMN IF EXISTS nothing TO n2, RENAME COLUMN IF EXISTS a TO aa",
        "ALTER TABLE IF EXISTS t ADD f INT", "ALTER TABLE IF EXISTS nothing ADD f INT", "DROP INDEX IF EXISTS i ON t",
        "CREATE INDEX IF NOT EXISTS i ON t (aa)", "CREATE INDEX IF NOT EXISTS i ON t (f)",
        "ALTER TABLE t ADD UNIQUE INDEX IF NOT EXISTS (aa)", "ALTER TABLE t ADD COLUMN IF NOT EXISTS (g INT, e INT)",
        "RENAME TABLE IF EXISTS nothing TO n2, t TO w", "DROP TABLE IF EXISTS w, nothing", "CREATE TABLE t (a INT)",
        "ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS x CHECK (a > 0)",
    ],
    "or replace index": [
        T, "CREATE UNIQUE INDEX i ON t (a)", "CREATE OR REPLACE INDEX i ON t (b)",
        "CREATE OR REPLACE UNIQUE INDEX i ON t (a)", "ALTER TABLE t MODIFY a INT NOT NULL",
    ],
    "set statement": [
        T, "SET STATEMENT lock_wait_timeout = 9 FOR ALTER TABLE t RENAME COLUMN b TO d",
        "SET STATEMENT max_statement_time = 9, sort_buffer_size = 100000 FOR CREATE TABLE u (a INT)",
    ],
    "own comments": [
        "/*M! CREATE */ /*M!100100 TABLE t */ (a INT /*M!100100 , b INT */ /*M!999999 , c INT */ /*!50701 ,"
        " d INT */ /*!50699 , e INT */ /*!100100 , f INT */)",
    ],
    "execute immediate": [T, "EXECUTE IMMEDIATE 'ALTER TABLE t RENAME COLUMN b TO a, RENAME COLUMN a TO b'"],
    "wait": [
        T, "ALTER TABLE t WAIT 5 ADD d INT", "ALTER TABLE t NOWAIT DROP a", "TRUNCATE TABLE t WAIT 3",
        "RENAME TABLE t NOWAIT TO u", "DROP TABLE u WAIT 1", "CREATE TABLE t (a INT)", "CREATE INDEX i ON t (a) NOWAIT",
        "DROP INDEX i ON t WAIT 2",
    ],
    "system versioning": [
        "CREATE TABLE t (a INT PRIMARY KEY, b INT) WITH SYSTEM VERSIONING",
        "SET system_versioning_alter_history = KEEP", "ALTER TABLE t ADD c INT",
        "ALTER TABLE t ADD d INT FIRST, DROP b", "ALTER TABLE t MODIFY a INT AFTER c",
        "ALTER TABLE t DROP SYSTEM VERSIONING", "ALTER TABLE t ADD SYSTEM VERSIONING", "CREATE TABLE u LIKE t",
        "CREATE TABLE v (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
        "ALTER TABLE v ADD b INT", "ALTER TABLE v ADD c INT FIRST, DROP b",
        "CREATE TABLE w (a INT, b INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING",
        "CREATE TABLE x (a INT, b INT WITH SYSTEM VERSIONING)",
        "CREATE TABLE y (a INT) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME (PARTITION p HISTORY,"
        " PARTITION q CURRENT)",
        "ALTER TABLE v DROP SYSTEM VERSIONING, DROP s, DROP e, DROP PERIOD FOR SYSTEM_TIME",
    ],
    "versioning with declared columns": [
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "ALTER TABLE t ADD s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " ADD e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, ADD PERIOD FOR SYSTEM_TIME (s, e), ADD SYSTEM VERSIONING",
        "SET system_versioning_alter_history = KEEP", "ALTER TABLE t ADD z INT", "ALTER TABLE t ADD y INT FIRST",
    ],
    "application periods": [
        "CREATE TABLE t (id INT, s DATE, e DATE, PERIOD FOR p (s, e), PRIMARY KEY (id, p WITHOUT OVERLAPS))",
        "ALTER TABLE t ADD x INT FIRST", "CREATE TABLE u (id INT NOT NULL, s DATE, e DATE)",
        "ALTER TABLE u ADD PERIOD FOR p (s, e)", "ALTER TABLE u ADD UNIQUE (id, p WITHOUT OVERLAPS)",
        "ALTER TABLE u DROP INDEX id", "ALTER TABLE u DROP PERIOD FOR p",
    ],
    "sequences": [
        "CREATE SEQUENCE s START WITH 5 INCREMENT BY 2 MAXVALUE 100 CACHE 10 CYCLE", "ALTER SEQUENCE s RESTART 50",
        "CREATE OR REPLACE SEQUENCE s", "RENAME TABLE s TO s2", "DROP SEQUENCE s2",
        "CREATE SEQUENCE IF NOT EXISTS s3 ENGINE = InnoDB",
        "CREATE TABLE t (a INT DEFAULT NEXT VALUE FOR s3, b INT DEFAULT (NEXT VALUE FOR d.s3), c INT)", "DROP TABLE t",
        "DROP SEQUENCE IF EXISTS s3",
    ],
    "long unique keys": [
        "CREATE TABLE t (a INT, b BLOB UNIQUE, c TEXT)", "ALTER TABLE t ADD d INT", "ALTER TABLE t ADD UNIQUE (c)",
        "ALTER TABLE t DROP INDEX b", "ALTER TABLE t DROP b", "CREATE TABLE u (a VARCHAR(2000) UNIQUE, b INT)",
        "CREATE TABLE w (a INT, UNIQUE (a) USING HASH)",
        "CREATE TABLE x (a VARCHAR(700), b VARCHAR(700), UNIQUE (a, b))", "CREATE TABLE y (a VARCHAR(768) UNIQUE)",
        "CREATE TABLE z LIKE t", "CREATE TABLE zz LIKE w",
        "CREATE TABLE vv (a BLOB UNIQUE, b INT PRIMARY KEY) WITH SYSTEM VERSIONING",
    ],
    "options of MariaDB": [
        "CREATE TABLE t (a INT) PAGE_CHECKSUM = 1 TRANSACTIONAL = 0 ENGINE = Aria TABLE_CHECKSUM = 1",
        "CREATE TABLE u (a INT COMMENT 'z') PAGE_COMPRESSED = 1 PAGE_COMPRESSION_LEVEL = 9 `ENCRYPTED` = NO",
        "ALTER TABLE u ADD b INT, `PAGE_COMPRESSED` = 1", "ALTER ONLINE TABLE u ADD c INT",
        "ALTER IGNORE TABLE u ADD d INT",
    ],
    "index options of MariaDB": [
        T, "ALTER TABLE t ADD INDEX i (a) IGNORED", "ALTER TABLE t ALTER INDEX i NOT IGNORED, ADD d INT",
        "ALTER TABLE t ADD KEY j (a) COMMENT 'x' USING BTREE",
    ],
    "constraints of MariaDB": [
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, CONSTRAINT x UNIQUE (a), CONSTRAINT y CHECK (b > 0),"
        " z INT CHECK (z > 1))",
        "ALTER TABLE t DROP CONSTRAINT x", "ALTER TABLE t DROP CONSTRAINT y",
        "ALTER TABLE t DROP CONSTRAINT IF EXISTS nothing, ADD c INT",
    ],
    "defaults of MariaDB": [
        "CREATE TABLE t (a INT DEFAULT 1, b VARCHAR(40) DEFAULT UUID(), c INT DEFAULT (a + 1),"
        " d DATETIME DEFAULT NOW(), e TEXT DEFAULT 'x', f INT DEFAULT a, g VARCHAR(9) DEFAULT CONCAT('a', 'b'),"
        " h DATE DEFAULT DATE'2020-01-01', i TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE "
        "CURRENT_TIMESTAMP(6), j INT DEFAULT CASE WHEN a THEN 1 ELSE 2 END)",
    ],
    "persistent columns": [
        "CREATE TABLE t (a INT, b INT AS (a) PERSISTENT, c INT GENERATED ALWAYS AS (a) VIRTUAL COMMENT 'x',"
        " d INT AS (a) STORED UNIQUE)",
        "ALTER TABLE t DROP b",
    ],
    "a modified column that is added": [T, "ALTER TABLE t ADD d INT, MODIFY d BIGINT AFTER a"],
    "converted to one character set, and of another": [
        LATIN1, "ALTER TABLE t DEFAULT CHARACTER SET utf8mb3, CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE t ADD e TEXT, MODIFY a VARCHAR(20)",
        "ALTER TABLE t CONVERT TO CHARACTER SET latin1, COLLATE koi8r_bin", "ALTER TABLE t ADD f TEXT",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, ADD g TEXT, CHARACTER SET latin1", "ALTER TABLE t ADD h TEXT",
    ],
    "convert of JSON": [
        "CREATE TABLE t (a JSON, b TEXT) CHARACTER SET latin1", "ALTER TABLE t CONVERT TO CHARACTER SET koi8r",
    ],
    "partitions of MariaDB": [
        "CREATE TABLE t (a INT, b TEXT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (5),"
        " PARTITION q VALUES LESS THAN (9))",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u", "ALTER TABLE u ADD c INT", "CREATE TABLE v (a INT, b TEXT)",
        "ALTER TABLE t CONVERT TABLE v TO PARTITION r VALUES LESS THAN (20)",
    ],
    "two phases": [
        "SET binlog_alter_two_phase = ON", T, "ALTER TABLE t RENAME COLUMN a TO d, ALGORITHM = COPY",
        "INSERT INTO t VALUES (1, 'x', 'y'), (1, 'x', 'y')", "ALTER TABLE t ADD UNIQUE (d), RENAME COLUMN b TO q",
        "ALTER TABLE t ADD e INT FIRST",
    ],
    "oracle": [
        "SET sql_mode = ORACLE",
        "CREATE TABLE t (a VARCHAR2(10), b NUMBER, c NUMBER(5), d NUMBER(7,2), e RAW(16), f CLOB, g BLOB,"
        " h DATE, i VARCHAR(20), j INT, k NUMBER(9), l TIMESTAMP)",
        'ALTER TABLE t ADD "m" DATE FIRST, MODIFY b CLOB', "CREATE TABLE u AS SELECT h, a FROM t",
        "CREATE TABLE v (a oracle_schema.date, b mariadb_schema.date)",
    ],
    "maxdb": [
        "SET sql_mode = 'MAXDB'", "CREATE TABLE t (a TIMESTAMP, b DATETIME)",
        "CREATE TABLE u (a maxdb_schema.timestamp)",
    ],
    "explicit defaults are off": [
        "SET explicit_defaults_for_timestamp = OFF",
        "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP NULL, c TIMESTAMP NOT NULL, d DATETIME)",
        "ALTER TABLE t ADD e TIMESTAMP FIRST",
    ],
    "assisted discovery": [
        "SET sql_if_exists = 1", T, "ALTER TABLE t ADD d INT", "DROP TABLE t", "RENAME TABLE nothing TO n2",
    ],
    "foreign keys with periods": [
        "CREATE TABLE t (a INT, b INT NOT NULL DEFAULT 1 CHECK (b > 0), c INT GENERATED ALWAYS AS (a + b) VIRTUAL)",
        "ALTER TABLE t CHANGE a a2 INT, DROP c",
    ],
}  # fmt: skip

MARIADB_118: Final[dict[str, list[str]]] = {
    "vectors of MariaDB": [
        "CREATE TABLE t (a INT PRIMARY KEY, v VECTOR(3) NOT NULL, VECTOR INDEX (v))", "ALTER TABLE t ADD w VECTOR(5)",
        "CREATE TABLE u (v VECTOR(4) NOT NULL)", "ALTER TABLE u ADD VECTOR INDEX i (v) M=6 DISTANCE=cosine",
    ],
    "collations for several": [
        "CREATE TABLE t (a TEXT COLLATE uca1400_ai_ci, b TEXT) COLLATE uca1400_as_ci CHARACTER SET utf8mb3",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE uca1400_ai_cs",
    ],
    "sequences with a type": ["CREATE SEQUENCE s AS INT", "CREATE SEQUENCE s2 AS BIGINT UNSIGNED"],
    "schemas of MariaDB 11.8": [
        "SET character_set_collations = ''", "CREATE DATABASE d_2 COMMENT 'x' CHARACTER SET utf8mb4",
        "CREATE TABLE d_2.t (a TEXT)",
    ],
}  # fmt: skip
