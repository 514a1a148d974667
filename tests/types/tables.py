"""Cases about a whole table: NULLs, many columns, keys, images without some columns, columns of special kinds."""

from __future__ import annotations

import itertools
import random

from tests.support.value_cases import MARIADB, MYSQL
from tests.types.case import IMAGE, TableCase

MINIMAL, NOBLOB = ((IMAGE, "MINIMAL"),), ((IMAGE, "NOBLOB"),)
OLD_FORMAT = (("GLOBAL mysql56_temporal_format", "OFF"),)
_TYPES = ("INT", "VARCHAR(300)", "BIT(3)", "TEXT", "DATETIME(3)", "DECIMAL(9,4)", "VARBINARY(9)", "ENUM('a','b')")
_VALUES = ("-7", "'text'", "5", "'long'", "'2024-02-29 01:02:03.5'", "-12.5", "X'00FF'", "'b'")
_DIGITS = "123456789012345678901234567890123456789012345678901234567890123456789"
_SCALES = [(p, s) for p in range(1, 66) for s in range(min(p, 30) + 1) if s in (0, 1, 2, 9, 10, p - 1, p, 30)]
_ALL_PATTERNS = 6  # up to so many nullable columns, every pattern of NULLs is tried


def numbers() -> list[TableCase]:
    """DECIMAL and BIT of every size, and rows of the maximum length."""
    narrow, wide = ([pair for pair in _SCALES if (pair[0] > 40) == long] for long in (False, True))
    bits = [["0", "1", str(1 << n - 1), str((1 << n) - 1), str(0xA5A5A5A5A5A5A5A5 >> 64 - n)] for n in range(1, 65)]
    longest = {"CHARACTER SET latin1": 65524, "CHARACTER SET utf8mb3": 21841, "CHARACTER SET utf8mb4": 16381}
    key = "id INT PRIMARY KEY, "
    return [
        TableCase("integers", "SERIAL", "v SERIAL PRIMARY KEY, w INT", ["VALUES (1, -7), (18446744073709551614, 2)"]),
        *(
            _sweep("decimals", name, [f"DECIMAL({p},{s})" for p, s in some], [_decimals(p, s) for p, s in some])
            for name, some in (("DECIMAL(1,0) to (40,30)", narrow), ("DECIMAL(41,0) to (65,30)", wide))
        ),
        _sweep("bits", "BIT(1) to BIT(64)", [f"BIT({n})" for n in range(1, 65)], bits),
        *(
            TableCase(
                "text",
                f"VARCHAR({n}) {charset[14:]}, 65535 bytes",
                f"{key}v VARCHAR({n}) {charset}, w INT",
                [f"VALUES (1, '', 1), (2, REPEAT('x', {n}), 2), (3, NULL, 3)"],
            )
            for charset, n in longest.items()
        ),
        TableCase(
            "bytes",
            "VARBINARY(65524), 65535 bytes",
            f"{key}v VARBINARY(65524), w INT",
            ["VALUES (1, '', 1), (2, REPEAT(X'00', 65524), 2)"],
        ),
    ]


def _decimals(precision: int, scale: int) -> list[str]:
    """Zero, the largest and some other values of a DECIMAL, with both signs."""
    digits, tens = precision - scale, _DIGITS[:precision]
    largest = "9" * digits + ("." + "9" * scale if scale else "")
    middle = (tens[:digits] or "0") + ("." + tens[digits:] if scale else "")
    smallest = "0." + "0" * (scale - 1) + "1" if scale else "1"
    return ["0", largest, "-" + largest, middle, "-" + middle, smallest, "-" + smallest]


def _sweep(family: str, name: str, types: list[str], rows: list[list[str]]) -> TableCase:
    """A case with a column for each type. The values are given by column."""
    columns = ", ".join(f"v{number} {sql}" for number, sql in enumerate(types))
    values = ", ".join(f"({', '.join(row)}, -7)" for row in zip(*rows, strict=True))
    names = ", ".join(f"v{number}" for number in range(len(types)))
    return TableCase(
        family, name, f"id INT PRIMARY KEY AUTO_INCREMENT, {columns}, w INT", [f"({names}, w) VALUES {values}"]
    )


