"""Column types, and values for each, for every test of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MYSQL, MARIADB = ("mysql97",), ("mariadb1011", "mariadb118")


class Case(NamedTuple):
    """A column type and values for it, as SQL; `name` is a short name for a long `sql`."""

    family: str
    sql: str
    values: Sequence[str]
    on: tuple[str, ...] = MYSQL + MARIADB
    name: str = ""


DOUBLES = [
    "1e14", "1e15", "1e16", "123456789012345", "1234567890123456e0", "12345678901234567e0", "1.5e15", "0.1", "1e-4",
    "1e-5", "1e-14", "1e-15", "1e-16", "1.5e-5", "1.2345678901234567e-15", "1.2345678901234567e-16", "123456.789",
    "1e300", "-1e-300", "2.2250738585072014e-308", "1.7976931348623157e308", "-1e15", "0e0", "-0e0", "1", "100.5",
    "123456789.12345679e0", "5e-324", "0.3333333333333333e0", "1234567.8901234567e0", "9007199254740993e0",
    "999999999999999.9e0", "0.000001", "0.0000001", "999999999.999999e0", "1000000000.000001e0", "-12.5",
    "1707628031982785.2e0", "-2738910612482594.5e0", "1.2345678901234567e16", "0.1e0+0.2e0", "1e9", "999999999",
    "1e22", "1e23",
]  # fmt: skip
FLOATS = [
    "1e9", "1e14", "1e15", "1234567", "123456.789", "1234567890", "16777216", "1e-4", "1e-14", "1e-15", "1e-16",
    "1.17549e-38", "3.40282e38", "0.1", "1.1", "1.23457e-10", "1e30", "1.5e15", "123456.5", "999999.5", "9999995",
    "-1.23457e-10", "0e0", "-0e0", "1.234567e20", "0.3333333", "1e-40", "1e-45", "5.5", "0.5", "-2", "99999.95",
    "8388608", "33554432", "-999999.4", "0.001", "0.00099999995", "0.00123456", "0.0099999995", "9.9999995",
]  # fmt: skip
DATES = ["'2024-02-29'", "'0000-00-00'", "'9999-12-31'", "'2024-00-00'", "'1000-01-01'", "'0001-01-01'"]
DATETIMES = [
    "'2024-02-29 13:14:15.123456'", "'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'", "'1970-01-01 00:00:01.5'",
    "'2024-12-01 00:00:00.000001'", "'2024-01-00 01:02:03.9'",
]  # fmt: skip
TIMES = [
    "'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:00.5'", "'-01:02:03.5'", "'01:02:03.123456'", "'-00:00:01'",
    "'100:00:00.000001'", "'-12:59:59.999999'", "'23:59:59.9'",
]  # fmt: skip
TIMESTAMPS = [
    "'2024-02-29 13:14:15.123456'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'",
    "'2000-03-01 00:00:00'", "'2000-02-29 23:59:59.9'", "'1999-12-31 23:59:59'", "'2023-03-01 00:00:00.5'",
]  # fmt: skip
TEXTS = ["'abc'", "''", "'it''s'", "'NULL'", "'äöü€'", "'  x  '", "REPEAT('x', 60)"]
BYTES = ["X'00FF00'", "X''", "X'610000'", "X'00'", "X'6120'", "X'FF'"]
WIDE_TEXTS = [*TEXTS, "'😀'", "REPEAT('€', 255)", "REPEAT('x', 64)"]
LATIN = ["X'41E4F6FC80'", "X'3031323334353637E430313233343536373839E4'", "X'818D8F909D'", "''", "REPEAT(X'FF', 200)"]
DOCUMENT = """'{"a": 1, "b": [1, 2.5, null, true, false, -1, 65535, -32769, 4294967295, 1e100, 1.0, 10000000000]}'"""
JSONS = [
    DOCUMENT, "'[]'", "'{}'", "'null'", "'\"\"'", "'1'", "'-1.5'", "'true'",
    r"""'{"\\"q\\"": "\\\\ \\b\\f\\n\\r\\t\\u0001\\u001f/ äöü😀 \\u007f"}'""",
    "'[9223372036854775807, -9223372036854775808, 18446744073709551615, 1e-7, 1e15, 1e14, 123456789.123]'",
    "'[0.1, -0.0, 1707628031982785.2, -1e16]'",
    "CONCAT(REPEAT('[', 100), REPEAT(']', 100))", "CONCAT(REPEAT('[', 99), '{}', REPEAT(']', 99))",
    "JSON_ARRAY(CAST(2024 AS YEAR), 1 = 1, CAST('9' AS UNSIGNED), PI(), CAST(0.1 AS FLOAT), CAST(1 AS DOUBLE))",
    "JSON_OBJECT('d', CAST('12.50' AS DECIMAL(10,2)), 'z', CAST('-0.001' AS DECIMAL(30,10)))",
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('2024-02-29 01:02:03.5' AS DATETIME(6)))",
    "JSON_ARRAY(CAST('-12:30:00.25' AS TIME(6)), CAST('00:00:00' AS TIME))",
    "JSON_ARRAY(TIMESTAMP'2024-02-29 01:02:03', CAST('838:59:59' AS TIME), CAST('0000-00-00' AS DATE))",
    "JSON_ARRAY(X'00FF10', CAST('abc' AS BINARY(5)), b'101', ST_GeomFromText('POINT(1 2)'))",
    "JSON_OBJECT('b', CAST(REPEAT(X'00', 200) AS BINARY), 'k', JSON_ARRAY(CAST(REPEAT('x', 115) AS BINARY)))",
    "JSON_OBJECT('long', REPEAT('x', 70000), 'k', JSON_ARRAY(1, REPEAT('y', 20000)), 'n', 70000, 'm', -70000)",
    "CAST(CONCAT('[', REPEAT('{\"key\": [1, \"two\", 3.5]}, ', 5000), 'null]') AS JSON)",
    "CAST(CAST('abc' AS BINARY) AS JSON)", "JSON_SET('{\"a\": 1}', '$.b', CAST('1.10' AS DECIMAL(5,3)))",
]  # fmt: skip
DECIMALS = [
    "12.5", "-12.5", "0", "-0.01", "0.5", "99999999.99", "-99999999.99", "1234567.89", "0.05", "1",
]  # fmt: skip
LONG_DECIMALS = [
    "0",
    "1",
    "-1",
    "9" * 35 + "." + "9" * 30,
    "-" + "1234567890" * 3 + "." + "0123456789" * 3,
    "0." + "0" * 29 + "1",
]


def numbers() -> list[Case]:
    """Integers at both limits, decimals, floating point as the server prints it, bits."""
    cases = []
    for name, bits in ("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64):
        half, whole = 1 << bits - 1, 1 << bits
        cases.append(Case("integers", name, [str(-half), str(half - 1), "0", "-1", "1", str(-half + 1)]))
        cases.append(Case("integers", f"{name} UNSIGNED", [str(whole - 1), str(half), str(half - 1), "0", "1"]))
        cases.append(Case("integers", f"{name} ZEROFILL", ["42", str(whole - 1), "0"]))
    return [
        *cases,
        Case("integers", "BOOL", ["TRUE", "FALSE"]),
        Case("integers", "INT(5) ZEROFILL", ["42", "123456", "0"]),
        Case("decimals", "DECIMAL(10,2)", DECIMALS),
        Case("decimals", "DECIMAL(65,30)", LONG_DECIMALS),
        Case("decimals", "DECIMAL(1,0) UNSIGNED", ["9", "0"]),
        Case("decimals", "DECIMAL(65,30) UNSIGNED", ["9" * 35 + "." + "9" * 30, "0"]),
        Case("decimals", "DECIMAL(8,2) ZEROFILL", ["42.5", "0"]),
        Case("floating point", "FLOAT", FLOATS),
        Case("floating point", "DOUBLE", DOUBLES),
        Case("floating point", "FLOAT UNSIGNED", ["0.1", "3.4e38"]),
        Case("floating point", "FLOAT(53)", ["0.1", "1e300"]),
        Case("floating point", "FLOAT ZEROFILL", ["42.5"]),
        Case("floating point", "DOUBLE ZEROFILL", ["42.5", "1e100"]),
        Case("floating point", "FLOAT(7,4)", ["1.5", "999.00009", "-0.00004", "0"]),
        Case("floating point", "DOUBLE(12,3)", ["1.5", "123456789.1235", "-0.0005", "0.1255"]),
        Case("floating point", "DOUBLE(9,3) ZEROFILL", ["42.5"]),
        *(Case("bits", f"BIT({n})", ["0", "1", str((1 << n) - 1)]) for n in (1, 7, 8, 9, 33, 64)),
    ]


def temporals() -> list[Case]:
    """Dates and times, with zero parts, negative and with every number of fraction digits."""
    return [
        Case("dates and times", "YEAR", ["1901", "2155", "0", "2024", "'00'", "'0000'"]),
        Case("dates and times", "DATE", DATES),
        *(Case("dates and times", f"DATETIME({n})", DATETIMES) for n in range(7)),
        *(Case("dates and times", f"TIME({n})", TIMES) for n in range(7)),
        *(Case("dates and times", f"TIMESTAMP({n}) NULL", TIMESTAMPS) for n in range(7)),
        Case("dates and times", "TIMESTAMP(6) NULL", LATE, on=("mariadb118",), name="TIMESTAMP(6) past 2038"),
        Case("dates and times", "TIMESTAMP NULL", LATE, on=("mariadb118",), name="TIMESTAMP past 2038"),
    ]


LATE = ["'2038-01-19 03:14:08'", "'2106-02-07 06:28:15'", "'2070-02-28 23:59:59.999999'", "'2100-03-01 00:00:00'"]


def text(sql: str, charset: str, characters: int, *more: str) -> Case:
    """A text column: short values, and one of the maximum length, of the widest character in its charset."""
    widest = {"latin1": "ß", "utf8mb3": "€", "utf8mb4": "😀"}[charset]
    values = ["''", "'abc'", "'  x  '", f"REPEAT('x', {characters})", f"REPEAT('{widest}', {characters})", *more]
    return Case("text", f"{sql} CHARACTER SET {charset}", values)


def texts() -> list[Case]:
    """Text at every boundary of its length prefix, and of what a table map can say of it."""
    varchars = {"latin1": (0, 1, 255, 256, 1023, 1024), "utf8mb3": (85, 86, 300, 341, 342)}
    varchars["utf8mb4"] = (63, 64, 255, 256, 1023, 1024)
    chars = {"latin1": (1, 255), "utf8mb3": (84, 85, 86, 170, 171, 255)}
    chars["utf8mb4"] = (60, 63, 64, 65, 73, 81, 127, 128, 191, 192, 255)
    return [
        *(text(f"VARCHAR({n})", charset, n) for charset, lengths in varchars.items() for n in lengths),
        *(text(f"CHAR({n})", charset, n) for charset, lengths in chars.items() for n in lengths),
        Case("text", "CHAR(0)", ["''"]),
        text("TINYTEXT", "latin1", 255),
        text("TINYTEXT", "utf8mb4", 63, "REPEAT('x', 255)"),
        text("TEXT", "latin1", 256, "REPEAT('x', 65535)"),
        text("TEXT", "utf8mb4", 64, "REPEAT('x', 65535)"),
        text("MEDIUMTEXT", "utf8mb4", 256, "REPEAT('€', 65536)"),
        text("LONGTEXT", "utf8mb4", 256, "REPEAT('x', 300000)"),
        Case("text", "TEXT(70000)", ["REPEAT('x', 70000)"]),
        Case("text", "VARCHAR(255) CHARACTER SET latin1", LATIN, name="VARCHAR(255) latin1 is cp1252"),
        Case("text", "VARCHAR(80) CHARACTER SET utf8mb4", TEXTS, name="VARCHAR(80) that looks like NULL, quoted"),
    ]


def binaries() -> list[Case]:
    """Bytes: padded, not padded, and long ones."""
    blobs = [
        ("TINYBLOB", (255,)), ("BLOB", (255, 256, 65535)), ("MEDIUMBLOB", (65535, 65536)), ("LONGBLOB", (65536, 300000))
    ]  # fmt: skip
    return [
        *(Case("bytes", f"BINARY({n})", BYTES if n > 2 else ["X'00'", "X'20'", "X'FF'"]) for n in (1, 4, 5, 16, 255)),
        Case("bytes", "BINARY(0)", ["''"]),
        *(Case("bytes", f"VARBINARY({n})", [*BYTES, f"REPEAT(X'00', {n})"]) for n in (20, 255, 256, 300)),
        *(Case("bytes", kind, [*BYTES, *(f"REPEAT(X'0A', {n})" for n in sizes)]) for kind, sizes in blobs),
    ]


def choices() -> list[Case]:
    """ENUM and SET: labels that need quoting, the index 0, the empty set, many labels."""
    awkward = r"""'a','it''s','x,y','é','"q"','back\\slash','line\nfeed','tab\t','(b)','C:\\new','%_','ß€'"""
    sets = awkward.replace("'x,y',", "")
    return [
        Case("enum and set", "ENUM('a','b')", ["1", "2", "0", "'a'"]),
        Case("enum and set", f"ENUM({awkward})", [*map(str, range(13))], name="ENUM with awkward labels"),
        Case("enum and set", r"ENUM('a\0b','c ')", ["1", "2"], name="ENUM with a NUL in a label"),
        Case("enum and set", "ENUM('?','a?')", ["1", "2"]),
        Case("enum and set", "ENUM('','a')", ["1", "2", "0"], name="ENUM with an empty label"),
        Case("enum and set", "ENUM('😀','𝄞')", ["1", "2"], name="ENUM with labels of four bytes"),
        Case("enum and set", f"ENUM({labels(300)})", ["1", "255", "256", "300"], name="ENUM of 300 labels"),
        Case("enum and set", f"ENUM({labels(255)})", ["1", "255"], name="ENUM of 255 labels"),
        Case("enum and set", f"ENUM({labels(256)})", ["1", "255", "256"], name="ENUM of 256 labels"),
        Case("enum and set", "ENUM('a','B') CHARACTER SET binary", ["1", "2"]),
        Case("enum and set", "ENUM('é','ß','€') CHARACTER SET latin1", ["1", "2", "3"]),
        Case("enum and set", "SET('a','it''s','c')", ["1", "5", "7", "0", "''"]),
        Case("enum and set", f"SET({sets})", ["0", "1", "(1<<11)-1", "1<<10", "1365"], name="SET with awkward labels"),
        Case("enum and set", "SET('é','ß','€') CHARACTER SET latin1", ["7", "2", "0"]),
        Case("enum and set", "SET('😀','𝄞')", ["1", "3"], name="SET with labels of four bytes"),
        *(
            Case(
                "enum and set", f"SET({labels(n)})", ["1", f"1<<{n - 1}", str((1 << n) - 1)], name=f"SET of {n} members"
            )
            for n in (1, 8, 9, 16, 17, 20, 24, 25, 32, 33, 63, 64)
        ),
    ]


def labels(count: int) -> str:
    """Labels v0, v1 ... as SQL."""
    return ",".join(f"'v{number}'" for number in range(count))


SHAPES = {
    "POINT": ["POINT(-1.5 2)"],
    "LINESTRING": ["LINESTRING(0 0,1 1,2.5 -3)"],
    "POLYGON": ["POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,2 1,2 2,1 1))"],
    "MULTIPOINT": ["MULTIPOINT((0 0),(1 2))"],
    "MULTILINESTRING": ["MULTILINESTRING((0 0,1 1),(2 2,3 3))"],
    "MULTIPOLYGON": ["MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))"],
    "GEOMETRYCOLLECTION": ["GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))", "GEOMETRYCOLLECTION EMPTY"],
}


def others() -> list[Case]:
    """JSON, geometry, vectors and MariaDB's own types."""
    shapes = {**SHAPES, "GEOMETRY": [shape for some in SHAPES.values() for shape in some]}
    return [
        Case("JSON", "JSON", JSONS, on=MYSQL),
        Case("JSON", "JSON", [DOCUMENT, "'[]'", "'{\"a\":  1.10}'", "'{\"ä\": \"😀\"}'"], on=MARIADB),
        *(
            Case("geometry", kind, [f"ST_GeomFromText('{shape}')" for shape in some])
            for kind, some in shapes.items()
        ),
        Case("geometry", "GEOMETRY SRID 4326", ["ST_GeomFromText('POINT(1 2)', 4326)"], on=MYSQL),
        Case("vector", "VECTOR(3)", ["STRING_TO_VECTOR('[1,2.5,-3]')"], on=MYSQL),
        Case("vector", "VECTOR", [f"STRING_TO_VECTOR('[{','.join(map(str, range(2048)))}]')"], on=MYSQL),
        Case("vector", "VECTOR(3)", ["VEC_FromText('[1,2.5,-3]')"], on=("mariadb118",)),
        Case("vector", "VECTOR(1000)", [f"VEC_FromText('{[*range(1000)]}')"], on=("mariadb118",)),
        Case("uuid and inet", "UUID", UUIDS, on=MARIADB),
        Case("uuid and inet", "INET6", INET6, on=MARIADB),
        Case("uuid and inet", "INET4", ["'192.0.2.1'", "'0.0.0.0'", "'1.0.0.0'", "'255.255.255.255'"], on=MARIADB),
    ]  # fmt: skip


