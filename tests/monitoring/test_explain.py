"""`relay explain`: reports where a table's events go as the relay decides it, and why they do not go elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from relay.commands.text import explain as explain_text
from relay.config.load import load
from relay.config.tree import Config
from relay.monitoring import stat_collect
from relay.monitoring.explain import ClientVerdict, Explanation, explain
from relay.monitoring.stat import Client, Stat
from relay.runtime.process_status import Counts, ExportStatus, StatusPages, Stop, TableUsage
from tests.support.server_processes import Serving


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Clients and schemas of names of their own belong to each test."""
    with Serving(tmp_path_factory.mktemp("explained")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


def document(serving: Serving) -> Stat:
    """The stat document."""
    return stat_collect.collect(serving.config, serving.arena, serving.folder, [], StatusPages())


def configured(tmp_path: Path, content: str = "", **settings: str) -> Config:
    """A configuration; `settings` as of `Serving`."""
    flags = {"Server.AuthSecret": "s", "Server.Login": "l"}
    (tmp_path / "relay.conf").write_text(content)
    return load(str(tmp_path / "relay.conf"), {}, flags | {k.replace("__", "."): v for k, v in settings.items()})[0]


def verdict(serving: Serving, client: str, schema: str, table: str, config: Config | None = None) -> ClientVerdict:
    """What is told of that client."""
    found = explain(config or serving.config, document(serving), schema, table)
    return next(each for each in found.clients if each.name == client)


def test_a_filter_on_the_table_gets_its_kinds(serving: Serving, name: str) -> None:
    client = serving.client(name, "shop.orders")
    client.add_filter("shop", "items", kinds=1)
    told = verdict(serving, name, "shop", "orders")
    assert (told.kinds, [rule.table for rule in told.by], told.near) == ("IUD", ["orders"], [])
    assert (told.status, told.dropping, told.forbidden) == ("connected", "", "")
    assert verdict(serving, name, "shop", "items").kinds == "I"
    nothing = verdict(serving, name, "shop", "people")
    assert (nothing.kinds, nothing.by, nothing.near) == ("", [], [])


@pytest.mark.parametrize("asked", [("*", "*"), ("shop", "*"), ("*", "orders")])
def test_a_filter_on_all_gets_the_table_too(serving: Serving, name: str, asked: tuple[str, str]) -> None:
    serving.client(name, ".".join(asked))
    assert verdict(serving, name, "shop", "orders").kinds == "IUD"


@pytest.mark.parametrize(
    ("schema", "table", "why"),
    [
        ("shop", "Orders", "case: the filter has table 'Orders', the table 'orders'"),
        ("SHOP", "*", "case: the filter has schema 'SHOP', the table 'shop'"),
        ("store", "orders", "other schema: 'store'"),
        ("store", "ORDERS", "other schema: 'store'; case: the filter has table 'ORDERS', the table 'orders'"),
        ("shop", "ord*", "pattern: table 'ord*' is literal; only * alone matches all"),
        ("shop", "orders ", "blanks: the filter has table 'orders ', the table 'orders'"),
        ("store", "*", None),
        ("shop", "items", None),
    ],
)
def test_a_filter_that_comes_close_is_told_with_the_reason(
    serving: Serving, name: str, schema: str, table: str, why: str | None
) -> None:
    client = serving.connect()
    client.authenticate(name)
    client.add_filter(schema, table)
    told = verdict(serving, name, "shop", "orders")
    assert (told.kinds, told.by) == ("", [])
    assert [near.why for near in told.near] == ([why] if why else [])


def test_kinds_that_no_filter_asks_for_are_told(serving: Serving, name: str) -> None:
    client = serving.connect()
    client.authenticate(name)
    client.add_filter("shop", "orders", kinds=1)
    client.add_filter("shop", "*", kinds=4)
    told = verdict(serving, name, "shop", "orders")
    assert (told.kinds, len(told.by)) == ("ID", 2)
    assert [near.why for near in told.near] == [
        "kinds: it asks for inserts, not for updates",
        "kinds: it asks for deletes, not for updates",
    ]


def test_what_limits_would_do_is_what_they_do(serving: Serving, name: str) -> None:
    dice = random.Random(name)
    told: dict[str, int] = {"newest": 0, "oldest": 0, "": 0}
    for number in range(40):
        client_name = schema = f"{name}-{number}"
        client = serving.connect()
        client.authenticate(client_name)
        for asked in dice.sample([(schema, "t"), (schema, "*"), ("*", "t")], dice.randint(1, 3)):
            client.add_filter(*asked, limit=dice.choice([0, 1, 2, 3, 4]), discard=dice.choice([0, 1, 1, 2]))
        serving.insert(*((row, "x") for row in range(dice.randint(1, 6))), schema=schema, table="t")
        serving.settle()
        said = verdict(serving, client_name, schema, "t").dropping
        before = known(serving, client_name)
        serving.insert((99, "x"), schema=schema, table="t")
        serving.settle()
        after = known(serving, client_name)
        newest = after.dropped.limit_newest - before.dropped.limit_newest
        oldest = after.dropped.limit_oldest - before.dropped.limit_oldest
        wanted = "newest" if newest else "oldest" if oldest else ""
        assert ("a new row is dropped" in said, "a new row replaces the oldest" in said) == (newest == 1, oldest == 1)
        told[wanted] += 1
    assert min(told.values()) > 3, told


def known(serving: Serving, name: str) -> Client:
    """The client in the stat document."""
    return next(each for each in document(serving).clients if each.name == name)


def test_tables_of_the_clients_section_may_forbid_the_table(serving: Serving, name: str, tmp_path: Path) -> None:
    serving.client(name, "shop.orders")
    config = configured(tmp_path, f"[Client {name}]\nSecret = x\nTables = shop.items, stats.*\n")
    told = verdict(serving, name, "shop", "orders", config)
    assert told.forbidden == f"Tables in [Client {name}] does not name it"
    assert told.kinds == "" and len(told.by) == 1, "the filter was asked for before, and is of no use"
    assert verdict(serving, name, "shop", "items", config).forbidden == ""


def test_what_the_journal_leaves_out_nobody_gets(serving: Serving, name: str, tmp_path: Path) -> None:
    serving.client(name, "*.*")
    left_out = configured(tmp_path, Source__Tables="shop.*, stats.daily", Source__ExcludeTables="*.tmp_*")
    for schema, table, why in (
        ("stats", "weekly", "[Source] Tables = shop.*, stats.daily does not name it"),
        ("shop", "tmp_1", "[Source] ExcludeTables excludes it: *.tmp_*"),
    ):
        found = explain(left_out, document(serving), schema, table)
        assert (found.journal.takes, found.journal.why) == (False, why)
        assert {client.kinds for client in found.clients} == {""}
    found = explain(left_out, document(serving), "stats", "daily")
    assert (found.journal.takes, found.journal.why) == (True, "[Source] Tables: stats.daily")
    assert verdict(serving, name, "stats", "daily", left_out).kinds == "IUD"


def test_columns_that_are_left_out_are_told(serving: Serving, tmp_path: Path) -> None:
    config = configured(tmp_path, Source__ExcludeColumns="shop.users.password, *.*.card, stats.*.x")
    assert explain(config, document(serving), "shop", "users").columns == ["shop.users.password", "*.*.card"]


def taken(config: Config, found: Stat, schema: str, table: str) -> tuple[bool, bool]:
    """Whether lake and log take the table."""
    told = explain(config, found, schema, table)
    return told.lake.takes, told.log.takes


def test_lake_and_log_take_what_their_sections_say(serving: Serving, tmp_path: Path) -> None:
    settings = {"Lake__Path": "/lake", "Lake__Tables": "shop.*", "Logger__Schema": "shop, stats",
                "Logger__Excludes": "items, stats.daily"}  # fmt: skip
    config = configured(tmp_path, Source__ExcludeTables="shop.secret", **settings)
    found = stat_collect.collect(config, serving.arena, serving.folder, [], StatusPages())
    assert taken(config, found, "shop", "orders") == (True, True)
    assert taken(config, found, "shop", "items") == (True, False)
    assert taken(config, found, "stats", "weekly") == (False, True)
    assert taken(config, found, "stats", "daily") == (False, False)
    assert taken(config, found, "shop", "secret") == (False, False)
    without = configured(tmp_path)
    told = explain(without, document(serving), "shop", "orders")
    assert ("Path is empty" in told.lake.why, "Schema is empty" in told.log.why) == (True, True)


def test_an_export_that_has_stopped_is_told(serving: Serving, tmp_path: Path) -> None:
    config = configured(tmp_path, Lake__Path="/lake")
    status_pages = StatusPages()
    status_pages.exporter.write(
        msgspec.msgpack.encode(ExportStatus(state="stopped", stop=Stop("lake_damaged", "t", "h")))
    )
    found = stat_collect.collect(config, serving.arena, serving.folder, [], status_pages)
    assert "lake_damaged" in explain(config, found, "shop", "orders").lake.why


def test_a_table_that_nobody_wrote_to_is_told_with_those_of_nearly_its_name(serving: Serving) -> None:
    usage = TableUsage("shop", "orders", Counts(3, 2, 1), Counts(), Counts(), 1.0)
    found = msgspec.structs.replace(document(serving))
    found.usage = msgspec.structs.replace(found.usage, tables=[usage])
    told = explain(serving.config, found, "shop", "orders")
    assert (told.seen, told.similar) == (6, [])
    told = explain(serving.config, found, "shop", "order")
    assert (told.seen, told.similar) == (0, ["shop.orders"])


def test_it_is_told_in_80_columns_and_steers_no_terminal(serving: Serving, name: str, tmp_path: Path) -> None:
    client = serving.client(name + "\x1b[2J" + "x" * 40, "shop.orders", limit=1)
    client.add_filter("Shop" + "\n" * 3, "orders")
    client.add_filter("SHOP", "orders", kinds=1)
    serving.insert((1, "x"), (2, "y"))
    serving.settle()
    config = configured(tmp_path, Source__ExcludeColumns="shop.orders.card", Logger__Schema="x" * 200)
    told = explain(config, document(serving), "shop", "orders")
    shown = explain_text.text(msgspec.convert(msgspec.to_builtins(told), Explanation))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.replace("\n", "").isprintable()
    words = " ".join(shown.split())
    for said in (
        "journal yes",
        "lake no",
        "without the columns shop.orders.card",
        "gets inserts, updates, deletes",
        "case: the filter has schema 'SHOP'",
        "the limit of 1 is reached: a new row is dropped",
    ):
        assert said in words