def nulls() -> list[TableCase]:
    """NULLs in 1 to 17 columns: every pattern for few columns, random patterns for more."""
    chance = random.Random(3)
    cases = []
    for count in range(1, 18):
        columns = ", ".join(f"v{i} {_TYPES[i % len(_TYPES)]}" for i in range(count))
        patterns = list(itertools.product((True, False), repeat=count))
        if count > _ALL_PATTERNS:
            single = [tuple(i == at for i in range(count)) for at in range(count)]
            patterns = [patterns[0], patterns[-1], *single, *chance.sample(patterns, 30)]
        rows = [
            [str(number), *("NULL" if null else _VALUES[i % len(_VALUES)] for i, null in enumerate(pattern))]
            for number, pattern in enumerate(patterns)
        ]
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        change = ", ".join(f"v{i} = IF(v{i} IS NULL, {_VALUES[i % len(_VALUES)]}, NULL)" for i in range(count))
        name = f"{count} nullable columns"
        cases.append(TableCase("NULLs", name, f"id INT PRIMARY KEY, {columns}", [f"VALUES {values}"], change))
    return cases


def widths() -> list[TableCase]:
    """Tables of 1 and of 1000 columns, and with names of every kind."""
    kinds = ("TINYINT", "SMALLINT UNSIGNED", "INT", "VARCHAR(2)", "YEAR", "DATE")
    values = ("-1", "65535", "NULL", "'ab'", "2024", "'2024-02-29'")
    columns = ", ".join(f"c{i} {kinds[i % len(kinds)]}" for i in range(1000))
    row = ", ".join(values[i % len(values)] for i in range(1000))
    empty = ", ".join(["NULL"] * 1000)
    awkward = ("select", "a b", "``", "é", "日本", "x" * 64, "a.b", "'quoted'", '"double"', "1", "@1", "%", "A")
    named = ", ".join(f"`{name}` INT" for name in awkward)
    return [
        TableCase("tables", "1 column, the key", "v INT PRIMARY KEY", ["VALUES (1), (2)"], "v = v + 10"),
        TableCase("tables", "1 column, nullable", "v INT", ["VALUES (NULL)"], "v = 10"),
        TableCase("tables", "1 column, TEXT", "v TEXT", ["VALUES ('one')"], "v = NULL"),
        TableCase("tables", "1000 columns", columns, [f"VALUES ({row}), ({empty})"], "c999 = NULL, c0 = 5"),
        TableCase(
            "tables",
            "columns with awkward names",
            f"id INT PRIMARY KEY, {named}",
            [f"VALUES (1{', 5' * len(awkward)})"],
            "`select` = 7",
        ),
        TableCase(
            "tables", "MyISAM", "id INT PRIMARY KEY, v VARCHAR(9)", ["VALUES (1, 'a')"], "v = 'b'", "ENGINE = MyISAM"
        ),
        TableCase(
            "tables",
            "partitioned",
            "id INT PRIMARY KEY, v INT",
            ["VALUES (1, 1), (2, 2), (3, NULL)"],
            "v = v + 10",
            "PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (2), PARTITION b VALUES LESS THAN (9))",
        ),
    ]


def keys() -> list[TableCase]:
    """Keys of several columns, of late columns, of parts of columns, and no key."""
    columns = "a INT NOT NULL, b VARCHAR(20) NOT NULL, c INT, d DATE NOT NULL"
    rows = ["VALUES (1, 'x', NULL, '2024-01-01'), (1, 'y', 2, '2024-01-02'), (2, 'z', 3, '2024-01-03')"]
    kinds = {
        "key of two columns": "PRIMARY KEY (a, b)",
        "key of two columns, not in their order": "PRIMARY KEY (d, a)",
        "key of three columns": "PRIMARY KEY (a, b, d)",
        "key on the last column": "PRIMARY KEY (d)",
        "key on a prefix": "PRIMARY KEY (b(1), a)",
        "unique key only": "UNIQUE KEY (a, b)",
        "no key": "KEY (c)",
    }
    return [TableCase("keys", name, f"{columns}, {key}", rows, "c = 8") for name, key in kinds.items()]


