"""The programs of docs/recipes do what their pages say, on a real server and a real relay, also after a kill."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pytest
from duckdb_extensions import import_extension  # type: ignore[import-untyped]

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.client import RelayClient
from tests.binlog.test_binlog_files import folder_of
from tests.support import ROOT
from tests.support.cdc_client import SECRET as CDC_PASSWORD
from tests.support.cdc_client import USER as CDC_USER
from tests.support.cdc_client import USERS_LINE
from tests.support.purging import purge
from tests.support.readme_client import ReadmeClient
from tests.support.recipe import PAGES, Recipe, blocks
from tests.support.redis_server import Redis
from tests.support.relay_process import SECRET, RelayProcess, write_conf
from tests.support.server_variables import full_metadata_of, global_variable
from tests.support.waiting import patience, until

INDEX = PAGES / "README.md"
MakeRecipe = Callable[..., Recipe]

ROWS = 20  # inserted before and between two kills of the audit
TABLES = (
    "DROP DATABASE IF EXISTS shop",
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, status ENUM('new', 'paid'), total DECIMAL(8, 2),"
    " changed_by VARCHAR(20))",
    "CREATE TABLE shop.products (id INT PRIMARY KEY, name VARCHAR(40), description TEXT)",
)


@pytest.fixture(scope="module")
def shop(mariadb118: DatabaseServer) -> Iterator[DatabaseServer]:
    """A server with the tables of the pages, and names of columns in its binlog."""
    with full_metadata_of(mariadb118):
        mariadb118.execute(*TABLES, "INSERT INTO shop.orders VALUES (900, 'new', 1.00, 'before the relay')")
        yield mariadb118
        mariadb118.execute("DROP DATABASE IF EXISTS shop")


@pytest.fixture(scope="module")
def shop_relay(shop: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One relay for all pages: classic clients, the CDC port, a lake with open tables."""
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "cdcusers").write_text(USERS_LINE)
    settings = {
        "Source.Tables": "shop.*",
        "Lake.Path": folder / "lake",
        "Lake.RollSeconds": "1s",
        "Lake.OpenTables": "delta",
        "Lake.MergeSeconds": "2s",
        "CDC.Enabled": "yes",
        "CDC.Address": "127.0.0.1",
        "CDC.Port": free_port(),
        "CDC.Users": folder / "cdcusers",
    }
    process = RelayProcess(write_conf(folder, shop, settings))
    try:
        yield process.start()
    finally:
        process.end()


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[MakeRecipe]:
    """recipe(page, {text on the page: the test's}) makes the page's program, which ends with the test."""
    with ExitStack() as stack:

        def make(page: str, replaced: dict[str, object], **options: Any) -> Recipe:
            folder = tmp_path / Path(page).name
            folder.mkdir(exist_ok=True)
            made = Recipe(page, folder, replaced, **options)
            stack.callback(made.close)
            return made

        yield make