UUIDS = [
    "'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'",
    "'01890a5d-ac96-774b-bcce-b302099a8057'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
]  # fmt: skip
INET6 = [
    "'2001:db8::ff00:42:8329'", "'::'", "'::1.2.3.4'", "'::ffff:192.0.2.1'", "'1:0:0:2::3'", "'::1'", "'0:0:0:1::'",
    "'1::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'1:0:2:0:3:0:4:0'", "'0:1:0:1:0:1:0:1'", "'1:2:3:4:5:6:7::'",
]  # fmt: skip
ZEROS = ["'" + ":".join(str(bits >> at & 1) for at in range(8)) + "'" for bits in range(256)]
COMPRESSED_TYPES = (
    "VARCHAR(1000) COMPRESSED", "VARCHAR(1000) COMPRESSED CHARACTER SET utf8mb4", "VARBINARY(1000) COMPRESSED",
    "TEXT COMPRESSED", "MEDIUMTEXT COMPRESSED", "LONGTEXT COMPRESSED CHARACTER SET utf8mb4", "BLOB COMPRESSED",
    "MEDIUMBLOB COMPRESSED", "LONGBLOB COMPRESSED", "TEXT COMPRESSED CHARACTER SET latin1",
)  # fmt: skip
LONG = ["''", "'abc'", "REPEAT('x', 99)", "REPEAT('ab', 500)", "REPEAT('ß', 300)"]
MORE_CASES = [
    *(Case("compressed columns", sql, LONG, on=MARIADB) for sql in COMPRESSED_TYPES),
    Case("compressed columns", "TINYTEXT COMPRESSED", ["''", "'abc'", "REPEAT('x', 200)"], on=MARIADB),
    Case("compressed columns", "TINYBLOB COMPRESSED", ["''", "X'00FF'", "REPEAT('x', 200)"], on=MARIADB),
    Case("enum and set", "ENUM(X'FF','a') CHARACTER SET binary", ["1", "2"], name="ENUM with labels that are no text"),
    Case(
        "enum and set", "SET(X'FF','a') CHARACTER SET binary", ["1", "2"], MARIADB, "SET with labels that are no text"
    ),
    Case("enum and set", "ENUM('é','b') CHARACTER SET binary", ["1", "2"]),
    Case("uuid and inet", "INET6", ZEROS, on=MARIADB, name="INET6 with zero groups anywhere"),
]
"""Apart from the others: what a reader that does not know it cannot step over, and what has many rows."""
CASES = [*numbers(), *temporals(), *texts(), *binaries(), *choices(), *others()]
