"""PollMany in format 2: rows as columns equal the other formats, and are delivered like them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import ipc

from examples.dbserver import DatabaseServer
from relay._native import Columns
from relay.client import RelayClient, Row
from relay.errors import ErrorCode, RelayError
from relay.protocol import classic
from relay.protocol.classic import Reply, Result
from tests.support.arrow_values import as_column
from tests.support.blocked import Blocked
from tests.support.classic_client import SECRET, Client, many
from tests.support.relay_process import SECRET as RELAY_SECRET
from tests.support.relay_process import RelayProcess
from tests.support.server_processes import Serving, image
from tests.support.waiting import patience, until
from tests.support.workload import Workload

Start = Callable[..., RelayProcess]
LEADING = ["_sequence", "_change_type", "_position"]


def connect(serving: Serving, name: str) -> RelayClient:
    """A client with a filter on the schema of its name."""
    client = RelayClient("127.0.0.1", serving.port, name, SECRET)
    client.add_filter(name)
    return client


def batches_of(reply: Reply) -> tuple[int, list[pa.RecordBatch]]:
    """The count of a reply in format 2 and its batches, each out of a stream of its own."""
    assert reply.result == Result.OK, reply
    streams = classic.parse_streams(reply.payload)
    batches = [batch for stream in streams for batch in ipc.open_stream(stream)]
    assert len(batches) == len(streams)
    for batch in batches:
        batch.validate(full=True)
    return struct.unpack_from("<I", reply.payload)[0], batches


def flat(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Rows of format 1 as format 2 has them: table, instance, sequence, change, position, values by column."""
    out: list[tuple[Any, ...]] = []
    for row in rows:
        head = (row.table, row.instance, row.sequence)
        if row.kind == "update":
            out.append((*head, "update_preimage", row.position, row.before))
            out.append((*head, "update_postimage", row.position, row.after))
        else:
            out.append((*head, row.kind, row.position, row.before or row.after))
    return out


