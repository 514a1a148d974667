"""Polls of one row and of many: their rows, limits and waiting."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from relay.protocol import classic
from relay.protocol.classic import Command, Reply, Result
from tests.support.classic_client import KEY, PONG, many, parse_many, parse_row
from tests.support.server_processes import Serving
from tests.support.waiting import patience


def test_poll_of_nothing_is_empty(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    assert client.ask(Command.POLL) == Reply(Result.EMPTY, b"")
    assert client.ask(Command.POLL_V2) == Reply(Result.EMPTY, b"")


def test_row_has_position_queue_size_and_values(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    serving.insert((1, "naïve"), (2, None), (-3, ""), schema=name, table="t")
    rows = [client.poll() for _ in range(3)]
    assert [row["queue_size"] for row in rows] == [2, 1, 0]
    assert [row["after"] for row in rows] == [
        {"id": "1", "word": "naïve"},
        {"id": "2", "word": "NULL"},
        {"id": "-3", "word": ""},
    ]
    assert len({row["position"] for row in rows}) == 1


def test_poll_v2_has_stable_ids_that_are_not_zero(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    serving.insert((1, "x"), (2, "y"), schema=name, table="t")
    client.poll()
    row = parse_row(client.ask(Command.POLL_V2).payload, version=2)
    assert row["id"] == 2
    assert row["names"] == {"id": 11, "word": 12}
    assert row["instance"] >= 700
    assert row["schema_id"] > 0
    assert row["table_id"] > 100


def test_php_class_works_unchanged(serving: Serving, name: str) -> None:
    """It pings first, sends the previous reply's payload with each poll, and reads a reply's payload once."""
    serving.client(name, f"{name}.t")
    sock = socket.create_connection(("127.0.0.1", serving.port), patience(20))

    def ask(command: int, payload: bytes, client_id: int = 0, token: int = 0) -> tuple[int, bytes]:
        sock.sendall(classic.encode_request(command, payload, client_id=client_id, token=token, version=0x00010004))
        header = sock.recv(9)
        result, size, checksum = struct.unpack("<BII", header)
        body = sock.recv(size) if size else b""
        assert checksum == (result + size + sum(body)) % 2**32
        return result, body

    assert ask(Command.PING, b"") == (0, b"PONG\0")
    key = KEY & 0x7FFFFFFFFFFFFFFF
    result, body = ask(Command.AUTH, struct.pack("<QIII", key, 0, 0, len(name) + 1) + name.encode() + b"\0")
    assert result == 0
    token, client_id = struct.unpack_from("<II", body, 8)
    assert ask(Command.POLL, body, client_id, token)[0] == Result.EMPTY
    rows = [(number, "w" * (2000 * number)) for number in range(1, 16)]
    serving.insert_long(*rows, schema=name, table="t")
    serving.settle()
    buffer = b""
    for number, word in rows:
        result, buffer = ask(Command.POLL, buffer, client_id, token)
        row = parse_row(buffer)
        assert (result, row["after"]) == (0, {"id": str(number), "word": word})
    assert ask(Command.POLL, buffer, client_id, token)[0] == Result.EMPTY


def test_large_row_arrives_whole_at_a_slow_reader(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    word = "0123456789abcdef" * 400_000
    serving.insert_long((1, word), (2, "short"), schema=name, table="t")
    assert client.poll()["after"]["word"] == word
    assert client.poll()["after"]["word"] == "short"


def test_poll_many_returns_rows_with_sequences(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    serving.insert((1, "a"), (2, None), schema=name, table="t")
    rows = client.poll_many()
    if len(rows) == 1:
        rows += client.poll_many(confirmed=1)
    assert [(row[0], row[1], row[3], row[4], row[6], row[7]) for row in rows] == [
        (1, 1, name, "t", None, {"id": 1, "word": "a"}),
        (2, 1, name, "t", None, {"id": 2, "word": None}),
    ]
    serving.update(((1, "a"), (1, "b")), schema=name, table="t")
    serving.delete((1, "b"), schema=name, table="t")
    rows = []
    while len(rows) < 2:
        rows += client.poll_many(confirmed=2 + len(rows))
    assert [(row[0], row[1], row[6], row[7]) for row in rows] == [
        (3, 2, {"id": 1, "word": "a"}, {"id": 1, "word": "b"}),
        (4, 4, {"id": 1, "word": "b"}, None),
    ]


def test_poll_many_as_text_tells_null_from_its_text(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    serving.update(((1, None), (2, "NULL")), schema=name, table="t")
    reply = client.ask(*many(form=0, wait=patience(20)))
    count, sequence = struct.unpack_from("<IQ", reply.payload)
    row = parse_row(reply.payload, version=2, at=12)
    assert (count, sequence, row["before"]["word"], row["after"]["word"]) == (1, 1, "NULL", "NULL")
    assert reply.payload[row["end"] :] == b"\2\0"


def test_poll_many_keeps_to_its_limits(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    serving.insert(*((number, "w" * 100) for number in range(100)), schema=name, table="t")
    rows = client.poll_many(rows=7)
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    reply = client.ask(*many(confirmed=7, max_bytes=1000))
    assert 200 < len(reply.payload) <= 1000
    sequence = parse_many(reply.payload)[-1][0]
    reply = client.ask(*many(confirmed=sequence, max_bytes=1))
    assert [row[0] for row in parse_many(reply.payload)] == [sequence + 1]
    assert parse_many(client.ask(*many(rows=0, confirmed=sequence + 1)).payload) == []
    rows = client.poll_many(confirmed=0)
    while rows[-1][0] < 100:
        rows += client.poll_many(confirmed=rows[-1][0])
    assert [row[0] for row in rows] == list(range(sequence + 2, 101))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "payload of 0 bytes"),
        (bytes(22), "payload of 22 bytes"),
        (many(form=4)[1], "unknown format 4"),
    ],
)
def test_poll_many_refuses_what_it_does_not_know(serving: Serving, payload: bytes, text: str) -> None:
    client = serving.client("refused")
    reply = client.ask(Command.POLL_MANY, payload)
    assert reply.result == Result.ERROR
    assert text in reply.text


def test_poll_many_waits_for_rows(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    for number in range(20):
        client.send(*many(confirmed=number, wait=patience(20)))
        time.sleep(0.005 * (number % 3))
        serving.insert((number, "late"), schema=name, table="t")
        assert [row[7]["id"] for row in parse_many(client.receive().payload)] == [number]


def test_poll_many_that_waits_in_vain_is_answered_in_time(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    began = time.monotonic()
    assert client.ask(*many(wait=0.3)) == Reply(Result.OK, bytes(4))
    assert time.monotonic() - began >= 0.3
    assert client.ask(Command.PING) == PONG


def test_requests_behind_a_waiting_one_wait_too(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    client.send(*many(wait=patience(20)))
    client.send(Command.PING)
    client.send(Command.POLL)
    serving.insert((1, "x"), schema=name, table="t")
    assert len(parse_many(client.receive().payload)) == 1
    assert client.receive() == PONG
    assert client.receive().result == Result.EMPTY


def test_many_wait_at_once_and_each_gets_its_own(serving: Serving, name: str) -> None:
    clients = [serving.client(f"{name}-{number}", f"{name}.t{number}") for number in range(12)]
    for client in clients:
        client.send(*many(wait=patience(20)))
    for number in reversed(range(12)):
        serving.insert((number, "x"), schema=name, table=f"t{number}")
        assert parse_many(clients[number].receive().payload)[0][7]["id"] == number


def test_client_that_leaves_while_it_waits_loses_nothing(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    client.wait_for_rows()
    client.close()
    serving.insert((1, "x"), schema=name, table="t")
    assert serving.client(name).poll()["id"] == 1
