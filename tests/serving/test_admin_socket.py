"""Local admin commands: who may open the socket in DataDir, who is logged, and what the monitor answers through it."""

from __future__ import annotations

import gc
import json
import mmap
import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Arena
from relay.base.log import logger
from relay.client import RelayClient
from relay.commands import admin_client
from relay.commands.admin_client import AdminConnection
from relay.config.load import load
from relay.config.tree import Config
from relay.errors import ErrorCode, ExitCode, RelayError
from relay.monitoring.inquiries import Inquiries
from relay.monitoring.stat import Stat
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Result
from relay.runtime import admin_socket, ipc
from relay.runtime.context import MonitorContext
from relay.serving import monitor_link
from relay.serving.admin_listener import MOST_LOCAL
from relay.serving.monitor_link import GIVE_UP_AFTER, UNANSWERED, MonitorLink
from tests.support import packets, server_processes
from tests.support.relay_process import RELAY, SECRET, RelayProcess, run_relay, write_conf
from tests.support.sample_stat import client, document
from tests.support.waiting import patience, until

NOBODY = 65534
INTERRUPTED = 128 + signal.SIGINT
ARENA = Arena.size(1, 1, 1 << 20)
NO_SECRET: dict[str, object] = {"Server.AdminSecret": "", "Relay.LogFormat": "json"}

Start = Callable[..., RelayProcess]


@pytest.fixture(scope="module")
def relay(mariadb1011: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """A relay without AdminSecret that knows a client, `resident`."""
    running = RelayProcess(write_conf(tmp_path_factory.mktemp("relay"), mariadb1011, NO_SECRET))
    try:
        running.start()
        with RelayClient("127.0.0.1", running.port, "resident", SECRET) as client:
            client.add_filter("shop", "*")
        yield running
    finally:
        running.end()


def config_of(relay: RelayProcess) -> Config:
    return load(str(relay.conf), {}, {})[0]


def socket_of(relay: RelayProcess) -> Path:
    return Path(config_of(relay).relay.data_dir) / admin_socket.NAME


def descriptors() -> set[str]:
    """The open descriptors of this process, without those that other tests left as garbage."""
    gc.collect()
    return {link.name for link in Path("/proc/self/fd").iterdir() if link.exists()}


def done(relay: RelayProcess, *arguments: str) -> str:
    """What the command printed, which has to succeed."""
    result = run_relay(*arguments, "-c", relay.conf)
    assert (result.returncode, result.stderr) == (ExitCode.OK, "")
    return result.stdout


def client_names(relay: RelayProcess) -> list[str]:
    return [each["name"] for each in relay.stat()["clients"]]


def tailing(relay: RelayProcess) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*RELAY, "tail", "shop.*", "-c", relay.conf], stdout=subprocess.DEVNULL)


