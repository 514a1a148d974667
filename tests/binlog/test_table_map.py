"""Table maps are read with all their metadata, and missing metadata stays unknown."""

import contextlib
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.binlog.events.column_types import Type, sql_type
from relay.binlog.events.table_maps import definition, parse, provisional
from relay.errors import RelayError, StopCode

CHARSETS = {8: "latin1", 45: "utf8mb4", 54: "utf16", 255: "utf8mb4"}


def table_map(columns: Sequence[tuple[int, bytes]], optional: bytes = b"", nullable: int = 0) -> bytes:
    types = bytes(kind for kind, _ in columns)
    metadata = b"".join(data for _, data in columns)
    return (
        struct.pack("<IHH", 7, 0, 1)
        + b"\x04shop\0\x05users\0"
        + bytes([len(types)])
        + types
        + bytes([len(metadata)])
        + metadata
        + nullable.to_bytes((len(types) + 7) // 8, "little")
        + optional
    )


def field(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value)]) + value


def names(*texts: str) -> bytes:
    return field(4, b"".join(bytes([len(text.encode())]) + text.encode() for text in texts))


def test_full_metadata_gives_everything() -> None:
    body = table_map(
        [
            (Type.LONG, b""), (Type.YEAR, b""), (Type.NEWDECIMAL, b"\x0a\x02"), (Type.VARCHAR, b"\x28\x00"),
            (Type.STRING, b"\xf7\x01"), (Type.STRING, b"\xf8\x01"), (Type.STRING, b"\xfe\x10"), (Type.BLOB, b"\x02"),
        ],
        field(1, bytes([0b11000000])) + field(2, b"\x2d\x01\x3f\x02\x08") + names("id", "y", "d", "a", "e", "s", "b",
        "t")
        + field(6, b"\x02\x01x\x01\xe9") + field(5, b"\x01\x02\0z") + field(8, b"\0") + field(11, b"\x08\x36"),
        nullable=0b11111110,
    )  # fmt: skip
    table = definition(parse(body), CHARSETS)
    assert (table.schema, table.table, table.proven) == ("shop", "users", True)
    assert [column.name for column in table.columns] == ["id", "y", "d", "a", "e", "s", "b", "t"]
    assert [column.sql_type for column in table.columns] == [
        "int unsigned", "year", "decimal(10,2)", "varchar(10)", "enum('x','é')", "set('z')", "binary(16)", "text",
    ]  # fmt: skip
    assert [column.charset for column in table.columns] == ["", "", "", "utf8mb4", "", "", "binary", "latin1"]
    assert [column.primary for column in table.columns] == [True] + [False] * 7
    assert [column.nullable for column in table.columns] == [False] + [True] * 7
    assert table.columns[4].type == Type.ENUM
    assert table.columns[2].meta == 10 << 8 | 2


def test_the_servers_default_gives_positions_for_names() -> None:
    table = provisional(parse(table_map([(Type.LONG, b""), (Type.VARCHAR, b"\x28\x00")])), CHARSETS)
    assert not table.proven
    assert [column.name for column in table.columns] == ["@1", "@2"]
    assert table.columns[1].charset == "binary"


def test_a_key_by_prefix_is_a_key() -> None:
    body = table_map(
        [(Type.LONG, b""), (Type.BLOB, b"\x02")], names("a", "b") + field(2, b"\x2d") + field(9, b"\x01\x0a")
    )
    assert [column.primary for column in definition(parse(body), CHARSETS).columns] == [False, True]


@pytest.mark.parametrize(
    ("kind", "data", "real", "meta"),
    [
        (Type.STRING, b"\xee\xfc", Type.STRING, 0x1FC), (Type.STRING, b"\xfe\xff", Type.STRING, 255),
        (Type.STRING, b"\xf7\x02", Type.ENUM, 2), (Type.STRING, b"\xf8\x08", Type.SET, 8), (Type.BIT, b"\x03\x01",
        Type.BIT, 11),
        (Type.VARCHAR, b"\xff\xff", Type.VARCHAR, 65535), (Type.TIMESTAMP2, b"\x03", Type.TIMESTAMP2, 3),
        (Type.GEOMETRY, b"\x04", Type.GEOMETRY, 4), (Type.VECTOR, b"\x04", Type.VECTOR, 4), (Type.DOUBLE, b"\x08",
        Type.DOUBLE, 8),
    ],
)  # fmt: skip
def test_types_are_real_and_metadata_normalised(kind: int, data: bytes, real: int, meta: int) -> None:
    column = parse(table_map([(kind, data)])).columns[0]
    assert (column.type, column.meta) == (real, meta)


