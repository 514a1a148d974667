"""Values that the lake cannot represent stop the export with a fatal error; the transaction is not in the lake."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from relay.errors import RelayError, StopCode
from relay.journal.frames import Column, Definition
from relay.lake.exporter import Exporter, Settings
from relay.lake.storage import open_storage
from tests.support.exported_lake import Lake, changes
from tests.support.journal_builder import ID, INSERT, NAME, NOON, Made, body, column, row


def lacks_a_column(made: Made) -> None:
    made.writer.rows(made.table, INSERT, 500, NOON, 1, b"\2\1\0" + struct.pack("<i", 2))


def has_a_number_that_no_label_has(made: Made) -> None:
    broken = made.define(ID, column("colour", 247, 1, "", ("red",)))
    made.rows(INSERT, b"\0\2\0\0\0\7", table=broken)


def has_bytes_that_are_no_decimal(made: Made) -> None:
    broken = made.define(ID, column("price", 246, 9 << 8))
    made.rows(INSERT, b"\0\2\0\0\0" + b"\xff\xff\xff\xff", table=broken)


def has_names_that_are_not_proven(made: Made) -> None:
    columns = [column("@1", 3), column("@2", 247, 1)]
    unproven = made.writer.define(msgspec.msgpack.encode(Definition("shop", "t", 2, 1, 1, False, columns)))
    made.writer.rows(unproven, INSERT, 500, NOON, 1, body(INSERT, 2, b"\0\2\0\0\0\1"))


REFUSED: dict[Callable[[Made], None], tuple[StopCode, str]] = {
    lacks_a_column: (StopCode.PARTIAL_IMAGE, "do not hold all columns"),
    has_a_number_that_no_label_has: (StopCode.UNSUPPORTED_COLUMN, "colour of shop.t"),
    has_bytes_that_are_no_decimal: (StopCode.UNSUPPORTED_COLUMN, "price of shop.t"),
    has_names_that_are_not_proven: (StopCode.SCHEMA_UNPROVEN, "are unproven"),
}


def export(made: Made, lake: Lake, **settings: Any) -> None:
    """All that is flushed."""
    engine = Exporter(open_storage(str(lake.folder)), made.folder, Settings(**settings))
    while not engine.step(roll=True).caught_up:
        pass


@pytest.mark.parametrize(("broken", "told"), REFUSED.items(), ids=lambda given: getattr(given, "__name__", ""))
def test_a_row_that_is_not_whole_and_certain_stops_the_export_by_name(
    made: Made, lake: Lake, broken: Callable[[Made], None], told: tuple[StopCode, str]
) -> None:
    made.inserted(1)
    made.flush()
    export(made, lake)
    made.rows(INSERT, row(7))
    broken(made)
    made.commit()
    made.flush()
    for _ in range(2):
        with pytest.raises(RelayError) as stopped:
            export(made, lake)
        assert stopped.value.code is told[0] and told[1] in str(stopped.value) and "shop.t" in str(stopped.value)
    assert changes(lake.rows("shop", "t"), "id") == [("insert", 1)]
    export(made, lake, tables=["shop.other"])
    assert lake.table("shop", "t").complete_from is None


@pytest.mark.parametrize(
    ("before", "key"),
    [((column("n", 3), NAME), ["id"]), ((ID, column("name", 254, 80, "binary")), ["id"])],
    ids=["a key", "types that are not wider"],
)
def test_columns_that_no_statement_was_seen_to_give_are_a_reset(
    made: Made, lake: Lake, before: tuple[Column, Column], key: list[str]
) -> None:
    old = made.define(*before, table="k")
    new = made.define(ID, NAME, table="k", version=2)
    made.statement("CREATE TABLE k (n INT)")
    made.rows(INSERT, row(1), row(1), table=old)
    made.commit()
    made.flush()
    export(made, lake)
    assert lake.table("shop", "k").complete_from == 1
    made.inserted(7)  # of another table
    for number in (2, 3):
        made.rows(INSERT, row(number), table=new)
        made.commit()
    made.flush()
    export(made, lake)
    known = lake.table("shop", "k")
    assert (known.version.key, known.last_marker, known.reset, known.complete_from) == (key, "reset", 4, None)
    lake.check()


def test_positional_names_are_exported_where_they_are_asked_for(made: Made, lake: Lake) -> None:
    has_names_that_are_not_proven(made)
    made.commit()
    made.flush()
    export(made, lake, positional=True)
    assert changes(lake.rows("shop", "t"), "@1", "@2") == [("insert", 2, 1)]
