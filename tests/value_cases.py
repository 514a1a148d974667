"""Column types, and values for each: what every test of values goes through."""

from __future__ import annotations

from typing import NamedTuple

MYSQL, MARIADB = ("mysql97",), ("mariadb1011", "mariadb118")


class Case(NamedTuple):
    """A column type and values for it, as SQL. `on`: server kinds; `told`: table maps tell all that it needs."""

    sql: str
    values: list[str]
    on: tuple[str, ...] = MYSQL + MARIADB
    told: bool = True


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
    "8388608", "33554432",
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
LATIN = ["X'41E4F6FC80'", "X'818D8F909D'", "''", "REPEAT(X'FF', 200)"]
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

CASES = [
    Case("TINYINT", ["-128", "127", "0", "-1"]),
    Case("TINYINT UNSIGNED", ["0", "200", "255"]),
    Case("BOOL", ["TRUE", "FALSE"]),
    Case("SMALLINT", ["-32768", "32767", "-1"]),
    Case("SMALLINT UNSIGNED", ["65535", "0"]),
    Case("MEDIUMINT", ["-8388608", "8388607", "-1"]),
    Case("MEDIUMINT UNSIGNED", ["16777215", "0"]),
    Case("INT", ["-2147483648", "2147483647", "-1", "0"]),
    Case("INT UNSIGNED", ["4294967295", "0"]),
    Case("BIGINT", ["-9223372036854775808", "9223372036854775807", "-1", "4294967296"]),
    Case("BIGINT UNSIGNED", ["18446744073709551615", "0", "4294967295"]),
    Case("INT(5) ZEROFILL", ["42", "123456", "0"], told=False),
    Case("INT ZEROFILL", ["42"], told=False),
    Case("BIGINT ZEROFILL", ["42"], told=False),
    Case("DECIMAL(8,2) ZEROFILL", ["42.5", "0"], told=False),
    Case("FLOAT ZEROFILL", ["42.5"], told=False),
    Case("DOUBLE ZEROFILL", ["42.5", "1e100"], told=False),
    Case("DOUBLE(9,3) ZEROFILL", ["42.5"], told=False),
    Case("FLOAT", FLOATS),
    Case("DOUBLE", DOUBLES),
    Case("FLOAT(7,4)", ["1.5", "999.00009", "-0.00004", "0"], told=False),
    Case("DOUBLE(12,3)", ["1.5", "123456789.1235", "-0.0005", "0.1255"], told=False),
    Case("DECIMAL(10,2)", DECIMALS),
    Case("DECIMAL(5,0)", ["7", "-7", "0", "99999"]),
    Case("DECIMAL(5,5)", ["0.12345", "-0.00001", "0"]),
    Case("DECIMAL(11,2)", ["123456789.12", "-5", "0"]),
    Case("DECIMAL(18,9)", ["123456789.123456789", "-0.000000001", "1"]),
    Case("DECIMAL(9,9)", ["0.123456789"]),
    Case("DECIMAL(30,12)", ["-123456789012345678.123456789012", "10"]),
    Case("DECIMAL(65,30)", LONG_DECIMALS),
    Case("DECIMAL(65,0)", ["9" * 65, "-1"]),
    Case("DECIMAL(1,0) UNSIGNED", ["9", "0"]),
    *(Case(f"BIT({n})", ["0", "1", str((1 << n) - 1)]) for n in (1, 7, 8, 9, 33, 64)),
    Case("YEAR", ["1901", "2155", "0", "2024"]),
    Case("DATE", DATES),
    *(Case(f"DATETIME({n})", DATETIMES) for n in range(7)),
    *(Case(f"TIME({n})", TIMES) for n in range(7)),
    *(Case(f"TIMESTAMP({n}) NULL", TIMESTAMPS) for n in range(7)),
    Case("TIMESTAMP NULL", ["'2106-02-07 06:28:15'"], on=("mariadb118",)),
    Case("VARCHAR(63) CHARACTER SET utf8mb4", TEXTS),
    Case("VARCHAR(255) CHARACTER SET utf8mb4", WIDE_TEXTS),
    Case("VARCHAR(300) CHARACTER SET utf8mb3", [*TEXTS, "REPEAT('€', 300)"]),
    *(
        Case(f"CHAR({n}) CHARACTER SET utf8mb4", [*WIDE_TEXTS[:-2], f"REPEAT('€', {n})"])
        for n in (60, 63, 64, 65, 73, 81, 255)
    ),
    Case("CHAR(0)", ["''"]),
    Case("CHAR(20) CHARACTER SET latin1", ["X'41E4F6FC80'", "'a  '", "''"]),
    Case("VARCHAR(255) CHARACTER SET latin1", LATIN),
    Case("TEXT CHARACTER SET latin1", LATIN),
    Case("VARCHAR(50) CHARACTER SET ascii", ["'abc'", "''"]),
    Case("VARCHAR(50) CHARACTER SET utf16", ["'aé€😀'", "''"]),
    Case("CHAR(10) CHARACTER SET utf16", ["'aé€😀'", "''"]),
    Case("VARCHAR(50) CHARACTER SET utf16le", ["'aé€😀'"]),
    Case("VARCHAR(50) CHARACTER SET utf32", ["'aé€😀'"]),
    Case("VARCHAR(50) CHARACTER SET ucs2", ["'aé€'"]),
    Case("VARCHAR(50) CHARACTER SET sjis", ["'日本語ｶﾅ\\\\~'"]),
    Case("VARCHAR(50) CHARACTER SET cp932", ["'日本語①～'"]),
    Case("VARCHAR(50) CHARACTER SET gbk", ["'中文€'"]),
    Case("VARCHAR(50) CHARACTER SET gb18030", ["'中文😀ḿ'"], on=MYSQL),
    Case("VARCHAR(50) CHARACTER SET ujis", ["'日本語ｶﾅ仡'"]),
    Case("VARCHAR(50) CHARACTER SET eucjpms", ["'日本語①仡'"]),
    Case("VARCHAR(50) CHARACTER SET euckr", ["'한국어갂'"]),
    Case("VARCHAR(50) CHARACTER SET koi8r", ["'Привет'"]),
    Case("VARCHAR(50) CHARACTER SET keybcs2", ["'Čeština'"]),
    *(Case(kind, ["'abc'", "''", "REPEAT('€', 80)"]) for kind in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")),
    Case("MEDIUMTEXT CHARACTER SET utf8mb4", ["REPEAT('x', 70000)"]),
    Case("BINARY(5)", BYTES),
    Case("BINARY(255)", BYTES),
    Case("VARBINARY(20)", BYTES),
    Case("VARBINARY(300)", [*BYTES, "REPEAT(X'00', 300)"]),
    *(Case(kind, BYTES) for kind in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")),
    Case("LONGBLOB", ["REPEAT(X'0A', 300000)"]),
    Case("ENUM('a','it''s','x,y','é','')", ["1", "2", "3", "4", "5", "0", "'a'"]),
    Case("ENUM('é','ß') CHARACTER SET latin1", ["1", "2"]),
    Case("ENUM(" + ",".join(f"'v{n}'" for n in range(300)) + ")", ["1", "256", "300"]),
    Case("SET('a','it''s','c')", ["1", "5", "7", "0", "''"]),
    Case("SET(" + ",".join(f"'v{n}'" for n in range(64)) + ")", ["1", "1<<63", "18446744073709551615"]),
    Case("SET(" + ",".join(f"'v{n}'" for n in range(20)) + ")", ["1<<19", "(1<<20)-1"]),
    Case("JSON", JSONS, on=MYSQL),
    Case("JSON", [DOCUMENT, "'[]'", "'{\"a\":  1.10}'"], on=MARIADB),
    Case("GEOMETRY", ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')"]),
    Case("POINT", ["ST_GeomFromText('POINT(-1.5 2)')"]),
    Case("VECTOR(3)", ["STRING_TO_VECTOR('[1,2.5,-3]')"], on=MYSQL),
    Case("VECTOR(3)", ["VEC_FromText('[1,2.5,-3]')"], on=("mariadb118",)),
    Case("UUID", ["'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'",
                  "'01890a5d-ac96-774b-bcce-b302099a8057'"], on=MARIADB, told=False),
    Case("INET6", ["'2001:db8::ff00:42:8329'", "'::'", "'::1.2.3.4'", "'::ffff:192.0.2.1'", "'1:0:0:2::3'", "'::1'",
                   "'0:0:0:1::'", "'1::'"], on=MARIADB, told=False),
    Case("INET4", ["'192.0.2.1'", "'0.0.0.0'", "'1.0.0.0'"], on=MARIADB, told=False),
]  # fmt: skip
INTEGERS = ("TINYINT", "BOOL", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR")
BINARIES = ("BIT", "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "GEOMETRY", "POINT", "VECTOR")