def as_user(uid: int, work: Callable[[], int]) -> int:
    """The result of the work, a small number, in a process of that user."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_socket_is_the_owners_alone(relay: RelayProcess) -> None:
    found = socket_of(relay).lstat()
    assert stat.S_ISSOCK(found.st_mode)
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.geteuid())


def test_every_local_command_works_without_admin_secret(relay: RelayProcess) -> None:
    document = json.loads(done(relay, "stat", "--json"))
    assert {each["name"] for each in document["processes"]} >= {"reader", "broker", "monitor", "server-0"}
    assert done(relay, "stat").startswith("relay ")
    assert [each["name"] for each in json.loads(done(relay, "client", "list", "--json"))["clients"]] == ["resident"]
    assert "resident" in done(relay, "client", "list", "resident")
    assert "resident" in done(relay, "explain", "shop.orders")
    assert done(relay, "pause") == "paused\n"
    assert done(relay, "resume") == "resumed\n"
    assert done(relay, "reload") == "nothing changed\n"
    assert done(relay, "client", "flush", "resident") == "flushed resident: 0 rows dropped\n"
    assert done(relay, "client", "seek", "resident", "newest").startswith("resident continues at")
    assert done(relay, "client", "skip", "resident") == "no row waits for resident\n"
    assert done(relay, "client", "kick", "resident") == "resident is not connected\n"
    unknown = run_relay("client", "list", "nobody", "-c", relay.conf)
    assert (unknown.returncode, "no client is called 'nobody'" in unknown.stderr) == (ExitCode.REFUSED, True)
    assert "AdminSecret" not in unknown.stderr, "that is no help here"


def test_the_log_says_which_user_and_process_gave_a_command(relay: RelayProcess) -> None:
    before = len(relay.logged("admin"))
    with admin_client.local(config_of(relay)) as connection:
        connection.clients("resident")
    lines = relay.logged("admin")[before:]
    assert [(line["command"], line["outcome"]) for line in lines] == [("list_clients", "done")]
    assert lines[0]["peer"] == f"uid {os.getuid()} pid {os.getpid()}"
    assert "resident" in lines[0]["arguments"]


def test_tcp_is_taken_where_the_command_says_so_and_needs_the_secret(relay: RelayProcess) -> None:
    refused = run_relay("client", "list", "--tcp", "-c", relay.conf)
    assert (refused.returncode, "there is no AdminSecret" in refused.stderr) == (ExitCode.REFUSED, True)
    refused = run_relay("client", "list", "--tcp", "-c", relay.conf, "--set", "Server.AdminSecret=guessed")
    assert (refused.returncode, "AdminSecret is empty" in refused.stderr) == (ExitCode.REFUSED, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_tail_leaves_no_client_behind(relay: RelayProcess, number: signal.Signals) -> None:
    with tailing(relay) as tail:
        until(lambda: len(client_names(relay)) == 2)
        tail.send_signal(number)
        assert tail.wait(patience(60)) == INTERRUPTED
    assert client_names(relay) == ["resident"]


def test_a_tail_that_ends_while_it_logs_in_leaves_no_client_behind(relay: RelayProcess) -> None:
    broker = relay.pids()["broker"]
    os.kill(broker, signal.SIGSTOP)  # so no login is answered
    try:
        with tailing(relay) as tail:
            until(lambda: [each for each in psutil.Process(tail.pid).net_connections() if each.status == "ESTABLISHED"])
            tail.send_signal(signal.SIGINT)
            os.kill(broker, signal.SIGCONT)
            assert tail.wait(patience(60)) == INTERRUPTED
    finally:
        os.kill(broker, signal.SIGCONT)
    assert client_names(relay) == ["resident"]


def test_clients_do_not_log_in_there(relay: RelayProcess) -> None:
    with admin_socket.connect(socket_of(relay).parent, 20) as connection:
        key = classic_keys.fnv1a64(SECRET.encode())
        connection.sendall(classic.encode_request(Command.AUTH, classic.encode_auth(key, "resident")))
        replies = classic.ReplyParser()
        while (reply := replies.next()) is None:
            replies.feed(connection.recv(4096))
    assert (reply.result, "admin commands only" in reply.text) == (Result.ERROR, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_and_the_owner_is_not(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        relay = start_relay(mariadb1011, {**NO_SECRET, "Relay.DataDir": data})
        config = config_of(relay)
        for each in (Path(folder), data):
            each.chmod(0o755)  # the mode of the socket alone decides

        def give() -> int:
            try:
                with admin_client.local(config) as connection:
                    return 0 if connection.clients() else 1
            except RelayError as error:
                return int(error.exit_code) if "root" in error.hint else 2

        assert as_user(NOBODY, give) == ExitCode.REFUSED
        assert as_user(0, give) == 0
        os.chown(data / admin_socket.NAME, NOBODY, NOBODY)  # as [Relay] User does
        assert as_user(NOBODY, give) == 0
        assert as_user(0, give) == 0
        assert f"uid {NOBODY} pid " in relay.logged("admin")[1]["peer"]
        relay.end()


def test_a_long_data_dir_works(mariadb1011: DatabaseServer, start_relay: Start, tmp_path: Path) -> None:
    data = tmp_path / ("d" * 120) / ("e" * 120)
    relay = start_relay(mariadb1011, {**NO_SECRET, "Relay.DataDir": data})
    assert stat.S_ISSOCK((data / admin_socket.NAME).stat().st_mode)
    assert json.loads(done(relay, "stat", "--json"))["state"]
    assert done(relay, "stop") == "stopped\n"
    assert relay.wait() == ExitCode.OK


def test_paths_up_to_the_kernels_limit_and_beyond(tmp_path: Path) -> None:
    rest = admin_socket.MAX_PATH - len(os.fsencode(tmp_path / admin_socket.NAME))
    for length in (rest - 2, rest - 1, rest, rest + 1):
        data = tmp_path / ("x" * length)
        data.mkdir()
        with admin_socket.listen(data), admin_socket.connect(data, 1) as connection:
            assert admin_socket.client_of(connection).startswith(f"uid {os.getuid()} pid ")


def test_the_socket_of_a_killed_relay_is_replaced(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, NO_SECRET)
    relay.kill()
    assert socket_of(relay).exists(), "nobody was there to remove it"
    away = run_relay("stat", "-c", relay.conf)
    assert (away.returncode, str(socket_of(relay)) in away.stderr) == (ExitCode.NOT_RUNNING, True)
    assert run_relay("stop", "-c", relay.conf).returncode == ExitCode.NOT_RUNNING
    relay.start()
    assert done(relay, "stat").startswith("relay ")


def test_the_socket_is_gone_after_a_stop(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, NO_SECRET)
    assert relay.stop() == ExitCode.OK
    assert not socket_of(relay).exists()
    assert run_relay("stat", "-c", relay.conf).returncode == ExitCode.NOT_RUNNING


def test_a_second_relay_leaves_the_socket_alone(relay: RelayProcess) -> None:
    before = socket_of(relay).stat().st_ino
    assert run_relay("start", "-c", relay.conf).returncode == ExitCode.ALREADY_RUNNING
    assert socket_of(relay).stat().st_ino == before


def test_what_cannot_be_made_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / admin_socket.NAME).mkdir()
    with pytest.raises(RelayError) as failed:
        admin_socket.listen(tmp_path)
    assert (failed.value.code, "Unix sockets" in failed.value.hint) == (ErrorCode.ENVIRONMENT, True)


@pytest.mark.parametrize("victim", ["monitor", "server-0", "server-1", "broker"])
def test_commands_are_answered_while_a_process_is_restarted(relay: RelayProcess, victim: str) -> None:
    config = config_of(relay)
    os.kill(relay.pids()[victim], signal.SIGKILL)

    def answered() -> bool:  # one that is connected to a server that dies is told so
        try:
            with admin_client.local(config) as connection:
                assert connection.stat()["processes"]
                assert [each["name"] for each in connection.clients()["clients"]] == ["resident"]
                return True
        except RelayError as error:
            if error.code is not ErrorCode.NOT_RUNNING and UNANSWERED not in str(error):
                raise
            return False

    until(answered, pause=0)


@contextmanager
def monitor_that_stands_still(folder: Path) -> Iterator[server_processes.Serving]:
    with server_processes.Serving(folder, workers=1) as running:
        os.kill(running.pid("monitor"), signal.SIGSTOP)
        try:
            yield running
        finally:
            os.kill(running.pid("monitor"), signal.SIGCONT)


def test_a_monitor_that_stands_still_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_link, "GIVE_UP_AFTER", 1e6)
    with (
        monitor_that_stands_still(tmp_path) as running,
        admin_client.local(running.config) as asking,
        admin_client.local(running.config) as commanding,
    ):
        asking._socket.sendall(classic.encode_admin_request(Command.STAT, 0))
        client = running.client("a", "shop.orders")
        running.insert((1, "x"))
        assert client.ids(1) == [1]
        assert commanding.kick("a") == {"connected": True}


def test_a_monitor_that_stands_still_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_link, "GIVE_UP_AFTER", 0.5)
    with monitor_that_stands_still(tmp_path) as running, admin_client.local(running.config) as asking:
        running.client("a", "shop.orders")
        with pytest.raises(RelayError, match=UNANSWERED):
            asking.stat()
        os.kill(running.pid("monitor"), signal.SIGCONT)
        clients: dict[str, Any] = until(lambda: answer_to(asking.clients))
        assert [each["name"] for each in clients["clients"]] == ["a"]
        stat: dict[str, Any] = until(lambda: answer_to(asking.stat))
        assert stat["journal"]["committed"]


def answer_to(command: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """The answer to a command, unless the monitor is late."""
    try:
        return command()
    except RelayError as error:
        if UNANSWERED not in str(error):
            raise
        return None


def test_an_inquiry_waits_for_the_next_monitor(tmp_path: Path) -> None:
    with server_processes.Serving(tmp_path, workers=1) as running:
        running.client("a", "shop.orders")
        running.kill("monitor")
        with admin_client.local(running.config) as asking:
            asking._socket.sendall(classic.encode_admin_request(Command.LIST_CLIENTS, 0))
            time.sleep(2.5)  # it is sent again meanwhile, and answered once
            running.start("monitor")
            reply = asking._receive()
            assert reply.result == Result.OK, reply.text
            assert asking.stat()["clients"][0]["name"] == "a"


def test_documents_larger_than_any_packet_arrive_whole_and_late_ones_are_left() -> None:
    server_end, monitor_end = packets.pair()
    large = document(*(client(number, f"client-{number}") for number in range(1, 20_001)))
    config = load(None, {}, {"Server.Login": "l", "Server.AuthSecret": "s"})[0]
    arena = Arena(mmap.mmap(-1, ARENA), 1, 1, 1 << 20)
    context = MonitorContext("monitor", 2, config, arena, logger("monitor"), inquiries=[monitor_end])
    inquiries, link = Inquiries(context, lambda: large), MonitorLink(server_end)
    answers: list[tuple[bytes, str]] = []

    def ask(inquiry: ipc.Inquiry) -> None:
        link.ask(inquiry, 0.0, lambda content, error: answers.append((content, error)))

    before = descriptors()
    ask(ipc.InquireStat(link.next_id()))
    link.tick(ipc.RESEND_AFTER)  # asked twice, answered once
    ask(ipc.InquireClients(link.next_id(), "client-7"))
    ask(ipc.InquireClients(link.next_id(), "nobody"))
    inquiries._answer(monitor_end)
    link.receive()
    assert len(answers[0][0]) > 5_000_000
    assert msgspec.json.decode(answers[0][0], type=Stat) == large
    assert [each["id"] for each in json.loads(answers[1][0])["clients"]] == [7]
    assert (answers[2], len(answers)) == ((b"", "no client is called 'nobody'"), 3)
    ask(ipc.InquireStat(link.next_id()))
    link.tick(GIVE_UP_AFTER)
    assert answers[3:] == [(b"", UNANSWERED)]
    inquiries._answer(monitor_end)
    link.receive()
    assert (len(answers), descriptors() - before) == (4, set())
    server_end.close()
    monitor_end.close()


def test_idle_connections_take_nothing_from_clients_and_others_wait_their_turn(tmp_path: Path) -> None:
    with server_processes.Serving(tmp_path, workers=1, Server__MaxConnections="1") as running:
        client = running.client("a", "shop.orders")
        idle = [admin_client.local(running.config) for _ in range(MOST_LOCAL)]
        assert idle[-1].clients()["clients"][0]["connected"], "none of MaxConnections"
        late = admin_client.local(running.config)
        late._socket.settimeout(0.5)
        with pytest.raises(RelayError):
            late.clients()
        late.close()
        idle.pop().close()
        with admin_client.local(running.config) as waits:
            assert len(waits.clients()["clients"]) == 1
        running.insert((1, "x"))
        assert client.ids(1) == [1]
        for each in idle:
            each.close()


def test_what_is_no_request_ends_its_connection_alone(relay: RelayProcess) -> None:
    folder = socket_of(relay).parent
    for junk in (b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
        with admin_socket.connect(folder, 5) as connection:
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert re.match("relay ", done(relay, "stat"))


def test_the_methods_are_those_of_tcp() -> None:
    methods = {name for name in dir(AdminConnection) if not name.startswith("_")}
    assert methods == {name for name in dir(admin_client.AdminClient) if not name.startswith("_")}