def rows_of(database: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table of SQLite's, none if it is not there yet."""
    with closing(sqlite3.connect(database)) as reading:
        [there] = reading.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", [table]).fetchone()
        return reading.execute(f"SELECT {columns} FROM {table} ORDER BY rowid").fetchall() if there else []


def shown_query(program: Recipe) -> list[tuple[Any, ...]]:
    """The result of the query that the page has for the sqlite3 program."""
    [command] = [code for code in blocks(program.page, "") if code.startswith("sqlite3 ")]
    _, database, query = shlex.split(command)
    with closing(sqlite3.connect(program.folder / database)) as reading:
        return reading.execute(query).fetchall()


def test_a_cache_loses_what_changes_also_while_the_program_is_dead(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe, tmp_path: Path
) -> None:
    with Redis(tmp_path) as redis, socket.create_connection(("127.0.0.1", redis.port), patience(20)) as connection:
        replies = connection.makefile("rb")

        def ask(*words: str) -> bytes:
            connection.sendall(shlex.join(words).encode() + b"\r\n")
            reply = replies.readline()
            return replies.readline() if reply[:1] == b"$" and reply != b"$-1\r\n" else reply

        def is_gone(key: str) -> bool:
            return ask("GET", key) == b"$-1\r\n"

        program = recipe("invalidate-a-cache", {"6001": shop_relay.port, "6379": redis.port, "my-secret": SECRET})
        ask("SET", "order:1", "older than the filter")
        program.start()
        until(lambda: not is_gone("relay:cache"), what="the program did not begin")
        assert is_gone("order:1")

        for number in (1, 2, 3):
            ask("SET", f"order:{number}", "cached")
        shop.execute("INSERT INTO shop.orders VALUES (1, 'new', 5.00, 'ada')")
        until(lambda: is_gone("order:1"), what="an insert left the entry")
        ask("SET", "order:1", "cached")
        shop.execute("UPDATE shop.orders SET id = 2 WHERE id = 1")
        until(lambda: is_gone("order:1") and is_gone("order:2"), what="an update of the key left an entry")
        assert not is_gone("order:3")

        program.kill()
        ask("SET", "order:4", "cached")
        shop.execute("INSERT INTO shop.orders VALUES (4, 'new', 1.00, NULL)")
        program.start()
        until(lambda: is_gone("order:4"), what="a change while the program was dead left the entry")
        assert not is_gone("order:3"), "a restart emptied the cache"


def test_a_search_index_is_the_table_after_a_copy_changes_and_a_kill(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    shop.execute("INSERT INTO shop.products VALUES (1, 'Sencha', 'green tea'), (2, 'Assam', 'black tea')")
    program = recipe(
        "feed-a-search-index",
        {"6001": shop_relay.port, "my-secret": SECRET, "3306": shop.port, 'user="search"': f'user="{USER}"',
         "my-password": PASSWORD},
    )  # fmt: skip

    def is_complete() -> bool:
        indexed = rows_of(program.folder / "products.db", "products", "rowid, name, description")
        return sorted(indexed) == list(shop.execute("SELECT id, name, description FROM shop.products ORDER BY id"))

    program.start()
    until(is_complete, what="the copy is not the table")
    shop.execute(
        "INSERT INTO shop.products VALUES (3, 'Rooibos', NULL)",
        "UPDATE shop.products SET description = 'the finest green tea' WHERE id = 1",
        "DELETE FROM shop.products WHERE id = 2",
    )
    until(is_complete, what="changes are not in the index")
    program.kill()
    shop.execute(
        "UPDATE shop.products SET id = 4, name = 'Gyokuro' WHERE id = 1", "DELETE FROM shop.products WHERE id = 3"
    )
    program.start()
    until(is_complete, what="changes while the program was dead are not in the index")
    assert shown_query(program) == [(4, "Gyokuro")]


def test_browsers_get_changes_also_after_a_kill(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    port = free_port()
    program = recipe(
        "stream-to-browsers",
        {"6001": shop_relay.port, "my-secret": SECRET},
        command=("-m", "uvicorn", "program:app", f"--port={port}"),
    )
    numbers = itertools.count(951)

    def event_of(changes: IO[bytes]) -> tuple[int, dict[str, Any]]:
        """Insert a row; its number, and the next event. Rows before the program's filter have none."""
        number = next(numbers)
        shop.execute(f"INSERT INTO shop.orders VALUES ({number}, 'new', 1.00, NULL)")
        with suppress(TimeoutError):
            return number, next(json.loads(line[6:]) for line in changes if line.startswith(b"data: "))
        return number, {}

    def changes() -> http.client.HTTPResponse:
        """What a browser listens to."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience(2))
        connection.request("GET", "/changes")
        return connection.getresponse()

    def is_up() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            return b'EventSource("/changes")' in page.read()
        return False

    for _ in range(2):
        program.start()
        until(is_up, what="the page is not there")
        with changes() as stream:
            number, event = event_of(stream)
            while not event:
                number, event = event_of(stream)
        row = {"id": event["row"]["id"], "status": "new", "total": "1.00", "changed_by": None}
        assert event == {"kind": "insert", "row": row}
        assert 951 <= event["row"]["id"] <= number
        program.kill()


def test_a_program_gets_debeziums_documents_also_after_a_kill(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    program = recipe("come-from-debezium", {"6001": shop_relay.port, "my-secret": SECRET})
    RelayClient("127.0.0.1", shop_relay.port, "orders", SECRET).add_filter("shop", "orders")
    for number in (401, 402):
        program.start()
        shop.execute(f"INSERT INTO shop.orders VALUES ({number}, 'new', 1.50, NULL)")
        until(lambda: f'"id": {number}' in "".join(program.printed()), what="the document did not come")  # noqa: B023
        program.kill()
    document = json.loads(program.printed()[-1])
    assert document.pop("ts_ms") > document["source"].pop("ts_ms", 0)
    assert document == {
        "before": None,
        "after": {"id": 402, "status": "new", "total": "1.50", "changed_by": None},
        "source": {
            "connector": "binlog-relay", "snapshot": "false", "name": "shop", "db": "shop", "table": "orders",
            "sequence": document["source"]["sequence"],
        },
        "transaction": None,
        "op": "c",
    }  # fmt: skip


def test_a_lake_gives_the_current_rows_also_after_a_kill_of_the_exporter(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    lake = shop_relay.conf.parent / "lake"
    program = recipe("query-a-lake", {"/srv/lake": lake})
    shop.execute(
        "INSERT INTO shop.orders VALUES (301, 'new', 1.50, NULL), (302, 'new', 2.25, NULL), (303, 'paid', 7.00, NULL)",
        "UPDATE shop.orders SET id = 304, total = 8.00 WHERE id = 303",
        "DELETE FROM shop.orders WHERE id = 302",
    )

    def selected() -> list[list[str]]:
        rows = shop.execute("SELECT status, SUM(total), COUNT(*) FROM shop.orders GROUP BY status ORDER BY status + 0")
        return [[status, str(Decimal(total)), str(count)] for status, total, count in rows]

    def printed() -> list[list[str]]:
        done = program.run()
        not_yet = re.search("the lake (has no table shop.orders|lacks its rows from before the export)", done.stderr)
        assert done.returncode == 0 or not_yet, done.stderr
        return [line.split() for line in done.stdout.splitlines()]

    until(lambda: printed() == selected(), what="the lake's rows are not the table's", pause=0.5)
    shop.execute("UPDATE shop.orders SET status = 'paid'", "INSERT INTO shop.orders VALUES (305, 'new', 3.00, NULL)")
    os.kill(shop_relay.pids()["exporter"], signal.SIGKILL)
    shop.execute("DELETE FROM shop.orders WHERE id = 301")
    until(lambda: printed() == selected(), what="the lake's rows are not the table's after a kill", pause=0.5)


def test_duckdb_follows_an_open_table_also_after_kills_of_the_merger(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    import_extension("delta")  # which DuckDB would download
    table = shop_relay.conf.parent / "lake" / "delta" / "shop" / "orders"
    program = recipe("query-open-tables", {"/srv/lake/delta/shop/orders": table})

    def is_shown() -> bool:
        sums = "SELECT status, COUNT(*), SUM(total) FROM shop.orders GROUP BY status ORDER BY status + 0"
        line = ", ".join(f"{count} {status}: {total}" for status, count, total in shop.execute(sums))
        return program.printed()[-1:] == [f"{line}\n"]

    shop.execute("INSERT INTO shop.orders VALUES (501, 'new', 1.50, NULL), (502, 'new', 2.25, NULL)")
    until((table / "_delta_log" / f"{0:020}.json").exists, what="there is no open table")
    program.start()
    until(is_shown, what="the rows from before are not those of the table")
    shop.execute("UPDATE shop.orders SET status = 'paid' WHERE id = 501")
    until(is_shown, what="the table does not follow an update")
    for number in (503, 504):
        os.kill(shop_relay.pids()["merger"], signal.SIGKILL)
        shop.execute(f"INSERT INTO shop.orders VALUES ({number}, 'new', 4.00, NULL)", "DELETE FROM shop.orders LIMIT 1")
        until(is_shown, what="the table does not follow changes after a kill")


@pytest.mark.parametrize("kind", ["mariadb118", "mysql97"])
def test_an_audit_has_each_change_once_with_its_statement_also_after_kills(
    kind: str, request: pytest.FixtureRequest, make_db: Callable[[DatabaseServer], str], recipe: MakeRecipe
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    db = make_db(server)
    purge(server)  # the program begins with the oldest file
    statements = "binlog_rows_query_log_events" if server.kind.mysql else "binlog_annotate_row_events"
    with full_metadata_of(server), global_variable(server, statements, "ON"):
        program = recipe(
            "audit-changes",
            {'SHOP = "shop"': f'SHOP = "{db}"', "3306": server.port, 'user="audit"': f'user="{USER}"',
             "my-password": PASSWORD},
        )  # fmt: skip
        server.execute(
            f"CREATE TABLE {db}.orders (id INT PRIMARY KEY, total DECIMAL(8, 2), changed_by VARCHAR(20), raw BLOB)"
        )

        def changes() -> list[tuple[Any, ...]]:
            columns = "kind, before, after, statement, session, changed_by"
            return rows_of(program.folder / "audit.db", "changes", columns)

        program.start()
        for number in range(1, ROWS + 1):
            server.execute(f"INSERT INTO {db}.orders VALUES ({number}, 1.00, 'ada', x'00ff')")
            if number in (10, ROWS):
                until(changes, what="there is no change")
                program.kill()
                program.start()
        server.execute(
            f"UPDATE {db}.orders SET total = 2.00, changed_by = 'grace' WHERE id = 7",
            f"DELETE /* ticket 4711 */ FROM {db}.orders WHERE id = 7",
        )

        until(lambda: len(changes()) >= ROWS + 2, what="changes are missing")
    found = changes()
    images = [json.loads(after)["id"] for kind, _, after, *_ in found if kind == "insert"]
    assert images == [str(number) for number in range(1, ROWS + 1)]
    update, delete = found[ROWS:]
    seven = {"id": "7", "total": "1.00", "changed_by": "ada", "raw": "00ff"}
    assert (json.loads(update[1]), update[5]) == (seven, "grace")
    assert json.loads(update[2]) == json.loads(delete[1]) == seven | {"total": "2.00", "changed_by": "grace"}
    assert delete[2:4] == (None, f"DELETE /* ticket 4711 */ FROM {db}.orders WHERE id = 7")
    assert [row[1:3] for row in shown_query(program)] == [("insert", "ada"), ("update", "grace"), ("delete", "grace")]
    assert delete[5] == "grace"  # as the page says: the last one who wrote the row
    assert all((session is not None) == server.kind.mysql for *_, session, _ in found)


def test_a_cdc_client_continues_where_it_was_killed(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    port = shop_relay.stat()["cdc"]["port"]
    shop.execute("CREATE TABLE shop.carts (id INT PRIMARY KEY)")
    program = recipe(
        "replace-maxscale",
        {"cdc-client": CDC_USER, "my-password": CDC_PASSWORD, "4001": port, "shop.orders": "shop.carts"},
    )

    def ids() -> list[int]:
        return [json.loads(line)["id"] for line in program.printed()]

    shop.execute("INSERT INTO shop.carts VALUES (1), (2)", "INSERT INTO shop.carts VALUES (3)")
    program.start()
    until(lambda: ids() == [1, 2, 3], what="rows are missing")
    until(lambda: (program.folder / "orders.position").exists() and
          (program.folder / "orders.position").read_text().endswith(" 1"))  # fmt: skip
    program.kill()
    shop.execute("INSERT INTO shop.carts VALUES (4)")
    program.start()
    until(lambda: len(ids()) >= 4, what="the row that came while the program was dead is missing")
    assert ids() == [1, 2, 3, 4]


def test_a_comparison_of_relays_finds_what_differs_and_nothing_else(
    shop: DatabaseServer, shop_relay: RelayProcess, start_relay: Callable[..., RelayProcess], recipe: MakeRecipe
) -> None:
    shop.execute("CREATE TABLE shop.compared (id INT PRIMARY KEY, note VARCHAR(20))")
    other = start_relay(shop, {"Relay.NullText": "", "Relay.EventPosition": "timestamped", "Source.Tables": "shop.*"})
    program = recipe(
        "replace-the-original-relay",
        {"6001": other.port, "6011": shop_relay.port, "my-secret": SECRET, '"orders"': '"compared"'},
    )

    def confirmed(relay: RelayProcess) -> int:
        [client] = [each for each in relay.stat()["clients"] if each["name"] == "comparison"]
        return int(client["confirmed"])

    program.start()
    until(program.printed, what="the program did not begin")
    shop.execute(
        "INSERT INTO shop.compared VALUES (1, 'same'), (2, 'same')", "INSERT INTO shop.compared VALUES (3, NULL)"
    )
    until(lambda: confirmed(other) == confirmed(shop_relay) == 3, what="the rows did not come")
    program.interrupt()
    first, *differences, last = program.printed()
    assert (first, last) == ("comparing, until Ctrl-C\n", "4 rows, 2 without a counterpart\n")
    assert sorted(line.partition(":")[0] for line in differences) == ["only the new relay", "only the old relay"]
    assert all("3\\x00" in line and "same" not in line for line in differences)


def test_a_client_of_the_original_gets_the_rows_since_it_was_registered(
    shop: DatabaseServer, shop_relay: RelayProcess, recipe: MakeRecipe
) -> None:
    program = recipe("../from-mysql-replication-relay", {"6011": shop_relay.port, "my-secret": SECRET})
    assert program.run().returncode == 0
    shop.execute("INSERT INTO shop.orders VALUES (801, 'new', 12.50, NULL)", "DELETE FROM shop.orders WHERE id = 801")
    client = ReadmeClient(shop_relay.port)
    client.authenticate(SECRET, "my-client")
    row = until(client.poll, what="the row did not come")
    assert (row.kind, row.columns[0], row.columns[2][2]) == (1, ("id", "", "801"), "12.50")
    client.close()


def test_an_archive_gives_deleted_rows_and_its_commands_run(shop: DatabaseServer, recipe: MakeRecipe) -> None:
    shop.execute("FLUSH BINARY LOGS", "INSERT INTO shop.orders VALUES (701, 'paid', 7.50, 'eve')")
    [first, *_] = shop.execute("SHOW MASTER STATUS")[0]
    shop.execute("FLUSH BINARY LOGS", "UPDATE shop.orders SET total = 8.00 WHERE id = 701")
    shop.execute("DELETE FROM shop.orders WHERE id = 701", "DELETE FROM shop.products", "FLUSH BINARY LOGS")
    program = recipe("read-an-archive", {})
    names = sorted(name for [name, *_] in shop.execute("SHOW BINARY LOGS") if name >= first)[:2]
    files = [Path(shutil.copy(folder_of(shop) / name, program.folder)) for name in names]
    [line] = program.run(*reversed(files)).stdout.splitlines()
    deleted = json.loads(line)
    assert deleted["row"] == {"id": "701", "status": "paid", "total": "8.00", "changed_by": "eve"}
    assert deleted["place"].startswith(f"{names[1]}:")

    [commands, _] = [block for block in blocks("read-an-archive", "") if "relay tail" in block or "python" in block]
    for command in commands.replace("/backup/binlog.0*", " ".join(map(shlex.quote, map(str, files)))).splitlines():
        done = subprocess.run(
            ["bash", "-c", command.replace("relay", f"{sys.executable} -m relay", 1)],
            cwd=program.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        assert "701" in (done.stdout or (program.folder / "orders.jsonl").read_text())


@pytest.mark.parametrize("page", sorted(set(PAGES.glob("*.md")) - {INDEX}), ids=lambda page: page.stem)
def test_a_page_has_the_parts_of_a_recipe_and_the_style_of_the_project(page: Path) -> None:
    text = page.read_text()
    parts = ("\nYou need ", "```python\n", "\n## After a crash\n", "\n## Read on\n")
    assert not [part for part in parts if part not in text]
    assert f"({page.name})" in INDEX.read_text()
    [program] = blocks(page.stem, "python")
    for style in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *style, "--stdin-filename", f"docs/{page.stem}.py", "-"]
        done = subprocess.run(command, input=program, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
