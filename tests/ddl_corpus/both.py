"""Cases for every server."""

from __future__ import annotations

from typing import Final

from tests.ddl_corpus.tables import LATIN1, T, U

BOTH: Final[dict[str, list[str]]] = {
    # Types, as they are spelled and as the server keeps them.
    "integers": [
        "CREATE TABLE t (a TINYINT, b SMALLINT(3) UNSIGNED, c MEDIUMINT ZEROFILL, d INT(5) UNSIGNED ZEROFILL, e BIGINT,"
        " f INTEGER, g INT1, h INT2, i INT3, j INT4, k INT8, l MIDDLEINT UNSIGNED, m TINYINT(1), n TINYINT(1) UNSIGNED,"
        " o INT SIGNED, p BIGINT UNSIGNED)"
    ],
    "decimals": [
        "CREATE TABLE t (a DECIMAL, b DECIMAL(5), c NUMERIC(10,2), d DEC(7,3) UNSIGNED, e FIXED(8,4) ZEROFILL,"
        " f DECIMAL(65,30), g DECIMAL(0), h DECIMAL(10,0) UNSIGNED ZEROFILL)"
    ],
    "floats": [
        "CREATE TABLE t (a FLOAT, b FLOAT(24), c FLOAT(25), d FLOAT(7,4), e DOUBLE, f DOUBLE PRECISION, g REAL,"
        " h DOUBLE(10,3) UNSIGNED, i FLOAT4, j FLOAT8, k FLOAT UNSIGNED ZEROFILL, l FLOAT(53), m FLOAT(0))"
    ],
    "bits and booleans": ["CREATE TABLE t (a BIT, b BIT(7), c BIT(64), d BOOL, e BOOLEAN NOT NULL, f BIT(8))"],
    "times": [
        "CREATE TABLE t (a DATE, b TIME, c TIME(3), d DATETIME, e DATETIME(6), f TIMESTAMP NULL, g TIMESTAMP(2) NULL,"
        " h YEAR, i YEAR(4), j DATETIME(0))"
    ],
    "texts": [
        "CREATE TABLE t (a CHAR, b CHAR(10), c VARCHAR(10), d CHARACTER(3), e CHARACTER VARYING(30), f CHAR VARYING(7),"
        " g VARCHARACTER(9), h TINYTEXT, i TEXT, j MEDIUMTEXT, k LONGTEXT, l LONG, m LONG VARCHAR, n TEXT(5),"
        " o TEXT(63), p TEXT(64), q TEXT(16383), r TEXT(16384), s TEXT(5000000), t LONG CHAR VARYING, u CHAR(0),"
        " v VARCHAR(0))"
    ],
    "national texts": [
        "CREATE TABLE t (a NCHAR, b NCHAR(10), c NATIONAL CHAR(3), d NATIONAL CHARACTER(4), e NVARCHAR(10),"
        " f NATIONAL VARCHAR(11), g NCHAR VARCHAR(12), h NATIONAL CHAR VARYING(13), i NCHAR VARYING(14),"
        " j NATIONAL CHARACTER VARYING(15))"
    ],
    "bytes": [
        "CREATE TABLE t (a BINARY, b BINARY(10), c VARBINARY(10), d TINYBLOB, e BLOB, f MEDIUMBLOB, g LONGBLOB,"
        " h LONG VARBINARY, i BLOB(5), j BLOB(255), k BLOB(256), l BLOB(65535), m BLOB(65536), n CHAR(5) BYTE,"
        " o BLOB(16777216), p BINARY(0))"
    ],
    "texts by character set": [
        "CREATE TABLE t (a VARCHAR(10) CHARACTER SET latin1, b TEXT CHARSET utf8, c CHAR(5) CHARACTER SET binary,"
        " d TEXT CHARACTER SET binary, e VARCHAR(10) COLLATE utf8mb4_bin, f CHAR(3) ASCII, g CHAR(3) UNICODE,"
        " h CHAR(3) BINARY, i VARCHAR(9) CHARACTER SET latin1 BINARY, j TEXT CHARACTER SET latin1 COLLATE latin1_bin,"
        " k CHAR(5) CHAR SET koi8r, l VARCHAR(9) CHARACTER SET 'greek', m TEXT(300) CHARACTER SET latin1,"
        " n TINYTEXT CHARACTER SET utf16)"
    ],
    "labels": [
        "CREATE TABLE t (a ENUM('x','y'), b SET('p','q','r'), c ENUM('it''s','b ','ä') CHARACTER SET latin1,"
        " d ENUM(\"double\", 'b'), e SET('a','b','c','d','e','f','g','h','i'), f ENUM('\\'','a\\\\b'),"
        " g ENUM('a','b') CHARACTER SET binary, h ENUM(''))",
    ],
    "many labels": [
        f"CREATE TABLE t (a ENUM({','.join(repr(f'l{n}') for n in range(255))}),"
        f" b ENUM({','.join(repr(f'l{n}') for n in range(256))}), c SET({','.join(repr(f's{n}') for n in range(33))}),"
        f" d SET({','.join(repr(f's{n}') for n in range(32))}), e SET({','.join(repr(f's{n}') for n in range(64))}))"
    ],
    "geometry": [
        "CREATE TABLE t (a GEOMETRY, b POINT, c LINESTRING NOT NULL, d POLYGON, e MULTIPOINT, f MULTILINESTRING,"
        " g MULTIPOLYGON, h GEOMETRYCOLLECTION)"
    ],
    "json": ["CREATE TABLE t (a JSON, b JSON NOT NULL)"],
    "serial": ["CREATE TABLE t (a SERIAL, b INT)", "CREATE TABLE u (a BIGINT SERIAL DEFAULT VALUE, b INT)"],
    "too long without strict": [
        "SET sql_mode = ''",
        "CREATE TABLE t (a VARCHAR(70000), b VARCHAR(20000), c VARBINARY(70000), d VARCHAR(70000) CHARACTER SET latin1,"
        " e VARCHAR(16384))",
    ],
    "real as float": ["SET sql_mode = 'REAL_AS_FLOAT'", "CREATE TABLE t (a REAL, b REAL(7,2), c DOUBLE)"],
    # Attributes.
    "nullability": [
        "CREATE TABLE t (a INT NOT NULL, b INT NULL, c INT DEFAULT 5, d INT NOT NULL DEFAULT 0, e INT DEFAULT NULL,"
        " f INT AUTO_INCREMENT UNIQUE, g TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
        " h DATETIME(3) DEFAULT NOW(3) ON UPDATE NOW(3))"
    ],
    "defaults": [
        "CREATE TABLE t (a INT DEFAULT -5, b VARCHAR(20) DEFAULT 'x, (y', c VARCHAR(20) DEFAULT _utf8mb4'z',"
        " d BIT(4) DEFAULT b'101', e VARBINARY(4) DEFAULT x'6162', f DATE DEFAULT '2020-01-01', g INT DEFAULT (1 + 2),"
        " h BINARY(2) DEFAULT 0x4142, i DECIMAL(5,2) DEFAULT 1.5, j DOUBLE DEFAULT 1e3, k TIMESTAMP DEFAULT"
        " CURRENT_TIMESTAMP(), l INT DEFAULT TRUE, m INT DEFAULT +7)"
    ],
    "comments": [
        "CREATE TABLE t (a INT COMMENT 'b INT, c', b INT COMMENT 'it''s', c INT COMMENT 'a\\'b', d INT COMMENT \"x\")"
        " COMMENT = 'd INT'"
    ],
    "generated": [
        "CREATE TABLE t (a INT, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a * (2 + a)) STORED,"
        " d VARCHAR(10) AS (CONCAT(a, ')')) VIRTUAL, e INT)",
        "ALTER TABLE t ADD f INT AS (a) VIRTUAL AFTER a", "ALTER TABLE t DROP c",
    ],
    "invisible": [
        "CREATE TABLE t (a INT, b INT INVISIBLE, c INT)", "ALTER TABLE t ADD d INT INVISIBLE FIRST",
        "ALTER TABLE t DROP c",
    ],
    "checks and references": [
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE t (a INT CHECK (a > 0), b INT REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL, c INT,"
        " CONSTRAINT x CHECK (c IN (1, 2)), CHECK (a < c), CONSTRAINT FOREIGN KEY (c) REFERENCES p (id) ON DELETE NO"
        " ACTION, FOREIGN KEY f (b) REFERENCES p (id) MATCH SIMPLE)",
        "ALTER TABLE t ADD d INT, DROP FOREIGN KEY t_ibfk_1", "ALTER TABLE t DROP CONSTRAINT x",
    ],
    # Keys.
    "keys": [
        "CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE, c INT, KEY (c), INDEX i (b, c), UNIQUE KEY u (c DESC,"
        " b ASC))",
        "CREATE TABLE u (a INT, b INT, c VARCHAR(20), PRIMARY KEY (b, a), KEY k USING BTREE (c(5)) COMMENT 'x')",
        "CREATE TABLE v (a INT KEY, b INT UNIQUE KEY)",
        "CREATE TABLE w (a INT, b INT, CONSTRAINT p PRIMARY KEY USING BTREE (a), CONSTRAINT q UNIQUE r (b))",
    ],
    "a unique index counts as the key": [
        "CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE (a), UNIQUE x (c), UNIQUE (b))",
        "ALTER TABLE t DROP INDEX x", "ALTER TABLE t ADD PRIMARY KEY (a)", "ALTER TABLE t DROP PRIMARY KEY",
        "ALTER TABLE t MODIFY b INT NULL", "ALTER TABLE t DROP INDEX a", "ALTER TABLE t MODIFY c INT NOT NULL UNIQUE",
    ],
    "a part of a column is no key": [
        "CREATE TABLE t (a VARCHAR(20) NOT NULL, b INT NOT NULL, UNIQUE (a(5)), UNIQUE (b))",
        "ALTER TABLE t DROP INDEX b", "CREATE TABLE u (a VARCHAR(20) NOT NULL, UNIQUE (a(20)))",
        "ALTER TABLE u MODIFY a VARCHAR(30) NOT NULL", "ALTER TABLE t MODIFY a VARCHAR(5) NOT NULL",
        "ALTER TABLE t MODIFY a VARCHAR(50) NOT NULL",
    ],
    "indexes come and go": [
        T, "CREATE INDEX i ON t (a)", "CREATE UNIQUE INDEX j ON t (b(5), a)", "CREATE UNIQUE INDEX k ON t (a)",
        "ALTER TABLE t ADD FULLTEXT INDEX f (c)", "ALTER TABLE t RENAME INDEX k TO l", "DROP INDEX i ON t",
        "ALTER TABLE t MODIFY a INT NOT NULL", "DROP INDEX l ON t", "DROP INDEX `f` ON t",
    ],
    "the primary key by other words": [
        "CREATE TABLE t (a INT, b INT)", "ALTER TABLE t ADD CONSTRAINT PRIMARY KEY (a, b)",
        "DROP INDEX `PRIMARY` ON t", "ALTER TABLE t ADD PRIMARY KEY USING BTREE (b)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)", "ALTER TABLE t DROP INDEX `PRIMARY`",
        "ALTER TABLE t ADD c INT PRIMARY KEY FIRST",
    ],
    "a key loses a column": [
        "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a), UNIQUE (b), KEY (b, c))", "ALTER TABLE t DROP b",
        "ALTER TABLE t DROP a", "CREATE TABLE u (a INT NOT NULL, b INT NOT NULL, UNIQUE (a), UNIQUE (b))",
        "ALTER TABLE u DROP a",
    ],
    "a key's column is renamed": [
        "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL UNIQUE)", "ALTER TABLE t RENAME COLUMN a TO x",
        "ALTER TABLE t CHANGE x y BIGINT", "ALTER TABLE t DROP PRIMARY KEY", "ALTER TABLE t CHANGE b c INT NOT NULL",
    ],
    "names of indexes": [
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, KEY (a), UNIQUE (a), UNIQUE (a, b), UNIQUE (b))",
        "ALTER TABLE t DROP INDEX a_2", "ALTER TABLE t DROP INDEX a_3", "ALTER TABLE t DROP INDEX b",
        "ALTER TABLE t ADD UNIQUE (a)", "ALTER TABLE t DROP INDEX a_2, ADD UNIQUE (a, b)",
    ],
    # Places of columns.
    "add": [
        T, "ALTER TABLE t ADD d INT", "ALTER TABLE t ADD COLUMN e INT FIRST", "ALTER TABLE t ADD f INT AFTER a",
        "ALTER TABLE t ADD (g INT, h VARCHAR(3) NOT NULL)", "ALTER TABLE t ADD i INT AFTER `H`",
        "ALTER TABLE t ADD j INT FIRST, ADD k INT FIRST, ADD l INT, ADD m INT AFTER l",
        "ALTER TABLE t ADD COLUMN (n INT, INDEX (n))",
    ],
    "drop": [
        T, "ALTER TABLE t DROP b", "ALTER TABLE t DROP COLUMN C", U, "ALTER TABLE u DROP x, DROP COLUMN z RESTRICT",
    ],
    "drop and add of one name": [T, "ALTER TABLE t DROP b, ADD b INT FIRST", "ALTER TABLE t DROP a, ADD a TEXT"],
    "modify": [
        T, "ALTER TABLE t MODIFY a BIGINT NOT NULL", "ALTER TABLE t MODIFY COLUMN c TEXT FIRST",
        "ALTER TABLE t MODIFY b VARCHAR(30) AFTER a", "ALTER TABLE t MODIFY A INT",
        "ALTER TABLE t MODIFY a INT AFTER b, MODIFY c TEXT AFTER a",
        "ALTER TABLE t MODIFY c TEXT FIRST, MODIFY b INT FIRST",
    ],
    "change": [
        T, "ALTER TABLE t CHANGE a z INT", "ALTER TABLE t CHANGE COLUMN b a VARCHAR(9) FIRST",
        "ALTER TABLE t CHANGE z z INT AFTER c", "ALTER TABLE t CHANGE c C TEXT, CHANGE a b VARCHAR(9)",
    ],
    "rename column": [
        T, "ALTER TABLE t RENAME COLUMN a TO d", "ALTER TABLE t RENAME COLUMN d TO e, RENAME COLUMN b TO d",
        "ALTER TABLE t RENAME COLUMN C TO c2",
    ],
    "swap by rename": [T, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"],
    "swap by change": [T, "ALTER TABLE t CHANGE a b INT, CHANGE b a VARCHAR(20)"],
    "cycle by rename": [
        T, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO c, RENAME COLUMN c TO a",
        "ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN b TO a, RENAME COLUMN c TO b",
    ],
    "cycle by change with places": [T, "ALTER TABLE t CHANGE a b INT AFTER c, CHANGE b a VARCHAR(20) FIRST"],
    "swap in three steps": [
        T, "ALTER TABLE t RENAME COLUMN a TO tmp", "ALTER TABLE t RENAME COLUMN b TO a",
        "ALTER TABLE t RENAME COLUMN tmp TO b",
    ],
    "rename and add the old name": [
        T, "ALTER TABLE t RENAME COLUMN a TO d, ADD a INT",
        "ALTER TABLE t CHANGE b e VARCHAR(20), ADD COLUMN b INT FIRST",
    ],
    "after a column that is renamed": [
        T, "ALTER TABLE t RENAME COLUMN a TO d, ADD e INT AFTER d",
        "ALTER TABLE t CHANGE b f VARCHAR(20), ADD g INT AFTER f",
    ],
    "after a column that is added": [T, "ALTER TABLE t ADD d INT AFTER a, ADD e INT AFTER d, ADD f INT AFTER a"],
    "after a column that is moved": [T, "ALTER TABLE t MODIFY c TEXT FIRST, ADD d INT AFTER c, MODIFY a INT AFTER d"],
    "many clauses": [
        T, "ALTER TABLE t ADD d INT FIRST, DROP b, CHANGE c e VARCHAR(5) AFTER a, ADD INDEX (a), ALGORITHM = COPY,"
        " COMMENT = 'x'",
        "ALTER TABLE t DROP d, RENAME COLUMN a TO d, ADD a INT FIRST, DROP INDEX a, ADD f INT AFTER e",
    ],
    "moved and renamed": [
        T, "ALTER TABLE t CHANGE a x INT AFTER c, RENAME COLUMN b TO a",
        "ALTER TABLE t MODIFY x INT FIRST, DROP c, ADD c INT AFTER x",
    ],
    "case of names": [
        'CREATE TABLE t (Aa INT, `bB` INT, Ää INT)', "ALTER TABLE t CHANGE aa AA INT",
        "ALTER TABLE t MODIFY BB INT FIRST", "ALTER TABLE t RENAME COLUMN ää TO ÄÄ", "ALTER TABLE t ADD c INT AFTER Bb",
        "ALTER TABLE t DROP Aa",
    ],
    "odd names": [
        "CREATE TABLE t (`a b` INT, `c``d` INT, `e'f` INT, `g\"h` INT, `i,j` INT, `(k` INT, `select` INT,"
        " `ünï` INT, 1st INT, `日本` INT, $x INT, _y INT)",
        "ALTER TABLE t DROP `a b`, RENAME COLUMN `c``d` TO `x ``y`, MODIFY `i,j` INT FIRST, DROP `(k`",
        "ALTER TABLE t CHANGE `select` `table` INT AFTER 1st, ADD `key` INT AFTER `日本`,"
        " RENAME COLUMN `ünï` TO `primary`",
    ],
    "words that are no keywords": [
        "CREATE TABLE t (period INT, versioning INT, `system` INT, value INT, type INT, date DATE, time TIME,"
        " text TEXT, comment INT, engine INT, first INT, after INT, status INT, names INT, position INT,"
        " json JSON, enum ENUM('a'))",
        "ALTER TABLE t ADD period2 INT, DROP type, RENAME COLUMN value TO position2",
        "ALTER TABLE t MODIFY after INT FIRST, MODIFY first INT AFTER after", "ALTER TABLE t ADD level INT AFTER first",
        "ALTER TABLE t DROP comment, ADD x INT COMMENT 'after' AFTER date",
    ],
    # Tables as wholes.
    "rename table": [
        T, "RENAME TABLE t TO u", "ALTER TABLE u RENAME TO v", "ALTER TABLE v RENAME w", "ALTER TABLE w RENAME AS x",
        "ALTER TABLE x RENAME = y",
    ],
    "rename several": [T, U, "RENAME TABLE t TO tmp, u TO t, tmp TO u", "RENAME TABLE t TO a, u TO b"],
    "rename across schemas": [
        "CREATE DATABASE d_2 CHARACTER SET latin1", T, "RENAME TABLE t TO d_2.t", "ALTER TABLE d_2.t ADD d TEXT",
        "ALTER TABLE d_2.t RENAME TO d.w", "ALTER TABLE w ADD e TEXT",
    ],
    "rename and alter": [
        T, "ALTER TABLE t RENAME TO u, ADD d INT FIRST, DROP b", "ALTER TABLE u ADD e INT AFTER d, RENAME t",
    ],
    "ghost": [
        T, "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD d INT AFTER a, DROP b",
        "CREATE TABLE _t_ghc (id INT PRIMARY KEY)", "RENAME TABLE t TO _t_del, _t_gho TO t",
        "DROP TABLE IF EXISTS _t_ghc", "DROP TABLE IF EXISTS _t_del",
    ],
    "drop tables": [T, U, "DROP TABLE t, u", T, "DROP TABLE IF EXISTS t, nothing", U, "DROP TABLES u RESTRICT"],
    "create if not exists": [
        T, "CREATE TABLE IF NOT EXISTS t (c INT, a INT)", "CREATE TABLE IF NOT EXISTS u LIKE t",
        "CREATE TABLE IF NOT EXISTS u LIKE t", "DROP TABLE t", "CREATE TABLE IF NOT EXISTS t (c INT, a INT)",
    ],
    "create like": [
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20) CHARACTER SET latin1, c ENUM('x') NOT NULL,"
        " d INT AS (a), UNIQUE (b)) CHARACTER SET koi8r",
        "CREATE TABLE u LIKE t", "ALTER TABLE u ADD e TEXT", "CREATE TABLE v (LIKE u)", "CREATE DATABASE d_2",
        "CREATE TABLE d_2.t LIKE d.t",
    ],
    "create select": [
        T, "INSERT INTO t VALUES (1, 'x', 'y')", "CREATE TABLE u AS SELECT b, a AS n FROM t",
        "CREATE TABLE v (z INT PRIMARY KEY) SELECT 7 AS z, c FROM t",
        "CREATE TABLE w (q INT) CHARACTER SET latin1 AS SELECT CONCAT(b, 'x') AS s, 1.5 AS f FROM t",
        "ALTER TABLE u DROP n",
    ],
    "truncate": [T, "TRUNCATE TABLE t", "TRUNCATE d.t"],
    "schemas": [
        "CREATE DATABASE d_2 CHARACTER SET latin1", "CREATE TABLE d_2.t (a TEXT)",
        "ALTER DATABASE d_2 COLLATE utf8mb4_bin", "CREATE TABLE d_2.u (a TEXT)", "DROP DATABASE d_2",
        "CREATE SCHEMA IF NOT EXISTS d_2 DEFAULT CHARACTER SET = koi8r",
        "CREATE DATABASE IF NOT EXISTS d_2 CHARACTER SET latin1", "CREATE TABLE d_2.t (a TEXT)",
    ],
    "the default schema is altered": [
        "ALTER DATABASE CHARACTER SET latin1", T, "ALTER DATABASE DEFAULT COLLATE = utf8mb4_general_ci", U,
    ],
    "views": [
        T, "CREATE VIEW v AS SELECT a FROM t", "CREATE OR REPLACE VIEW v AS SELECT b FROM t", "RENAME TABLE v TO w",
        "DROP VIEW w", "CREATE TABLE w (q INT)",
    ],
    "other objects": [
        T, "CREATE PROCEDURE p() ALTER TABLE t RENAME COLUMN b TO d", "CALL p()",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "DROP PROCEDURE p", "DROP TRIGGER g",
        "CREATE EVENT e ON SCHEDULE AT NOW() + INTERVAL 1 YEAR DO ALTER TABLE t DROP a", "DROP EVENT e",
        "DROP FUNCTION f",
    ],
    "prepared": [T, "PREPARE s FROM 'ALTER TABLE t RENAME COLUMN b TO d'", "EXECUTE s"],
    # Character sets.
    "convert": [
        LATIN1, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
        "CREATE TABLE u (a TINYTEXT, b TEXT, c MEDIUMTEXT, d LONGTEXT, e BLOB, f CHAR(5) BYTE, g INT,"
        " h VARCHAR(5) CHARACTER SET koi8r) CHARACTER SET latin1",
        "ALTER TABLE u CONVERT TO CHARSET utf8 COLLATE utf8_bin", "ALTER TABLE u CONVERT TO CHARACTER SET DEFAULT",
        "ALTER TABLE u ADD i TEXT, CONVERT TO CHARACTER SET latin1",
    ],
    "convert to bytes": [LATIN1, "ALTER TABLE t CONVERT TO CHARACTER SET binary"],
    "default character set": [
        LATIN1, "ALTER TABLE t DEFAULT CHARACTER SET utf8mb4", "ALTER TABLE t ADD e TEXT",
        "ALTER TABLE t CHARSET = koi8r, ADD f TEXT", "ALTER TABLE t COLLATE latin1_bin, MODIFY a VARCHAR(20)",
    ],
    "convert with other clauses": [
        LATIN1, "ALTER TABLE t MODIFY a VARCHAR(30), CONVERT TO CHARACTER SET utf8mb4, ADD e VARCHAR(5) FIRST",
        "ALTER TABLE t ADD f VARCHAR(5), CONVERT TO CHARACTER SET koi8r",
    ],
    "collation alone": [
        "CREATE TABLE t (a TEXT, b VARCHAR(5) COLLATE latin1_swedish_ci) COLLATE koi8r_bin",
        "ALTER TABLE t MODIFY a TEXT COLLATE utf8mb4_bin",
    ],
    "text in latin1": [
        "SET NAMES latin1", "CREATE TABLE t (`Ã©` INT, b ENUM('Ã¼'))", "SET NAMES utf8mb4",
        "ALTER TABLE t ADD c INT FIRST",
    ],
    # The session.
    "ansi quotes": [
        "SET sql_mode = 'ANSI_QUOTES'", 'CREATE TABLE "t" ("a" INT, "b ""x""" INT DEFAULT 5)',
        'ALTER TABLE "t" RENAME COLUMN "a" TO "c"', 'ALTER TABLE t ADD "d" INT COMMENT \'"e" INT\' FIRST',
    ],
    "no backslash escapes": [
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "CREATE TABLE t (a INT COMMENT '\\', b ENUM('x\\', 'y'), c INT COMMENT 'it''s')",
        "ALTER TABLE t ADD d INT COMMENT '\\' FIRST",
    ],
    "double quotes are texts": [
        'CREATE TABLE t (a INT COMMENT "b INT, ""c""", d VARCHAR(9) DEFAULT "x\\"y")',
        'ALTER TABLE t ADD e INT COMMENT "f" AFTER a',
    ],
    "comments of all kinds": [
        "/* first */ CREATE /*!50100 TABLE */ t -- then\n (a INT, /* b INT, */ c INT # d INT\n, e INT --\tf\n)",
        "ALTER TABLE t /*!99999 ADD x INT, */ ADD y INT /*!50000 FIRST */ /* ; */",
        "/*!50100 ALTER TABLE t */ DROP /*!32302 COLUMN */ c", "ALTER TABLE t ADD z INT -- 2 \n",
        "ALTER/**/TABLE/**/t/**/ADD/**/zz/**/INT",
    ],
    "newlines and blanks": [
        "CREATE\nTABLE\tt\r\n(\n\ta\tINT,\n b INT)\n;", "ALTER TABLE\n`t`\nADD\n`c`\nINT\nAFTER\n`a`;",
    ],
    "a semicolon at the end": [T + ";", "ALTER TABLE t ADD d INT;", "RENAME TABLE t TO u ;", "DROP TABLE u;"],
    # Options and partitions.
    "options": [
        "CREATE TABLE t (a INT) ENGINE = InnoDB AUTO_INCREMENT = 5 AVG_ROW_LENGTH 10 CHECKSUM 1,"
        " MAX_ROWS = 9 MIN_ROWS=1 PACK_KEYS = DEFAULT ROW_FORMAT = DYNAMIC STATS_PERSISTENT = 1 "
        "STATS_AUTO_RECALC DEFAULT KEY_BLOCK_SIZE = 0 DELAY_KEY_WRITE = 1 COMMENT 'x' DEFAULT CHARACTER SET = "
        "latin1 COLLATE latin1_bin STATS_SAMPLE_PAGES = 3",
        "ALTER TABLE t ENGINE = MyISAM, ROW_FORMAT = FIXED, ADD b TEXT",
        "ALTER TABLE t ENGINE InnoDB ROW_FORMAT DYNAMIC AUTO_INCREMENT 9 COMMENT 'y', FORCE", "ALTER TABLE t FORCE",
        "ALTER TABLE t ORDER BY a DESC", "ALTER TABLE t DISABLE KEYS",
        "ALTER TABLE t ENABLE KEYS, ALGORITHM DEFAULT, LOCK = DEFAULT", "ALTER TABLE t",
    ],
    "partitions": [
        "CREATE TABLE t (a INT, b INT, c TEXT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (5),"
        " PARTITION q VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE t REORGANIZE PARTITION q INTO (PARTITION q VALUES LESS THAN (9),"
        " PARTITION r VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE u (a INT, b INT, c TEXT)", "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
        "ALTER TABLE t DROP PARTITION p", "ALTER TABLE t TRUNCATE PARTITION q", "ALTER TABLE t REBUILD PARTITION ALL",
        "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4", "ALTER TABLE t COALESCE PARTITION 2",
        "ALTER TABLE t ADD PARTITION PARTITIONS 2", "ALTER TABLE t ADD d INT PARTITION BY KEY (a) PARTITIONS 3",
        "ALTER TABLE t REMOVE PARTITIONING",
        "CREATE TABLE v (a INT, d DATE) PARTITION BY LIST (YEAR(d)) SUBPARTITION BY HASH (a) SUBPARTITIONS 2 "
        "(PARTITION x VALUES IN (1, 2), PARTITION y VALUES IN (3))",
    ],
    "myisam": [
        "CREATE TABLE t (a INT, b INT) ENGINE = MyISAM", "ALTER TABLE t RENAME COLUMN b TO d",
        "ALTER TABLE t MODIFY d INT FIRST", "RENAME TABLE t TO u", "DROP TABLE u",
    ],
    "engines": [
        "CREATE TABLE t (a INT, b VARCHAR(9)) ENGINE = MEMORY",
        "CREATE TABLE u (a INT NOT NULL, b VARCHAR(9) NOT NULL) ENGINE = CSV",
        "ALTER TABLE t ENGINE = InnoDB, ADD c INT FIRST",
    ],
    "union": [
        "CREATE TABLE m (a INT) ENGINE = MyISAM", "CREATE TABLE n (a INT) ENGINE = MyISAM",
        "CREATE TABLE t (a INT) ENGINE = MERGE UNION = (m, n) INSERT_METHOD = LAST",
    ],
    # What fails leaves things as they were.
    "statements that fail": [
        T, "INSERT INTO t VALUES (1, 'x', 'y'), (1, 'x', 'y')", "ALTER TABLE t ADD UNIQUE (a), RENAME COLUMN b TO q",
        "ALTER TABLE t DROP nothing", "RENAME TABLE t TO u, nothing TO v", "CREATE TABLE t (z INT)",
        "ALTER TABLE nothing ADD a INT", "ALTER TABLE t ADD d INT AFTER nothing", "DROP TABLE nothing",
        "ALTER TABLE t ADD e INT",
    ],
    "algorithms": [
        T, "ALTER TABLE t ADD d INT, ALGORITHM = INSTANT", "ALTER TABLE t DROP b, ALGORITHM = INPLACE, LOCK = NONE",
        "ALTER TABLE t RENAME COLUMN a TO x, ALGORITHM = COPY, LOCK = SHARED",
        "ALTER TABLE t ADD e INT FIRST, ALGORITHM = INPLACE",
    ],
    "defaults change": [
        T, "ALTER TABLE t ALTER a SET DEFAULT 5",
        "ALTER TABLE t ALTER COLUMN a DROP DEFAULT, ALTER b SET DEFAULT 'x, ADD y INT'",
        "ALTER TABLE t ALTER a SET DEFAULT (1 + 2), ADD d INT",
    ],
    "temporary tables shadow": [
        T, "CREATE TEMPORARY TABLE t (z INT)", "ALTER TABLE t ADD y INT", "ALTER TABLE t RENAME TO u", "DROP TABLE u",
        "ALTER TABLE t ADD d INT", "CREATE TEMPORARY TABLE v LIKE t", "DROP TEMPORARY TABLE v",
    ],
    "temporary tables that are logged": [
        T, "SET binlog_format = STATEMENT", "CREATE TEMPORARY TABLE t (z INT)", "ALTER TABLE t ADD y INT",
        "CREATE INDEX i ON t (z)", "DROP TABLE t", "SET binlog_format = ROW", "ALTER TABLE t ADD d INT",
    ],
}  # fmt: skip
