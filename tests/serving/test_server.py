"""Server processes and their clients: permissions, replies, and that no client waits for another."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from pathlib import Path
from typing import TypedDict

import msgspec
import pytest

from relay.monitoring.stat import Stat
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, FilterName, Identity, Reply, Result, TableFilter
from tests.support.relay_process import process_cpu_seconds
from tests.support.server_processes import ADMIN_SECRET, KEY, SECRET, Client, Serving, many, parse_many, parse_row
from tests.support.waiting import patience

PONG = Reply(Result.OK, b"PONG\0")


class Ids(TypedDict):
    """What a request says of who sends it."""

    client_id: int
    token: int


# -- connections and authentication --


def test_ping_is_answered_before_and_after_authentication(serving: Serving, name: str) -> None:
    client = serving.connect()
    assert client.ask(Command.PING) == PONG
    assert client.ask(Command.PING, b"x" * 3_000_000, client_id=7, token=9) == PONG
    client.authenticate(name)
    assert client.ask(Command.PING) == PONG


@pytest.mark.parametrize("command", [3, 4, 5, 6, 7, 8])
def test_stranger_is_told_to_authenticate(serving: Serving, command: int) -> None:
    client = serving.connect()
    reply = client.ask(command, client_id=1)
    assert (reply.result, reply.text) == (Result.ERROR, "not authenticated: send Auth first")
    assert client.ask(Command.PING) == PONG


def test_auth_reply_echoes_the_key_and_gives_token_and_id(serving: Serving, name: str) -> None:
    client = serving.connect()
    reply = client.authenticate(name)
    identity = classic.parse_identity(reply.payload)
    assert identity.key == KEY
    assert identity.client_id > 0


def test_wrong_key_leaves_the_connection_open(serving: Serving, name: str) -> None:
    client = serving.connect()
    failed = client.authenticate(name, KEY ^ 1)
    assert failed == Reply(Result.ERROR, classic.encode_identity(Identity(KEY ^ 1, 0, 0)))
    assert client.ask(Command.POLL).text.startswith("not authenticated")
    assert client.authenticate(name).result == Result.OK


def test_all_four_keys_of_deployed_clients_log_in(serving: Serving, name: str) -> None:
    ids = set()
    for key in classic_keys.accepted_keys(SECRET.encode(), legacy=True):
        client = serving.connect()
        assert client.authenticate(name, key).result == Result.OK
        ids.add(client.client_id)
    assert len(ids) == 1


def test_commands_take_the_own_token_or_the_words_of_the_key_and_nothing_else(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    own: Ids = {"client_id": client.client_id, "token": client.token}
    words: Ids = {"client_id": KEY & 0xFFFFFFFF, "token": KEY >> 32}
    filters = classic.encode_filter(TableFilter(1, 0, 0, name, "u"))
    for ids in (own, words):
        assert client.ask(Command.POLL, **ids).result == Result.EMPTY
        assert client.ask(Command.ADD_FILTER, filters, **ids).result == Result.OK
    wrong: list[Ids] = [
        {"client_id": client.client_id, "token": client.token ^ 1},
        {"client_id": client.client_id + 1, "token": client.token},
        {"client_id": 0, "token": 0},
    ]
    for ids in wrong:
        for command in (Command.POLL, Command.POLL_V2, Command.POLL_MANY, Command.ADD_FILTER):
            assert client.ask(command, filters, **ids).text == "wrong ClientID or ClientToken"


def test_no_client_reads_the_queue_of_another(serving: Serving, name: str) -> None:
    victim = serving.client(name, f"{name}.t")
    thief = serving.client(name + "-thief")
    serving.insert((1, "secret"), schema=name, table="t")
    assert thief.ask(Command.POLL, client_id=victim.client_id, token=victim.token).result == Result.ERROR
    assert victim.poll()["id"] == 1


def test_login_can_change_on_a_connection(serving: Serving, name: str) -> None:
    client = serving.client(name + "-a", f"{name}.t")
    first = client.client_id
    assert client.authenticate(name + "-b").result == Result.OK
    assert client.client_id != first
    serving.insert((1, "one"), schema=name, table="t")
    again = serving.client(name + "-a")
    assert again.poll()["id"] == 1
    assert client.ask(Command.POLL).result == Result.EMPTY


def test_requests_sent_before_the_reply_to_auth_are_answered_wherever_the_client_belongs(
    serving: Serving, name: str
) -> None:
    serving.client(name + "-0", f"{name}.t")
    serving.client(name + "-1", f"{name}.t")
    words: Ids = {"client_id": KEY & 0xFFFFFFFF, "token": KEY >> 32}
    for each in ("-0", "-1"):
        client = serving.connect()
        client.sock.sendall(
            classic.encode_request(Command.PING)
            + classic.encode_request(Command.AUTH, classic.encode_auth(KEY, name + each))
            + classic.encode_request(Command.POLL, **words)
            + classic.encode_request(Command.LIST_FILTERS, **words)
            + classic.encode_request(Command.PING)
        )
        results = [client.receive() for _ in range(5)]
        assert [reply.result for reply in results] == [0, 0, Result.EMPTY, 0, 0]
        assert classic.parse_filters(results[3].payload)[0].schema == name


def test_thousands_of_requests_at_once_are_answered_in_order(serving: Serving, name: str) -> None:
    client = serving.client(name, f"{name}.t")
    serving.insert(*((number, "word") for number in range(500)), schema=name, table="t")
    assert client.poll()["id"] == 0
    ids: Ids = {"client_id": client.client_id, "token": client.token}
    ping, poll = classic.encode_request(Command.PING), classic.encode_request(Command.POLL, **ids)
    client.sock.sendall((ping * 3 + poll) * 499)
    for number in range(1, 500):
        assert [client.receive() for _ in range(3)] == [PONG] * 3
        assert parse_row(client.receive().payload)["id"] == number


def test_second_connection_of_a_name_takes_it_over(serving: Serving, name: str) -> None:
    first = serving.client(name, f"{name}.t")
    second = serving.client(name)
    serving.insert((1, "one"), schema=name, table="t")
    assert second.poll()["id"] == 1
    assert first.ask(Command.PING) == Reply(Result.DISCONNECTED, b"")
    assert first.closed()
    assert second.ask(Command.POLL).result == Result.EMPTY


def test_take_over_answers_the_one_that_waits_for_rows(serving: Serving, name: str) -> None:
    first = serving.client(name, f"{name}.t")
    first.send(*many(wait=patience(20)))
    serving.client(name)
    assert first.receive() == Reply(Result.DISCONNECTED, b"")
    assert first.closed()


@pytest.mark.parametrize("requests", [0, 2])
def test_a_login_that_was_given_up_takes_nothing_over(serving: Serving, name: str, requests: int) -> None:
    """The servers sleep while it comes and goes, as busy ones would."""
    client = serving.client(name, f"{name}.t")
    servers = [serving.pid(f"server-{index}") for index in range(2)]
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    late = serving.connect()
    late.sock.sendall(classic.encode_request(Command.AUTH, classic.encode_auth(KEY, name)))
    late.sock.sendall(classic.encode_request(Command.PING) * requests)
    late.sock.shutdown(socket.SHUT_WR)
    for pid in servers:
        os.kill(pid, signal.SIGCONT)
    refused = late.receive()
    assert (refused.result, refused.text) == (
        Result.ERROR,
        "the client has closed this connection, and has another one",
    )
    assert late.closed()
    assert client.ask(Command.PING) == PONG
    serving.insert((1, "one"), schema=name, table="t")
    assert client.poll()["id"] == 1


# -- filters --


def test_filters_are_added_listed_replaced_and_removed(serving: Serving, name: str) -> None:
    client = serving.client(name)

    def listed() -> list[TableFilter]:
        return classic.parse_filters(client.ask(Command.LIST_FILTERS).payload)

    assert listed() == []
    assert client.add_filter(name, "a", kinds=1) == Reply(Result.OK, b"")
    client.add_filter(name, "a", kinds=3, limit=5, discard=1)
    client.add_filter(name, "*", kinds=4)
    client.add_filter(name, "a", kinds=1, limit=9)
    assert sorted(listed()) == [
        TableFilter(1, 2, 9, name, "a"),
        TableFilter(3, 1, 5, name, "a"),
        TableFilter(4, 2, 0, name, "*"),
    ]

    def remove(kinds: int, table: str) -> int:
        payload = classic.encode_filter_name(FilterName(kinds, name, table))
        return int.from_bytes(client.ask(Command.REMOVE_FILTER, payload).payload, "little")

    assert remove(2, "a") == 0
    assert remove(0, "a") == 2
    assert remove(4, "*") == 1
    assert listed() == []


def test_filters_choose_kinds_and_tables(serving: Serving, name: str) -> None:
    deletes, everything = serving.client(name + "-d"), serving.client(name + "-all")
    deletes.add_filter(name, "a", kinds=4)
    everything.add_filter(name, "*")
    serving.insert((1, "x"), schema=name, table="a")
    serving.update(((1, "x"), (2, "y")), schema=name, table="b")
    serving.delete((3, "z"), schema=name, table="a")
    row = deletes.poll()
    assert (row["kind"], row["before"], row["after"]) == (4, {"id": "3", "word": "z"}, {"id": "", "word": ""})
    rows = [everything.poll() for _ in range(3)]
    assert [(row["kind"], row["table"]) for row in rows] == [(1, "a"), (2, "b"), (4, "a")]
    assert rows[1]["before"] == {"id": "1", "word": "x"}


def test_names_with_and_without_nul_are_the_same(serving: Serving, name: str) -> None:
    client = serving.client(name)
    raw = name.encode()
    payload = struct.pack("<QIII", KEY, 0, 0, len(raw)) + raw
    again = serving.connect()
    identity = classic.parse_identity(again.ask(Command.AUTH, payload).payload)
    assert identity.client_id == client.client_id


# -- polls --


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


# -- administrators --


def admin(operator: Client, command: int, secret: str = ADMIN_SECRET, **arguments: str) -> Reply:
    """Give an admin command."""
    payload = msgspec.json.encode(arguments) if arguments else b""
    operator.sock.sendall(classic.encode_admin_request(command, classic_keys.fnv1a64(secret.encode()), payload))
    return operator.receive()


def test_admin_commands_reach_the_supervisor(serving: Serving) -> None:
    client = serving.connect()
    assert msgspec.json.decode(admin(client, Command.STAT).payload, type=Stat).source.file == ""
    for command, order in ((0x101, b"drain"), (0x102, b"stop"), (0x103, b"pause"), (0x104, b"resume")):
        assert admin(client, command) == Reply(Result.OK, b"{}")
        assert serving.orders[0].recv(100) == order


def test_admin_commands_about_clients_reach_the_broker(serving: Serving, name: str) -> None:
    client, operator = serving.client(name, f"{name}.t"), serving.connect()
    serving.insert((1, "x"), (2, "y"), schema=name, table="t")
    assert client.poll()["id"] == 1
    assert admin(operator, Command.FLUSH_CLIENT, client=name) == Reply(Result.OK, b'{"dropped":1}')
    assert client.ask(Command.POLL).result == Result.EMPTY
    assert admin(operator, Command.SEEK_CLIENT, client=name, position="oldest").result == Result.OK
    assert client.ids(2) == [1, 2]
    assert admin(operator, Command.FORGET_CLIENT, client=name).result == Result.OK
    assert client.ask(Command.POLL) == Reply(Result.DISCONNECTED, b"")
    assert client.closed()
    for command in (Command.FLUSH_CLIENT, Command.FORGET_CLIENT):
        assert name in admin(operator, command, client=name).text


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"client":1}', b'{"client":"a","more":1}', b"\xff"])
def test_admin_command_with_odd_arguments_is_refused(serving: Serving, payload: bytes) -> None:
    client = serving.connect()
    key = classic_keys.fnv1a64(ADMIN_SECRET.encode())
    client.sock.sendall(classic.encode_admin_request(Command.SEEK_CLIENT, key, payload))
    assert client.receive().result == Result.ERROR
    assert client.ask(Command.PING) == PONG


def test_without_admin_secret_there_are_no_admin_commands(tmp_path: Path) -> None:
    with Serving(tmp_path, Server__AdminSecret="") as serving:
        reply = admin(serving.connect(), Command.STAT, "")
        assert (reply.result, "switched off" in reply.text) == (Result.ERROR, True)


# -- configuration --


def test_listed_clients_have_secrets_and_tables_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "relay.conf").write_text("[Client shop]\nSecret = own\nTables = shop.*, stats.daily\n")
    with Serving(tmp_path, conf=tmp_path / "relay.conf", Server__UnlistedClients="deny") as serving:
        client = serving.connect()
        assert client.authenticate("shop").result == Result.ERROR
        assert client.authenticate("stranger").result == Result.ERROR
        assert client.authenticate("shop", classic_keys.fnv1a64(b"own")).result == Result.OK
        for table in ("orders", "*"):
            assert client.add_filter("shop", table).result == Result.OK
        assert client.add_filter("stats", "daily").result == Result.OK
        for schema, table in (("stats", "*"), ("*", "*"), ("*", "daily"), ("shops", "orders")):
            reply = client.add_filter(schema, table)
            assert (reply.result, "may not have rows" in reply.text) == (Result.ERROR, True)


def test_legacy_keys_can_be_switched_off(tmp_path: Path) -> None:
    with Serving(tmp_path, Server__LegacyKeys="no") as serving:
        client = serving.connect()
        assert client.authenticate("a", classic_keys.shifted_fnv1a64(SECRET.encode())).result == Result.ERROR
        assert client.authenticate("a").result == Result.OK


def test_event_position_can_be_timestamped_or_a_sequence(tmp_path: Path) -> None:
    with Serving(tmp_path / "t", Relay__EventPosition="timestamped") as serving:
        client = serving.client("a", "shop.orders")
        serving.insert((1, "x"))
        assert client.poll()["position"] == (1_700_000_000 << 32) + 104
    with Serving(tmp_path / "s", Relay__EventPosition="sequence", Relay__NullText="\\N") as serving:
        client = serving.client("a", "shop.orders")
        serving.insert((1, "x"), (2, "y"))
        serving.insert((3, None))
        rows = [client.poll() for _ in range(3)]
        assert [row["position"] for row in rows] == [1, 2, 3]
        assert rows[2]["after"]["word"] == "\\N"


def test_there_are_no_more_clients_than_max_clients(tmp_path: Path) -> None:
    with Serving(tmp_path, Relay__MaxClients="2") as serving:
        clients = [serving.client(name) for name in ("a", "b", "c")]
        assert [client.client_id for client in clients] == [1, 2, 0]
        assert "MaxClients" in clients[2].authenticate("c").text
        assert clients[2].authenticate("a").result == Result.OK


def test_connections_beyond_the_cap_are_told_so(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__MaxConnections="3", Server__AdminSecret="") as serving:
        kept = [serving.client(name) for name in ("a", "b", "c")]
        refused = serving.connect()
        assert refused.receive() == Reply(Result.ERROR, b"too many connections (MaxConnections = 3)\0")
        assert refused.closed()
        kept.pop().close()
        assert serving.once_there_is_room().ask(Command.PING) == PONG
        assert kept[0].ask(Command.PING) == PONG


# -- stopping --


def test_sigterm_answers_those_who_wait_and_exits_with_0(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1) as serving:
        waiting, idle = serving.client("a", "shop.orders"), serving.client("b")
        waiting.wait_for_rows()
        assert serving.kill("server-0", signal.SIGTERM) == 0
        assert waiting.receive() == Reply(Result.OK, bytes(4))
        assert waiting.closed()
        assert idle.closed()


def test_idle_connections_cost_no_cpu(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1) as serving:
        clients = [serving.connect() for _ in range(300)]
        for client in clients:
            assert client.ask(Command.PING) == PONG
        waiting = serving.client("w", "shop.orders")
        waiting.wait_for_rows()
        before = process_cpu_seconds(serving.pid("server-0"))
        time.sleep(2)
        assert process_cpu_seconds(serving.pid("server-0")) - before <= 0.05