def flat_columns(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The same of batches, in the order of the sequence."""
    out: list[tuple[Any, ...]] = []
    for batch in batches:
        assert batch.schema.names[:3] == LEADING
        metadata = batch.schema.metadata
        for row in batch.to_pylist():
            sequence, change, position = (row.pop(name) for name in LEADING)
            values = {name: value for name, value in row.items() if not name.endswith("__text")}
            out.append((metadata[b"table"].decode(), int(metadata[b"instance"]), sequence, change, position, values))
    return sorted(out, key=lambda row: row[2])


def all_columns(client: RelayClient, sequence: int, **limits: int) -> list[pa.RecordBatch]:
    """All batches up to the row with that sequence."""
    batches: list[pa.RecordBatch] = []
    last = 0
    while last < sequence:
        more = client.poll_arrow(wait=patience(20), **limits)
        assert more
        batches += more
        last = max(batch.column(0)[-1].as_py() for batch in more)
    return batches


def test_the_client_for_asyncio_gets_columns_and_confirms_them(serving: Serving) -> None:
    with Blocked.client("127.0.0.1", serving.port, "columns-asyncio", SECRET) as client:
        client.add_filter("asyncio")
        serving.insert((1, "one"), (2, None), schema="asyncio")
        table = pa.Table.from_batches(all_columns(client, 2))
        assert table.column("id").to_pylist() == [1, 2]
        assert client.poll_arrow() == []


def test_rows_are_flat_and_typed(serving: Serving) -> None:
    with connect(serving, "flat") as client:
        serving.insert((1, "one"), (2, None), schema="flat")
        serving.update(((1, "one"), (1, "uno")), schema="flat")
        serving.delete((2, None), schema="flat")
        table = pa.Table.from_batches(all_columns(client, 4))
    assert table.schema.types == [pa.uint64(), pa.string(), pa.uint64(), pa.int32(), pa.string()]
    metadata = table.schema.metadata
    assert (metadata[b"schema"], metadata[b"table"]) == (b"flat", b"orders") and int(metadata[b"instance"]) >= 700
    assert table.drop_columns("_position").to_pylist() == [
        {"_sequence": sequence, "_change_type": change, "id": number, "word": word}
        for sequence, change, number, word in [
            (1, "insert", 1, "one"),
            (2, "insert", 2, None),
            (3, "update_preimage", 1, "one"),
            (3, "update_postimage", 1, "uno"),
            (4, "delete", 2, None),
        ]
    ]
    assert table.column("_position").to_pylist() == sorted(table.column("_position").to_pylist())


def test_each_table_has_a_stream_in_the_order_of_first_rows(serving: Serving) -> None:
    client = serving.client("tables", "tables.b", "tables.a")
    for number, table in enumerate("babab"):
        serving.insert((number, table), schema="tables", table=table)
    settle(serving, client, 5)
    count, batches = batches_of(client.ask(*many(form=2)))
    assert count == 5
    assert [batch.schema.metadata[b"table"] for batch in batches] == [b"b", b"a"]
    assert [batch.column("_sequence").to_pylist() for batch in batches] == [[1, 3, 5], [2, 4]]


def settle(serving: Serving, client: Client, count: int) -> None:
    """Returns when so many rows wait for the client."""
    until(lambda: serving.stats(client)["waiting"] >= count)


def test_an_update_counts_once(serving: Serving) -> None:
    client = serving.client("counts", "counts.t")
    serving.update(((1, "a"), (1, "b")), ((2, "a"), (2, "b")), ((3, "a"), (3, "b")), schema="counts", table="t")
    settle(serving, client, 3)
    count, [batch] = batches_of(client.ask(*many(rows=2, form=2)))
    assert (count, batch.num_rows) == (2, 4)


def test_what_is_not_confirmed_comes_again_in_any_format(serving: Serving) -> None:
    client = serving.client("again", "again.t")
    serving.insert(*((number, "x") for number in range(1, 11)), schema="again", table="t")
    settle(serving, client, 10)
    for _ in range(2):
        _, [batch] = batches_of(client.ask(*many(rows=6, form=2)))
        assert batch.column("id").to_pylist() == [1, 2, 3, 4, 5, 6]
    second = serving.client("again")
    _, [batch] = batches_of(second.ask(*many(rows=6, confirmed=4, form=2)))
    assert batch.column("_sequence").to_pylist() == [5, 6]
    assert [row[0] for row in second.poll_many(rows=6, confirmed=5)] == [6]
    _, [batch] = batches_of(second.ask(*many(rows=6, confirmed=6, form=2)))
    assert batch.column("_sequence").to_pylist() == [7, 8, 9, 10]
    assert second.ask(*many(confirmed=10, form=2)).payload == bytes(8)
    assert second.ask(*many(rows=0, confirmed=10, form=2)).payload == bytes(8)
    assert serving.stats(second)["confirmed"] == 10


def test_client_confirms_what_it_asked_behind(serving: Serving) -> None:
    with connect(serving, "behind") as client:
        serving.insert(*((number, "x") for number in range(1, 6)), schema="behind", table="t")
        first = client.poll_arrow(2, wait=patience(20))
        assert pa.Table.from_batches(first).column("id").to_pylist() == [1, 2]
        row = client.poll(wait=patience(20))
        assert row and row.sequence == 3
    with connect(serving, "behind") as client:
        [batch] = client.poll_arrow(wait=patience(20))
        assert batch.column("id").to_pylist() == [4, 5]
        assert client.poll_arrow() == []


def test_poll_waits_for_rows(serving: Serving) -> None:
    client = serving.client("waits", "waits.t")
    client.send(*many(form=2, wait=patience(20)))
    client.send(*many(rows=0, form=2, confirmed=1))
    serving.insert((7, "x"), schema="waits", table="t")
    count, [batch] = batches_of(client.receive())
    assert (count, batch.column("id").to_pylist()) == (1, [7])
    assert client.receive().payload == bytes(8)


def test_reply_keeps_to_max_bytes_but_for_its_first_row(serving: Serving) -> None:
    client = serving.client("bytes", "bytes.t")
    serving.insert(*((number, "word " * (number % 17)) for number in range(1, 2001)), schema="bytes", table="t")
    settle(serving, client, 2000)
    last, replies = 0, 0
    while last < 2000:
        reply = client.ask(*many(rows=2000, confirmed=last, form=2, max_bytes=20_000))
        assert len(reply.payload) <= 20_000
        count, [batch] = batches_of(reply)
        assert batch.column("id").to_pylist() == list(range(last + 1, last + count + 1))
        last, replies = last + count, replies + 1
    assert 3 < replies < 40
    serving.insert((2001, "x" * 50), (2002, "y"), schema="bytes", table="t")
    settle(serving, client, 2)
    count, [batch] = batches_of(client.ask(*many(confirmed=2000, form=2, max_bytes=10)))
    assert (count, batch.column("id").to_pylist()) == (1, [2001])


@pytest.mark.parametrize("columns", [1, 7, 60])
def test_the_bound_that_limits_are_kept_by_is_one(columns: int) -> None:
    sorts: list[list[Any]] = [
        ["t", 0, 18, 6, False, True, False, "", [], "datetime(6)"],
        ["u", 0, 17, 6, False, True, False, "", [], "timestamp(6)"],
        ["d", 0, 246, 12 << 8 | 2, False, True, False, "", [], "decimal(12,2)"],
        ["s", 0, 248, 1, False, True, False, "", ["x", "y"], "set('x','y')"],
        ["w", 0, 15, 400, False, True, False, "utf8mb4", [], "varchar(100)"],
    ]
    table = [[f"{kind[0]}{number}", *kind[1:]] for number in range(columns) for kind in sorts]
    width = (len(table) + 7) // 8
    nothing, zeros = b"\xff" * width, bytes(width)
    # 2024-02-29 13:14:15.5, the zero timestamp, 12.5, both labels, "word"
    some = bytes.fromhex("99b2bad38f07a120") + bytes(7) + bytes.fromhex("800000000c32") + b"\3" + b"\4\0word"
    for rows in (1, 3, 100):
        made = Columns(packed(table))
        bare = made.stream_bytes
        body = bytes([len(table)]) if len(table) < 251 else b"\xfc" + struct.pack("<H", len(table))
        made.add(1, body + nothing + (zeros + some * columns) * rows + nothing * rows)
        bound = made.stream_bytes
        batch = pa.record_batch(made)
        batch.validate(full=True)
        assert batch.column("s0").to_pylist() == [["x", "y"]] * rows + [None] * rows
        assert batch.column("u0__text")[0].as_py() == "0000-00-00 00:00:00.000000"
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        assert bound - bare <= sink.getvalue().size <= bound


def test_row_that_cannot_be_decoded_is_passed_over_and_counted(serving: Serving) -> None:
    client = serving.client("damaged", "damaged.t")
    serving.insert((1, "x"), schema="damaged", table="t")
    serving.insert_damaged(schema="damaged", table="t")
    serving.insert((3, "x"), schema="damaged", table="t")
    settle(serving, client, 3)
    ids: list[int] = []
    while len(ids) < 2:
        _, [batch] = batches_of(client.ask(*many(confirmed=ids[-1] if ids else 0, form=2)))
        ids += batch.column("id").to_pylist()
    assert ids == [1, 3]
    assert serving.stats(client)["dropped"]["undecodable"] == 1


def test_a_table_whose_rows_stand_in_several_segments_has_one_stream(serving: Serving) -> None:
    client = serving.client("long", "long.t")
    for number in range(1, 7):
        serving.insert_long((number, "x" * 400_000), schema="long", table="t")
    settle(serving, client, 6)
    count, [batch] = batches_of(client.ask(*many(form=2)))
    assert (count, batch.column("id").to_pylist()) == (6, [1, 2, 3, 4, 5, 6])


def test_row_over_the_largest_reply_is_refused(tmp_path: Path) -> None:
    with Serving(tmp_path, Relay__MaxBufferedBytes="1MiB") as running:
        client = running.client("large", "large.t")
        running.insert_long((1, "x" * 600_000), (2, "x" * 600_000), (3, "x" * 1_200_000), schema="large", table="t")
        settle(running, client, 3)
        for number in (1, 2):
            _, [batch] = batches_of(client.ask(*many(confirmed=number - 1, form=2)))
            assert batch.column("id").to_pylist() == [number]
        refused = client.ask(*many(confirmed=2, form=2))
        assert refused.result == Result.ERROR and "MaxBufferedBytes" in refused.text


def test_at_most_once_never_repeats(tmp_path: Path) -> None:
    with Serving(tmp_path, Relay__Delivery="at-most-once") as running:
        client = running.client("once", "once.t")
        running.insert(*((number, "x") for number in range(1, 5)), schema="once", table="t")
        settle(running, client, 4)
        for expected in ([1, 2, 3], [4]):
            _, [batch] = batches_of(client.ask(*many(rows=3, form=2)))
            assert batch.column("id").to_pylist() == expected


def packed(columns: list[list[Any]]) -> bytes:
    """A definition of shop.t."""
    return msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, columns])


ID: list[Any] = ["id", 1, 3, 0, False, False, True, "", [], "int"]


def test_columns_that_an_image_leaves_out_are_null() -> None:
    columns = Columns(packed([ID, ["n", 2, 3, 0, False, True, False, "", [], "int"]]))
    columns.add(2, b"\2\1\3" + b"\0" + struct.pack("<i", 7) + b"\0" + struct.pack("<ii", 7, 8))
    columns.add(4, b"\2\2" + b"\0" + struct.pack("<i", 8))
    batch = pa.record_batch(columns)
    batch.validate(full=True)
    assert batch.select(["id", "n"]).to_pylist() == [{"id": 7, "n": None}, {"id": 7, "n": 8}, {"id": None, "n": 8}]


def test_columns_are_given_away_once() -> None:
    columns = Columns(packed([ID]))
    columns.add(1, b"\1\1\0" + struct.pack("<i", 5))
    with pytest.raises(ValueError, match="after row 1"):
        columns.add(1, b"\1\1\0" + struct.pack("<i", 5) + b"\0")
    assert pa.record_batch(columns).column("id").to_pylist() == [5]
    for use in (lambda: columns.add(1, b"\1\1\0" + bytes(4)), lambda: pa.record_batch(columns)):
        with pytest.raises(ValueError, match="exported already"):
            use()


def test_without_pyarrow_the_request_is_refused_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with Serving(tmp_path, workers=1) as running:
        monkeypatch.undo()
        client = running.client("poor", "poor.t")
        running.insert((1, "x"), schema="poor", table="t")
        for _ in range(2):
            reply = client.ask(*many(form=2, wait=patience(20)))
            assert reply.result == Result.ERROR and "pip install 'binlog-relay[arrow]'" in reply.text
        with pytest.raises(RelayError, match=r"binlog-relay\[arrow\]"), connect(running, "other") as other:
            other.poll_arrow()
        assert [row[7]["id"] for row in client.poll_many()] == [1]


def test_client_without_pyarrow_is_told(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(serving, "incomplete_metadata") as client:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(RelayError, match="pyarrow is not installed") as caught:
            client.poll_arrow()
    assert caught.value.code == ErrorCode.ENVIRONMENT and "[arrow]" in caught.value.hint


def test_images_of_long_columns_keep_their_bytes() -> None:
    words = ["x" * 300_000, "", "grün \U0001f600", None, "y" * 70_000]
    columns = Columns(packed([ID, ["word", 12, 252, 4, False, True, False, "utf8mb4", [], "longtext"]]))
    columns.add(1, b"\2\3" + b"".join(image((number, word), "<I") for number, word in enumerate(words)))
    assert pa.record_batch(columns).column("word").to_pylist() == words


@pytest.mark.parametrize("metadata", ["FULL", "default"])
def test_a_workload_with_ddl_is_the_same_in_both_formats(
    server: DatabaseServer, start_relay: Start, db: str, metadata: str, request: pytest.FixtureRequest
) -> None:
    if metadata == "FULL":
        request.getfixturevalue("full_metadata")
    relay = start_relay(server)
    clients = [RelayClient("127.0.0.1", relay.port, name, RELAY_SECRET) for name in ("rows", "columns")]
    for client in clients:
        client.add_filter(db)
    workload = Workload(server, db, seed=11, ddl=metadata == "FULL")
    workload.run(300)
    workload.close()
    rows: list[Row] = []
    while len(rows) < len(workload.changes):
        more = clients[0].poll_many(wait=patience(20))
        assert more
        rows += more
    batches = all_columns(clients[1], rows[-1].sequence, max_rows=5000)
    for batch in batches:
        batch.validate(full=True)
    expected = []
    kinds = {
        (batch.schema.metadata[b"table"].decode(), int(batch.schema.metadata[b"instance"])): batch.schema
        for batch in batches
    }
    for *head, values in flat(rows):
        schema = kinds[head[0], head[1]]
        expected.append((*head, {name: as_column(schema.field(name).type, value) for name, value in values.items()}))
    assert flat_columns(batches) == expected
    altered = {table for table, _ in kinds if sum(each == table for each, _ in kinds) > 1}
    assert altered if metadata == "FULL" else not altered
    for client in clients:
        client.confirm()
        client.close()
