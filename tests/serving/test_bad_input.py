"""Invalid input of clients: each gets its defined reply or is closed, others are not affected, memory stays bounded."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Reply, Result
from tests.support.classic_client import KEY, PONG, Client, many, parse_many
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience, until

HEADER = struct.Struct("<HHIIIIIII")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One server, so that whoever notices is noticed."""
    with Serving(tmp_path_factory.mktemp("bad"), workers=1) as running:
        yield running


@pytest.fixture
def bystander(serving: Serving) -> Iterator[Client]:
    """A client that must be served before and after."""
    client = serving.client("bystander", "shop.orders")
    serving.insert((1, "before"))
    assert client.poll()["after"]["word"] == "before"
    yield client
    serving.insert((2, "after"))
    assert client.poll()["after"]["word"] == "after"
    assert client.ask(Command.POLL).result == Result.EMPTY


def memory(serving: Serving) -> int:
    """Bytes that the server has resident and to itself."""
    fields = Path(f"/proc/{serving.pid('server-0')}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * 4096


def header(command: int, size: int = 0, checksum: int | None = None, version: int = 0x00010020) -> bytes:
    """A request's header; right in itself unless told otherwise."""
    total = (command + size + version) % 2**32
    return HEADER.pack(command, 0, size, version, 0, 0, total if checksum is None else checksum, 0, 0)


def until_closed(client: Client) -> list[Reply]:
    """Every reply until the relay closes the connection."""
    replies = []
    while True:
        try:
            replies.append(client.receive())
        except (EOFError, ConnectionResetError):
            return replies


@pytest.mark.usefixtures("bystander")
def test_wrong_checksum_is_told_and_closed(serving: Serving) -> None:
    client = serving.connect()
    client.sock.sendall(header(Command.PING, checksum=1) + header(Command.PING))
    assert until_closed(client) == [Reply(Result.ERROR, b"Invalid Checksum\0")]


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("size", [0x7FFFFFFF, 0xFFFFFFFF, 64 * 1024 * 1024 + 1])
@pytest.mark.parametrize("command", [Command.PING, Command.POLL, Command.AUTH, 99])
def test_oversize_is_told_and_closed(serving: Serving, command: int, size: int) -> None:
    client = serving.connect()
    client.sock.sendall(header(command, size) + b"x" * 1000)
    (reply,) = until_closed(client)
    assert reply.result == Result.ERROR
    assert f"payload of {size} bytes is too large" in reply.text


@pytest.mark.usefixtures("bystander")
def test_payload_that_has_to_be_kept_is_at_most_64_kib(serving: Serving) -> None:
    client = serving.connect()
    client.send(Command.AUTH, classic.encode_auth(KEY, "padded") + bytes(65000))
    assert client.receive().result == Result.OK
    client.send(Command.ADD_FILTER, bytes(65537))
    assert "too large" in until_closed(client)[0].text


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("command", [0, 9, 99, 0x00FF, max(Command) + 1, 0xFFFF])
@pytest.mark.parametrize("known", [False, True])
def test_unknown_command_is_told(serving: Serving, command: int, known: bool) -> None:
    client = serving.client("unknown") if known else serving.connect()
    assert client.ask(command, b"anything") == Reply(Result.ERROR, f"unknown command {command}\0".encode())
    assert client.ask(Command.PING) == PONG


@pytest.mark.parametrize("version", [0, 0x00020000, 0xFFFFFFFF])
def test_another_major_version_is_told(serving: Serving, version: int) -> None:
    client = serving.connect()
    reply = client.ask(Command.PING, version=version)
    assert reply.result == Result.ERROR
    assert "unsupported protocol version" in reply.text
    assert client.ask(Command.PING, version=0x0001FFFF) == PONG


@pytest.mark.usefixtures("bystander")
def test_header_and_payload_may_come_byte_by_byte(serving: Serving) -> None:
    client = serving.connect()
    for at, byte in enumerate(classic.encode_request(Command.AUTH, classic.encode_auth(KEY, "slow"))):
        client.sock.sendall(bytes([byte]))
        time.sleep(1.5 if at == 31 else 0.001)  # long after the header
    assert client.receive().result == Result.OK


@pytest.mark.usefixtures("bystander")
def test_client_that_leaves_in_the_middle_is_forgotten(serving: Serving) -> None:
    for size in (1, 31, 32, 40):
        client = serving.connect()
        client.sock.sendall(classic.encode_request(Command.AUTH, classic.encode_auth(KEY, "gone"))[:size])
        client.close()
    reset = serving.connect()
    reset.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.send(Command.PING)
    reset.close()


@pytest.mark.usefixtures("bystander")
def test_replies_reach_a_client_that_has_shut_down_its_side(serving: Serving) -> None:
    client = serving.client("half", "half.t")
    client.send(Command.PING)
    client.send(Command.LIST_FILTERS)
    client.send(*many(wait=patience(30)))
    client.sock.shutdown(socket.SHUT_WR)
    assert [reply.result for reply in until_closed(client)] == [0, 0, 0]


@pytest.mark.usefixtures("bystander")
def test_garbage_is_answered_or_closed(serving: Serving) -> None:
    rng = random.Random(1)
    for _ in range(200):
        client = serving.connect()
        client.sock.sendall(rng.randbytes(rng.randint(1, 300)))
        client.sock.shutdown(socket.SHUT_WR)
        for reply in until_closed(client):
            assert reply.result == Result.ERROR
            assert reply.payload.endswith(b"\0")


@pytest.mark.usefixtures("bystander")
def test_malformed_payloads_are_told_and_harm_nobody(serving: Serving) -> None:
    rng = random.Random(2)
    client = serving.client("malformed")
    for command in (Command.ADD_FILTER, Command.REMOVE_FILTER, Command.POLL_MANY, Command.AUTH):
        for _ in range(100):
            reply = client.ask(command, rng.randbytes(rng.randint(0, 60)))
            assert reply.result in (Result.OK, Result.ERROR)
    assert client.ask(Command.PING) == PONG


@pytest.mark.parametrize(
    "payload", [b'{"client": "\xff"}', b"\xff", b"[" * 60_000, b'{"client": 1e999}', b'{"client": "\\ud800"}']
)
def test_malformed_payloads_of_admin_commands_are_told_and_harm_nobody(serving: Serving, payload: bytes) -> None:
    client = serving.client("bystander")
    key = classic_keys.fnv1a64(ADMIN_SECRET.encode())
    for command in (Command.FORGET_CLIENT, Command.SEEK_CLIENT, Command.LIST_CLIENTS, Command.EXPLAIN):
        admin = serving.connect()
        admin.sock.sendall(classic.encode_admin_request(command, key, payload))
        reply = admin.receive()
        assert (reply.result, reply.text.startswith(command.name)) == (Result.ERROR, True), reply
        admin.close()
    assert client.ask(Command.PING) == PONG


def flood(client: Client, request: bytes) -> int:
    """Send until the relay takes no more for a while; how many bytes it took."""
    client.sock.settimeout(1.0)
    sent = 0
    try:
        while sent < 200_000_000:
            sent += client.sock.send(request)
    except TimeoutError:
        return sent
    raise AssertionError("the relay takes everything")


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("what", ["pings", "polls"])
def test_client_that_never_reads_is_not_read_from_either(serving: Serving, what: str) -> None:
    client = serving.client(f"deaf-{what}", f"deaf-{what}.t")
    serving.insert_long(*((number, "w" * 10_000) for number in range(90)), schema=f"deaf-{what}", table="t")
    before = memory(serving)
    ping = classic.encode_request(Command.PING)
    poll = classic.encode_request(Command.POLL, client_id=client.client_id, token=client.token)
    flood(client, (ping if what == "pings" else poll) * 1000)
    assert memory(serving) - before < 4_000_000


@pytest.mark.usefixtures("bystander")
def test_payloads_that_are_ignored_are_not_kept(serving: Serving) -> None:
    before = memory(serving)
    clients = [serving.connect() for _ in range(8)]
    for client in clients:
        client.sock.sendall(header(Command.PING, 60_000_000))
    for _ in range(300):
        for client in clients:
            client.sock.sendall(bytes(20_000))
    assert memory(serving) - before < 4_000_000


@pytest.mark.usefixtures("bystander")
def test_requests_behind_one_that_waits_are_bounded(serving: Serving) -> None:
    client = serving.client("impatient", "impatient.t")
    before = memory(serving)
    client.send(*many(wait=patience(30)))
    assert flood(client, classic.encode_request(Command.PING) * 1000) < 20_000_000
    assert memory(serving) - before < 4_000_000
    serving.insert((1, "x"), schema="impatient", table="t")
    assert len(parse_many(client.receive().payload)) == 1
    assert client.receive() == PONG


@pytest.mark.usefixtures("bystander")
def test_thousand_connections_that_say_nothing_are_served_when_they_do(serving: Serving) -> None:
    clients = [serving.connect() for _ in range(1000)]
    assert serving.client("busy").ask(Command.PING) == PONG
    for client in clients:
        client.send(Command.PING)
    assert all(client.receive() == PONG for client in clients)
    for client in clients:
        client.close()


def test_two_clients_that_fight_for_a_name_get_every_row(serving: Serving) -> None:
    serving.client("fought-for", "fought.t")
    serving.insert(*((number, "x") for number in range(40)), schema="fought", table="t")
    seen: list[int] = []
    for turn in range(40):
        client = serving.client("fought-for")
        seen.append(client.poll()["id"])
        if turn % 2:
            assert client.ask(Command.POLL).result == Result.OK
            seen.append(seen[-1] + 1)
            seen.append(client.poll()["id"])
            client.ask(*many(rows=0, confirmed=client.poll_many(rows=1, confirmed=0)[0][0]))
        if seen[-1] >= 38:
            break
    assert sorted(set(seen)) == list(range(seen[-1] + 1))
    assert seen == sorted(seen)


def test_row_that_cannot_be_decoded_is_counted_and_skipped(serving: Serving) -> None:
    client = serving.client("skips", "skips.t")
    serving.insert((1, "x"), schema="skips", table="t")
    serving.insert_damaged(schema="skips", table="t")
    serving.insert((3, "z"), schema="skips", table="t")
    assert client.ids(2) == [1, 3]
    assert client.ask(Command.POLL).result == Result.EMPTY
    stats = serving.stats(client)
    assert (stats["dropped"]["undecodable"], stats["confirmed"], stats["in_flight"]) == (1, 2, 0)


@pytest.mark.parametrize("poll", [lambda c: c.ask(Command.POLL), lambda c: c.ask(*many(wait=patience(5), confirmed=1))])
def test_row_beyond_the_cap_of_replies_is_told_and_kept(tmp_path: Path, poll: Callable[[Client], Reply]) -> None:
    with Serving(tmp_path, workers=1, Relay__MaxBufferedBytes="64KiB") as serving:
        client = serving.client("a", "shop.essays")
        serving.insert_long((1, "small"), (2, "w" * 100_000))
        assert client.poll()["id"] == 1

        def replied() -> Reply | None:
            reply = poll(client)
            return None if reply.result == Result.EMPTY else reply

        reply: Reply = until(replied, pause=0)
        assert reply.result == Result.ERROR
        assert "more than MaxBufferedBytes" in reply.text
        assert client.ask(Command.PING) == PONG
        assert serving.stats(client)["waiting"] == 1
