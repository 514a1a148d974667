"""The first five minutes of a newcomer: terminal and page say what to do next, in each state.

The page's pictures are kept in build/first-minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from examples.dbserver import DatabaseServer, free_port
from relay.errors import ExitCode
from tests.commands.test_url import started, url_of
from tests.support import ROOT
from tests.support.relay_process import Program, RelayProcess, run_relay
from tests.support.waiting import patience, until

PICTURES = ROOT / "build" / "first-minutes"
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def source() -> Iterator[DatabaseServer]:
    """A server of this module alone: no row but those of a test may come from it."""
    with DatabaseServer("mysql97") as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, item VARCHAR(40))")
        yield server


def look(open_page: Open, relay: RelayProcess, name: str, *texts: str) -> None:
    """Wait until the page has these texts, and keep a picture of it."""
    page = open_page(f"http://127.0.0.1:{relay.http_port}/", viewport={"width": 1280, "height": 900})
    for text in texts:
        expect(page.locator("body")).to_contain_text(text, timeout=patience(30_000))
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
    page.close()  # it would miss the relay when that ends


def stat(tmp_path: Path) -> str:
    """What `relay stat` prints, on one line: the width of the terminal breaks it anywhere."""
    return " ".join(run_relay("stat", "--data", tmp_path / "data").stdout.split())


def test_nothing_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("start", "stat", "tail"):
        done = run_relay(command)
        assert done.returncode == ExitCode.CONFIG
        assert "`relay init` writes one; `relay start mysql://LOGIN@HOST/`" in done.stderr


def test_the_source_does_not_run(tmp_path: Path, open_page: Open) -> None:
    with started(tmp_path, f"mysql://relay:relaypw@127.0.0.1:{free_port()}/") as relay:
        until(lambda: "source_lost" in relay.stderr.read_text())
        assert 'hint="check that the server runs, and that its URL' in relay.stderr.read_text()
        until(lambda: "the relay retries by itself; `relay check` reports what is wrong" in stat(tmp_path))
        look(open_page, relay, "no-source", "The source was never reached", "`relay check` reports what is wrong")


def test_the_password_is_wrong(source: DatabaseServer, tmp_path: Path, open_page: Open) -> None:
    remedy = ("check login and password in the URL", "afterwards run `relay reload`", "and `relay resume`")
    with started(tmp_path, url_of(source, "nonsense")) as relay:
        until(lambda: "stop source_denied" in stat(tmp_path))
        for text in remedy:
            assert text in stat(tmp_path) and text in relay.stderr.read_text()
        look(open_page, relay, "wrong-password", "source_denied", *remedy)


def test_no_rows_yet_then_one_client_then_a_stop(source: DatabaseServer, tmp_path: Path, open_page: Open) -> None:
    first, remedy = "nsert a row at the source: it appears here and at clients", "set binlog_format = ROW on the source"
    with started(tmp_path, url_of(source)) as relay:
        until(lambda: f"hint i{first}" in stat(tmp_path))
        look(open_page, relay, "no-rows", "No rows yet", f"I{first}", "The command relay tail prints rows")
        with Program("tail", "--data", tmp_path / "data", "shop.*", *relay.flags) as tail:
            until(lambda: any(client["filters"] for client in relay.stat()["clients"]))
            source.execute("INSERT INTO shop.orders VALUES (1, 'tea')")
            assert '"after":{"id":1,"item":"tea"}' in tail.stdout.readline()
            until(lambda: "relay-tail" in stat(tmp_path) and "shop.orders" in stat(tmp_path))
            look(open_page, relay, "one-client", "All is well", "relay-tail", "shop.orders")
        with source.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = STATEMENT")
            cursor.execute("INSERT INTO shop.orders VALUES (2, 'milk')")
            connection.commit()
        until(lambda: "stop statement_format" in stat(tmp_path))
        assert remedy in stat(tmp_path) and "and `relay resume`" in stat(tmp_path)
        look(open_page, relay, "stop", "statement_format", remedy, "and `relay resume`")