def images() -> list[TableCase]:
    """Row images that lack columns."""
    columns = "id INT {key}, a VARCHAR(300), t TEXT, b BLOB, n INT, d DECIMAL(9,4), j {json}"
    rows = ["(id, a, t, b, n, j) VALUES (1, 'a', 'text', X'00FF', NULL, '[]'), (2, NULL, NULL, '', -7, NULL)"]
    updates = {
        "one column": "n = 8",
        "a TEXT": "t = 'changed'",
        "to NULL and back": "a = IF(a IS NULL, 'x', NULL), b = NULL",
        "nothing but one row": "n = -7",
        "the key": "id = id + 100",
    }
    cases = []
    for settings in MINIMAL, NOBLOB:
        image = settings[0][1]
        whole = columns.format(key="PRIMARY KEY", json="JSON")
        cases += [
            TableCase("row images", f"{image}, update of {what}", whole, rows, change, settings=settings)
            for what, change in updates.items()
        ]
        bare = columns.format(key="", json="LONGTEXT")
        cases.append(TableCase("row images", f"{image}, no key", bare, rows, "n = 8", settings=settings))
        some = "a INT, x TEXT, b INT, y VARCHAR(9), PRIMARY KEY (b, a)"
        values = ["VALUES (1, 'x', 2, 'y'), (3, NULL, 4, NULL)"]
        cases.append(TableCase("row images", f"{image}, key of two", some, values, "y = 'z'", settings=settings))
        many = ", ".join(f"v{i} {_TYPES[i % len(_TYPES)]}" for i in range(17))
        full = [f"VALUES (1, {', '.join(_VALUES[i % len(_VALUES)] for i in range(17))})", "(id) VALUES (2)"]
        cases.append(
            TableCase(
                "row images",
                f"{image}, 17 columns",
                f"id INT PRIMARY KEY, {many}",
                full,
                "v0 = 1, v8 = 2, v16 = 3, v7 = 'a'",
                settings=settings,
            )
        )
    return cases