@pytest.mark.parametrize(("kind", "data"), [(20, b""), (0, b""), (6, b""), (99, b"")])
def test_a_type_that_cannot_be_read_is_refused_by_name(kind: int, data: bytes) -> None:
    with pytest.raises(RelayError) as refused:
        parse(table_map([(Type.LONG, b""), (kind, data)]), "binlog.000001:4")
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert "@2 of shop.users" in str(refused.value)
    assert "binlog.000001:4" in str(refused.value)


def test_compressed_columns_have_their_own_types_and_a_character_set() -> None:
    columns = [(Type.BLOB_COMPRESSED, b"\x02"), (Type.VARCHAR_COMPRESSED, b"\x29\x00"), (Type.VARCHAR, b"\x28\x00")]
    body = table_map(columns, names("a", "b", "c") + field(3, b"\x3f\x2d\x08"))
    found = definition(parse(body), CHARSETS).columns
    assert [(column.type, column.charset, column.sql_type) for column in found] == [
        (140, "binary", "blob /*M!100301 COMPRESSED*/"),
        (141, "utf8mb4", "varchar(10) /*M!100301 COMPRESSED*/"),
        (15, "latin1", "varchar(40)"),
    ]


def test_a_charset_that_is_not_listed_is_refused_by_name() -> None:
    body = table_map([(Type.VARCHAR, b"\x28\x00")], names("a") + field(3, b"\x63"))
    with pytest.raises(RelayError) as refused:
        definition(parse(body), CHARSETS)
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert "collation 99" in str(refused.value)


def test_metadata_of_a_kind_not_known_is_passed_over() -> None:
    body = table_map([(Type.LONG, b"")], field(77, b"whatever") + names("a"))
    assert definition(parse(body), CHARSETS).columns[0].name == "a"


def test_a_geometry_and_a_vector_say_what_they_are() -> None:
    columns = [(Type.GEOMETRY, b"\x04"), (Type.VECTOR, b"\x04")]
    body = table_map(columns, names("g", "v") + field(7, b"\x01") + field(13, b"\x10"))
    first, second = parse(body).columns
    assert sql_type(first, "", []) == "point"
    assert sql_type(second, "", []) == "vector(16)"


@pytest.mark.parametrize(("shape", "mariadb"), [(Type.GEOMETRY, True), (Type.VECTOR, False)])
@pytest.mark.parametrize("collations", [field(3, b"\x3f\x08\x2d"), field(2, b"\x2d\x00\x3f\x01\x08")])
def test_what_a_server_counts_as_text_does_not_shift_the_character_sets(
    shape: int, mariadb: bool, collations: bytes
) -> None:
    columns = [(shape, b"\x04"), (Type.VARCHAR, b"\x28\x00"), (Type.BLOB, b"\x02")]
    found = parse(table_map(columns, names("g", "a", "b") + collations), mariadb=mariadb)
    assert [column.charset for column in definition(found, CHARSETS).columns] == ["", "latin1", "utf8mb4"]


@pytest.mark.parametrize(("shape", "mariadb"), [(Type.GEOMETRY, False), (Type.VECTOR, True)])
def test_what_a_server_counts_as_no_text_has_no_character_set(shape: int, mariadb: bool) -> None:
    columns = [(shape, b"\x04"), (Type.VARCHAR, b"\x28\x00"), (Type.BLOB, b"\x02")]
    found = parse(table_map(columns, names("g", "a", "b") + field(3, b"\x08\x2d")), mariadb=mariadb)
    assert [column.charset for column in definition(found, CHARSETS).columns] == ["", "latin1", "utf8mb4"]


@given(st.integers(0, 80), st.binary(max_size=40))
def test_damage_is_an_error_and_nothing_worse(cut: int, tail: bytes) -> None:
    body = table_map([(Type.LONG, b""), (Type.VARCHAR, b"\x28\x00")], names("a", "b") + field(2, b"\x2d"))
    with contextlib.suppress(RelayError):
        definition(parse(body[:cut] + tail), CHARSETS)
