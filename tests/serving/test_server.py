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
from tests.support.classic_client import KEY, PONG, SECRET, Client, many, parse_row
from tests.support.relay_process import process_cpu_seconds
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience


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
