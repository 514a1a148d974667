"""A table with a column of every type of MySQL, with values of usual lengths, and many rows per event."""

from __future__ import annotations

SHORT, LONG = "CONCAT('text number ', n)", "CONCAT('a text of some length, with an ä and a €: ', n)"
BYTES, MOMENT = "UNHEX(SHA2(n, 256))", "'2026-01-01 00:00:00.123456' + INTERVAL n SECOND"
POINT, LINE = "POINT(n, -n / 8)", "LineString(POINT(0, n), POINT(n, 1))"
POLYGON = "Polygon(LineString(POINT(0, 0), POINT(n, 0), POINT(n, n), POINT(0, 0)))"
DOCUMENT = (
    "JSON_OBJECT('id', n, 'name', CONCAT('customer ', n), 'tags', JSON_ARRAY('a', TRUE, NULL, n / 7), 'x', n / 8e0)"
)
COLUMNS = {
    "TINYINT": "n % 200 - 100", "TINYINT UNSIGNED": "n % 256", "SMALLINT": "n % 60000 - 30000",
    "SMALLINT UNSIGNED": "n % 65536", "MEDIUMINT": "n * 7 - 4000000", "MEDIUMINT UNSIGNED": "n * 7",
    "INT": "n * 7919 - 1000000000", "INT UNSIGNED": "n * 7919", "BIGINT": "-n * 1000003000003",
    "BIGINT UNSIGNED": "n + 18000000000000000000", "INT(10) ZEROFILL": "n", "BOOL": "n % 2",
    "DECIMAL(10,2)": "n % 100000 / 100 - 300", "DECIMAL(30,10)": "n * 123456789.0123456789",
    "FLOAT": "n / 3", "DOUBLE": "n / 7", "FLOAT(7,4)": "n % 999 / 16", "DOUBLE(12,3)": "n / 16",
    "BIT(1)": "n % 2", "BIT(20)": "n", "BIT(64)": "n * 1000003",
    "YEAR": "1970 + n % 100", "DATE": "'2026-01-01' + INTERVAL n % 1000 DAY",
    "DATETIME": MOMENT, "DATETIME(3)": MOMENT, "DATETIME(6)": MOMENT, "TIMESTAMP": MOMENT, "TIMESTAMP(3)": MOMENT,
    "TIMESTAMP(6)": MOMENT, "TIME": "SEC_TO_TIME(n % 86400)", "TIME(3)": "SEC_TO_TIME(n % 86400 + 0.123)",
    "TIME(6)": "SEC_TO_TIME(n % 86400 + 0.123456)",
    "CHAR(24)": SHORT, "CHAR(24) CHARACTER SET latin1": SHORT, "VARCHAR(63)": LONG,
    "VARCHAR(300)": LONG, "VARCHAR(300) CHARACTER SET latin1": LONG, "TINYTEXT": SHORT, "TEXT": LONG,
    "TEXT CHARACTER SET latin1": LONG, "MEDIUMTEXT": LONG, "LONGTEXT": LONG,
    "BINARY(16)": f"LEFT({BYTES}, 16)", "VARBINARY(40)": BYTES, "TINYBLOB": BYTES, "BLOB": BYTES, "MEDIUMBLOB": BYTES,
    "LONGBLOB": BYTES, "ENUM('small','medium','large')": "1 + n % 3", "SET('red','green','blue')": "n % 8",
    "JSON": DOCUMENT, "GEOMETRY": POINT, "POINT": POINT, "LINESTRING": LINE, "POLYGON": POLYGON,
    "MULTIPOINT": f"MultiPoint({POINT}, POINT(1, 1))", "MULTILINESTRING": f"MultiLineString({LINE}, {LINE})",
    "MULTIPOLYGON": f"MultiPolygon({POLYGON})", "GEOMETRYCOLLECTION": f"GeometryCollection({POINT}, {LINE})",
}  # fmt: skip
"""The value in row n, by SQL type."""
VECTOR = {"VECTOR(4)": "STRING_TO_VECTOR(CONCAT('[0.5,', n, ',-1,', n / 4e0, ']'))"}
"""Separate, because mysql-replication stops at a table with such a column."""


def table(types: dict[str, str]) -> tuple[tuple[str, ...], str]:
    """Columns of a table with a key and these types, and the values of row n, as SQL."""
    columns = tuple(f"c{number} {sql}" for number, sql in enumerate(types))
    return ("id BIGINT PRIMARY KEY", *columns), ", ".join(["n", *types.values()])
