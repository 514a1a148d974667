"""The login throttle delays guessing, by address and name, and shuts nobody out."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from examples.dbserver import PASSWORD, USER
from relay.commands.admin_client import AdminClient
from relay.net.login_throttle import MAX_KEYS, LoginThrottle
from relay.protocol import classic
from relay.protocol.classic import Command, Result
from tests.net.test_addresses import OTHER, log
from tests.support.cdc_client import CdcClient, Refused
from tests.support.cdc_relay import CdcRelay
from tests.support.classic_client import Client
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import patience, until


class Clocked(NamedTuple):
    """A brake, and how the logins went that it let through."""

    brake: LoginThrottle
    seen: list[bool]

    def login(self, address: str, name: str, now: float, *, right: bool = False) -> bool:
        """Whether the login is looked at at once."""

        def check() -> bool:
            self.seen.append(right)
            return right

        before = len(self.seen)
        self.brake.attempt(address, name, now, check, lambda: None)
        return len(self.seen) > before


def braked(allowed: int) -> Clocked:
    return Clocked(LoginThrottle(allowed, lambda event, **fields: None), [])


def test_failures_count_for_an_ipv4_address_and_for_a_network_of_ipv6() -> None:
    brake = braked(3)
    assert all(brake.login(address, "a", 1.0) for address in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8::3"))
    assert not brake.login("2001:db8::4444", "a", 1.1), "the same host has them all"
    assert brake.login("2001:db8:0:1::1", "a", 1.1)
    for address in ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"):
        assert brake.login(address, "a", 1.1)
    assert not brake.login("192.0.2.1", "a", 1.2) and brake.login("192.0.2.2", "a", 1.2)


def test_a_right_login_takes_nothing_back_of_what_failed() -> None:
    brake = braked(4)
    assert all(brake.login("192.0.2.1", "a", 1.0, right=right) for right in (False, True, False, True, False, False))
    assert not brake.login("192.0.2.1", "a", 1.0, right=True)


def test_all_addresses_together_have_their_measure_and_no_more_are_remembered_than_there_is_room_for() -> None:
    brake = braked(1000)
    looked_at = sum(brake.login(f"10.{at >> 8}.{at & 255}.1", "a", 1.0) for at in range(60_000))
    assert looked_at == 50_000
    assert len(brake.brake._failures) <= MAX_KEYS
    for second in range(2, 40):
        brake.brake.tick(float(second))
    assert not brake.brake._waiting, "whose turn does not come is refused"


@contextmanager
def guessing(port: int, names: Callable[[int], str], guessers: int) -> Iterator[list[int]]:
    """Some neighbours guess as fast as they are answered; the guesses that were."""
    answered: list[int] = []
    over = threading.Event()

    def guess(first: int) -> None:
        client = Client(port)
        for number in range(first, 1_000_000, guessers):
            try:
                assert client.authenticate(names(number), number).result == Result.ERROR
                answered.append(number)
            except (EOFError, ConnectionError):  # it took too long to log in
                client = Client(port)
            if over.is_set():
                return

    threads = [threading.Thread(target=guess, args=(number,), daemon=True) for number in range(guessers)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        over.set()
        for thread in threads:
            thread.join(patience(30))


def test_a_client_gets_in_beside_neighbours_who_guess_its_name(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__AuthAttempts="3") as serving:
        started = time.monotonic()
        with guessing(serving.port, lambda _: "a", 1) as answered:
            until(lambda: len(answered) >= 3)
            assert serving.connect().authenticate("b").result == Result.OK, "another name"
            assert Client(serving.port, OTHER).authenticate("a").result == Result.OK, "another address"
            with AdminClient("127.0.0.1", serving.port, ADMIN_SECRET) as admin:
                assert {client["name"] for client in admin.clients()["clients"]} == {"a", "b"}
            for _ in range(3):
                assert serving.connect().authenticate("a").result == Result.OK, "the name itself, after a while"
            assert len(answered) <= 3 + (time.monotonic() - started) + 2, "a guess a second"


def test_names_that_are_made_up_do_not_multiply_the_guesses(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__AuthAttempts="2") as serving:
        serving.connect().authenticate("known")
        with guessing(serving.port, lambda number: f"n{number}", 20) as answered:
            started = time.monotonic()
            until(lambda: len(answered) > 15)  # they have waited for their turn
            assert serving.connect().authenticate("known").result == Result.OK
            assert len(answered) <= 10 + 5 * (time.monotonic() - started + 1), "for the address, all names together"


def test_the_beginning_and_the_end_are_an_event_each_and_the_sums_are_exact() -> None:
    told: list[tuple[str, dict[str, object]]] = []
    brake = Clocked(LoginThrottle(2, lambda event, **fields: told.append((event, fields))), [])
    looked_at = [brake.login("192.0.2.1", "a", 1.0) for _ in range(5)]
    assert looked_at == [True, True, False, False, False]
    who = {"client": "a", "peer": "192.0.2.1"}
    assert told == [("logins_slowed", who | {"failed": 2})]
    for second in range(2, 5):
        brake.brake.tick(float(second))
    assert len(told) == 1 and len(brake.seen) == 5, "the last one has just failed"
    brake.brake.tick(20.0)
    assert told[1:] == [("logins_slowed_end", who | {"failed": 5, "waited": 3})]


def test_the_beginning_and_the_end_are_a_line_each(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__AuthAttempts="2") as serving:
        guesses = [serving.connect() for _ in range(5)]
        for client in guesses:
            client.send(Command.AUTH, classic.encode_auth(0, "a"))
        assert {client.receive().result for client in guesses} == {Result.ERROR}
        until(lambda: "logins_slowed_end" in log(serving))
        lines = [line.split(" ", 2)[2] for line in log(serving).splitlines()]
        begun, *_, ended = [line for line in lines if "logins_slowed" in line]
        assert re.fullmatch(r"server-0 logins_slowed client=a peer=127.0.0.1 failed=\d", begun)
        assert re.fullmatch(r"server-0 logins_slowed_end client=a peer=127.0.0.1 failed=\d waited=\d", ended)
        assert len([line for line in lines if " auth_failed " in line]) == 5


def test_refusals_are_so_many_lines_a_minute_and_the_rest_is_counted(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__AuthAttempts="1000") as serving:
        client = serving.connect()
        for guess in range(250):
            assert client.authenticate("a", guess).result == Result.ERROR
        serving.kill("server-0", signal.SIGTERM)
        told = log(serving)
        assert told.count(" auth_failed ") == 100
        assert "refusals_left_out of=auth_failed count=150" in told


def test_admin_commands_are_braked_by_their_own_failures(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1, Server__AuthAttempts="1") as serving:
        started = time.monotonic()
        for _ in range(3):
            with (
                AdminClient("127.0.0.1", serving.port, "wrong") as admin,
                pytest.raises(Exception, match="wrong AdminSecret"),
            ):
                admin.clients()
        assert time.monotonic() - started > 1
        with AdminClient("127.0.0.1", serving.port, ADMIN_SECRET) as admin:
            assert admin.clients()["clients"] == []


def test_the_cdc_port_has_the_same_brake(bench: Callable[..., CdcRelay], db: str) -> None:
    running = bench(AuthAttempts=2)
    started = time.monotonic()
    for guess in ("a", "b"):
        with pytest.raises(Refused):
            CdcClient(running.port).login(USER, guess)
    CdcClient(running.port).login(USER, PASSWORD)
    for guess in ("a", "b", "c"):
        with pytest.raises(Refused):
            CdcClient(running.port).login(USER, guess)
    assert time.monotonic() - started > 1.5
    assert " logins_slowed " in running.relay.stderr.read_text()