def kinds() -> list[TableCase]:
    """Invisible, generated and hidden columns; versioned tables; old formats."""
    generated = "id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s VARCHAR(20) AS (CONCAT('x', a)) STORED, w INT"
    temporals = "id INT PRIMARY KEY, a TIME, b DATETIME, c TIMESTAMP NULL, w INT"
    old = [
        "VALUES (1, '-12:34:56', '2024-02-29 01:02:03', '2024-07-01 12:00:00', 1), (2, NULL, NULL, NULL, NULL),"
        " (3, '838:59:59', '0000-00-00', '0000-00-00', 1), (4, '-00:00:01', '9999-12-31 23:59:59',"
        " '2038-01-19 03:14:07', 2), (5, '00:00:00', '2024-00-00', '1970-01-01 00:00:01', 2)"
    ]
    fractions = [
        TableCase(
            "old temporal formats",
            f"{kind}({n})",
            f"id INT PRIMARY KEY, v {kind}({n}) NULL, w INT",
            [f"VALUES (1, {value}, -7), (2, NULL, -7)" for value in (values,)],
            on=MARIADB,
            settings=OLD_FORMAT,
        )
        for kind, values in (
            ("TIME", "'-12:34:56.123456'"),
            ("DATETIME", "'2024-02-29 01:02:03.123456'"),
            ("TIMESTAMP", "'2024-07-01 12:00:00.123456'"),
        )
        for n in range(1, 7)
    ]
    return [
        TableCase(
            "generated and hidden",
            "invisible column",
            "id INT PRIMARY KEY, v INT INVISIBLE, w INT",
            ["(id, v) VALUES (1, 5), (2, NULL)"],
        ),
        TableCase(
            "generated and hidden", "virtual and stored", generated, ["(id, a) VALUES (1, 5), (2, NULL)"], "a = 9"
        ),
        TableCase(
            "generated and hidden",
            "virtual, NULL, between others",
            "id INT PRIMARY KEY, v TEXT AS (NULL) VIRTUAL, a INT, u BIGINT UNSIGNED AS (a * 2) VIRTUAL, w INT",
            ["(id, a) VALUES (1, 5), (2, 9)"],
        ),
        TableCase(
            "generated and hidden",
            "indexed virtual",
            "id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, KEY (v)",
            ["(id, a) VALUES (1, 5), (2, NULL)"],
            "a = 9",
        ),
        TableCase(
            "generated and hidden",
            "generated invisible key",
            "v INT, w INT",
            ["VALUES (1, 2), (NULL, 3)"],
            on=MYSQL,
            settings=(("sql_generate_invisible_primary_key", "ON"),),
        ),
        TableCase(
            "generated and hidden",
            "functional index",
            "id INT PRIMARY KEY, v INT, w INT, KEY ((v + 1))",
            ["VALUES (1, 2, 3)"],
            on=MYSQL,
        ),
        TableCase(
            "generated and hidden",
            "multi-valued index",
            "id INT PRIMARY KEY, v JSON, w INT, KEY ((CAST(v AS UNSIGNED ARRAY)))",
            ["VALUES (1, '[1, 2]', 3)"],
            on=MYSQL,
        ),
        TableCase(
            "system-versioned tables",
            "hidden period",
            "id INT PRIMARY KEY, w INT",
            ["VALUES (1, 2), (3, NULL)"],
            options="WITH SYSTEM VERSIONING",
            on=MARIADB,
            period=("row_start", "row_end"),
        ),
        TableCase(
            "system-versioned tables",
            "declared period",
            "id INT PRIMARY KEY, w INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
            "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)",
            ["(id, w) VALUES (1, 2), (3, NULL)"],
            options="WITH SYSTEM VERSIONING",
            on=MARIADB,
            period=("s", "e"),
        ),
        TableCase("old temporal formats", "TIME, DATETIME, TIMESTAMP", temporals, old, on=MARIADB, settings=OLD_FORMAT),
        *fractions,
    ]


def partial_json() -> list[TableCase]:
    """Updates of JSON that the binlog stores as changes within the value."""
    document = """'{"a": 1, "b": [1, 2, {"c": "x"}], "d": "REPLACED", "e": null}'""".replace("REPLACED", "y" * 300)
    updates = {
        "replace": "j = JSON_SET(j, '$.a', 2)",
        "replace deep": "j = JSON_REPLACE(j, '$.b[2].c', 'a longer text than before')",
        "remove": "j = JSON_REMOVE(j, '$.e')",
        "several": "j = JSON_REMOVE(JSON_SET(j, '$.a', 2.5, '$.b[0]', TRUE), '$.e'), w = 8",
        "insert": "j = JSON_SET(j, '$.new', JSON_ARRAY(1, 2)), w = NULL",
        "array insert": "j = JSON_SET(j, '$.b[3]', 'last')",
        "to NULL": "j = NULL",
        "nothing of it": "w = 8",
        "two columns": "j = JSON_SET(j, '$.a', 2), k = JSON_REMOVE(k, '$.b')",
    }
    partial = ("binlog_row_value_options", "PARTIAL_JSON")
    rows = [f"VALUES (1, {document}, {document}, -7), (2, NULL, '[]', -7), (3, {document}, NULL, -7)"]
    columns = "id INT PRIMARY KEY, j JSON, k JSON, w INT"
    return [
        TableCase(
            "partial JSON updates",
            name + image,
            columns,
            rows,
            change,
            on=MYSQL,
            settings=(partial, *settings),
            alone=bool(settings),
        )
        for image, settings in (("", ()), (", MINIMAL", MINIMAL), (", NOBLOB", NOBLOB))
        for name, change in updates.items()
    ]


CASES = [*numbers(), *nulls(), *widths(), *keys(), *images(), *kinds(), *partial_json()]
