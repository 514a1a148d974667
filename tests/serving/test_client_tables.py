"""A client gets rows only of the tables that its section allows, whatever it asked for, or had, before."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.commands.admin_client import AdminClient
from relay.protocol.classic import Command, Result, TableFilter, encode_filter, encode_poll_many
from relay.protocol.classic import PollMany as Request
from relay.protocol.classic_keys import fnv1a64
from tests.support.classic_client import Client
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import until

OWN = fnv1a64(b"own")


def conf(folder: Path, tables: str) -> Path:
    path = folder / "relay.conf"
    path.write_text(f"[Client c]\nSecret = own\nTables = {tables}\n[Client other]\nSecret = own\n")
    return path


def client(serving: Serving, name: str = "c") -> Client:
    made = Client(serving.port)
    assert made.authenticate(name, OWN).result == Result.OK
    return made


def balanced(serving: Serving, of: Client) -> bool:
    stats = serving.stats(of)
    dropped: int = sum(stats["dropped"].values())
    return bool(stats["matched"] == stats["confirmed"] + stats["in_flight"] + stats["waiting"] + dropped)


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "data", conf=conf(tmp_path, "shop.*, stats.*"))


def words(of: Client, count: int) -> list[str]:
    return [of.poll()["after"]["word"] for _ in range(count)]


@pytest.mark.parametrize("how", ["reload", "broker restarted", "everything restarted"])
def test_what_waits_of_a_table_that_is_not_allowed_any_more_is_never_sent(
    serving: Serving, tmp_path: Path, how: str
) -> None:
    with serving:
        before = client(serving)
        before.add_filter("shop", "*")
        before.add_filter("stats", "*")
        bystander = client(serving, "other")
        bystander.add_filter("shop", "*")
        for number in range(20):
            serving.insert((number, f"shop{number}"), (number + 100, f"shop{number + 100}"))
            serving.insert((number, f"stats{number}"), schema="stats", table="days")
        serving.settle()
        assert words(before, 4) == ["shop0", "shop100", "stats0", "shop1"]
        if how != "reload":
            serving.kill("broker")
        conf(tmp_path, "stats.*")
        serving.reload(wait=how == "reload")
        if how != "reload":
            serving.start("broker")
        if how == "everything restarted":
            for name in ("server-0", "server-1"):
                serving.kill(name)
                serving.start(name)
            before, bystander = client(serving), client(serving, "other")
        log = tmp_path / "data" / "broker.log"
        until(lambda: "filter_withdrawn client=c schema=shop table=*" in log.read_text())
        got = [before.poll()["after"]["word"] for _ in range(19)]
        while got[0] != "stats1":  # what was in flight may come again
            got = [*got[1:], before.poll()["after"]["word"]]
        assert got == [f"stats{number}" for number in range(1, 20)]
        serving.insert((7, "shop-later"))
        serving.insert((7, "stats-later"), schema="stats", table="days")
        assert before.poll()["after"]["word"] == "stats-later"
        assert before.ask(Command.POLL).result == Result.EMPTY
        assert balanced(serving, before)
        assert len(words(bystander, 41)) == 41 and balanced(serving, bystander)


def test_neither_filters_nor_a_seek_reach_beyond_what_is_allowed(serving: Serving, tmp_path: Path) -> None:
    with serving:
        serving.insert((1, "shop"))
        serving.insert((1, "secret"), schema="staff", table="wages")
        of = client(serving)
        for schema, table in (("staff", "wages"), ("staff", "*"), ("*", "*"), ("*", "wages"), ("shop", "*")):
            asked = of.ask(Command.ADD_FILTER, encode_filter(TableFilter(7, 2, 0, schema, table)))
            assert (asked.result == Result.OK) == (schema == "shop")
        with AdminClient("127.0.0.1", serving.port, ADMIN_SECRET) as admin:
            admin.seek("c", "oldest")
            assert admin.explain("staff", "wages")["clients"][0]["forbidden"]
            assert of.poll()["after"]["word"] == "shop"
            assert of.ask(Command.POLL).result == Result.EMPTY
            conf(tmp_path, "stats.*")
            serving.reload()
            admin.seek("c", "oldest")
            assert of.ask(Command.POLL).result == Result.EMPTY
            assert of.ask(Command.ADD_FILTER, encode_filter(TableFilter(7, 2, 0, "shop", "*"))).result == Result.ERROR
            conf(tmp_path, "shop.*")
            serving.reload()
            admin.seek("c", "oldest")
            assert of.ask(Command.POLL).result == Result.EMPTY, "a filter that was withdrawn does not come back"


def test_a_poll_gives_rows_of_nobody_elses_queue(serving: Serving) -> None:
    with serving:
        mine, theirs = client(serving), client(serving, "other")
        theirs.add_filter("shop", "*")
        serving.insert((1, "theirs"))
        serving.settle()
        poll_many = encode_poll_many(Request(10, 0, 0, 0, 1))
        for command, payload in ((Command.POLL, b""), (Command.POLL_V2, b"\3\1\2\3"), (Command.POLL_MANY, poll_many)):
            for ids in (
                {"client_id": theirs.client_id},
                {"client_id": theirs.client_id, "token": theirs.token},
                {"token": theirs.token},
                {"client_id": mine.client_id, "token": 0},
            ):
                reply = mine.ask(command, payload, **ids)
                assert reply.result == Result.ERROR and b"theirs" not in reply.payload
        stranger = serving.connect()
        stolen = stranger.ask(Command.POLL, client_id=theirs.client_id, token=theirs.token)
        assert stolen.result == Result.ERROR, "ids are worth nothing on a connection that has not logged in"
        assert theirs.poll()["after"]["word"] == "theirs"
