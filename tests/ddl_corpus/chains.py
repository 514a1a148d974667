"""Cases for every server whose statements or clauses build on each other."""

from __future__ import annotations

from typing import Final

from tests.ddl_corpus.tables import T, U

CHAINS: Final[dict[str, list[str]]] = {
    "a swap, and again": [
        T, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    ],
    "a swap of two, and a third moves": [
        T, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY c TEXT FIRST",
        "ALTER TABLE t MODIFY c TEXT AFTER a, RENAME COLUMN a TO c2, RENAME COLUMN b TO a",
    ],
    "a cycle of four": [
        "CREATE TABLE t (a INT, b INT, c INT, d INT)",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO c, RENAME COLUMN c TO d, RENAME COLUMN d TO a",
        "ALTER TABLE t CHANGE a d INT, CHANGE d c INT, CHANGE c b INT, CHANGE b a INT",
    ],
    "two swaps in one": [
        "CREATE TABLE t (a INT, b INT, c INT, d INT)",
        "ALTER TABLE t RENAME COLUMN a TO d, RENAME COLUMN b TO c, RENAME COLUMN c TO b, RENAME COLUMN d TO a",
    ],
    "a swap by rename and change": [
        "CREATE TABLE t (a INT, b INT)", "ALTER TABLE t RENAME COLUMN a TO b, CHANGE b a INT FIRST",
        "ALTER TABLE t CHANGE a b INT, RENAME COLUMN b TO a",
    ],
    "a dropped name is taken": [
        T, "ALTER TABLE t DROP a, RENAME COLUMN b TO a", "ALTER TABLE t RENAME COLUMN c TO d, DROP a",
        "ALTER TABLE t ADD a INT, CHANGE d c TEXT FIRST",
    ],
    "an added column between renamed ones": [
        T, "ALTER TABLE t RENAME COLUMN a TO x, ADD n INT AFTER x, RENAME COLUMN b TO a",
        "ALTER TABLE t ADD m INT AFTER c, DROP n, ADD k INT FIRST",
    ],
    "added one by one at the head": [
        T, "ALTER TABLE t ADD d INT FIRST, ADD e INT FIRST, ADD f INT FIRST",
        "ALTER TABLE t ADD g INT AFTER e, ADD h INT AFTER e",
    ],
    "added together": [
        T, "ALTER TABLE t ADD (d INT, e TEXT), ADD f INT AFTER a",
        "ALTER TABLE t ADD COLUMN (g INT), DROP e, ADD (h INT, i INT)",
    ],
    "all columns are moved": [
        T, "ALTER TABLE t MODIFY c TEXT FIRST, MODIFY b VARCHAR(20) AFTER c, MODIFY a INT AFTER b",
        "ALTER TABLE t MODIFY a INT FIRST, MODIFY b VARCHAR(20) AFTER a, MODIFY c TEXT AFTER b",
        "ALTER TABLE t CHANGE a a INT AFTER c, CHANGE b b VARCHAR(20) AFTER a",
    ],
    "after a column that is dropped and added": [T, "ALTER TABLE t DROP b, ADD b INT AFTER a, ADD d INT AFTER b"],
    "all columns but one are dropped": [T, "ALTER TABLE t DROP a, DROP b", "ALTER TABLE t DROP c, ADD a INT"],
    "everything is replaced": [
        T, "ALTER TABLE t DROP a, DROP b, DROP c, ADD x INT, ADD a TEXT FIRST, ADD b INT AFTER a",
    ],
    "a key follows its columns": [
        "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b))",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN c TO a",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (k), RENAME COLUMN b TO k",
    ],
    "renamed and altered in the new schema": [
        "CREATE DATABASE d_2", T, U, "ALTER TABLE t RENAME TO d_2.u, RENAME COLUMN a TO z", "ALTER TABLE d_2.u DROP b",
        "RENAME TABLE u TO d_2.t, d_2.u TO t", "ALTER TABLE t ADD q INT FIRST", "ALTER TABLE d_2.t ADD q INT",
    ],
    "three tables go round": [
        T, U, "CREATE TABLE v (v INT)", "RENAME TABLE t TO tmp, u TO t, v TO u, tmp TO v",
        "ALTER TABLE t ADD n INT", "ALTER TABLE u ADD n INT FIRST", "ALTER TABLE v ADD n INT AFTER a",
    ],
    "one table goes far": [T, "RENAME TABLE t TO x1, x1 TO x2, x2 TO x3, x3 TO t", "ALTER TABLE t DROP c"],
    "dropped and made anew": [
        T, "DROP TABLE t", "CREATE TABLE t (c INT, b INT, a INT)", "DROP TABLE IF EXISTS t, nothing",
        "CREATE TABLE t (x INT)", "ALTER TABLE t ADD a INT FIRST",
    ],
    "a schema is dropped and made anew": [
        "CREATE DATABASE d_2", "CREATE TABLE d_2.t (a INT, b INT)", "CREATE TABLE d_2.u LIKE d_2.t",
        "DROP DATABASE d_2", "CREATE DATABASE d_2 CHARACTER SET latin1", "CREATE TABLE d_2.t (b TEXT, a INT)",
        "ALTER TABLE d_2.t ADD u TEXT",
    ],
    "a copy goes its own way": [
        T, "CREATE TABLE u LIKE t", "ALTER TABLE t RENAME COLUMN a TO z", "ALTER TABLE u DROP b",
        "CREATE TABLE v LIKE u", "RENAME TABLE u TO w, t TO u", "CREATE TABLE t LIKE u",
    ],
    "a copy with rows goes its own way": [
        T, "INSERT INTO t VALUES (1, 'x', 'y')", "CREATE TABLE u SELECT c, a FROM t",
        "ALTER TABLE u MODIFY a INT FIRST", "CREATE TABLE v (n INT) SELECT a FROM t", "DROP TABLE u",
        "CREATE TABLE u SELECT * FROM t LIMIT 0",
    ],
    "converted, and its columns are swapped": [
        "CREATE TABLE t (a VARCHAR(9), b VARCHAR(9) CHARACTER SET koi8r) CHARACTER SET latin1",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, DEFAULT CHARACTER SET utf8mb4",
        "ALTER TABLE t ADD c VARCHAR(9)", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3",
    ],
    "words in texts": [
        "CREATE TABLE t (a INT COMMENT 'b INT, ', b INT DEFAULT 3 COMMENT ') RENAME TO x',"
        " c VARCHAR(30) DEFAULT 'AFTER a')",
        "ALTER TABLE t COMMENT 'RENAME COLUMN a TO b', RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE t ADD d VARCHAR(40) DEFAULT ', DROP a' AFTER a /* , DROP b */, ADD e INT # , DROP c\n FIRST",
    ],
}  # fmt: skip
