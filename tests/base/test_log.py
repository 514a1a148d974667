"""Log lines: their two forms, the table of events, and that they contain no secrets."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from examples.dbserver import DatabaseServer
from relay.base.log import logger
from relay.base.log_events import EVENTS
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient
from relay.errors import RelayError, StopCode
from relay.protocol.classic_keys import accepted_keys
from tests.support import ROOT
from tests.support.relay_process import RelayProcess, run_relay

PAGE = (ROOT / "docs/log-events.md").read_text()
Read = Callable[[], str]


@pytest.fixture
def read(capfd: pytest.CaptureFixture[str]) -> Read:
    """What was logged since it was last asked."""
    return lambda: capfd.readouterr().err


def test_a_text_line_is_time_level_process_event_and_pairs(read: Read) -> None:
    logger("reader")("password_failed", cause="it is gone", retry_in=0.5)
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning reader password_failed cause="it is gone" retry_in=0\.5\n',
        read(),
    )


def test_a_json_line_has_the_same_with_numbers_as_numbers(read: Read) -> None:
    logger("supervisor", "json")("died", process="reader", code=-9, restart_in=0.05)
    record = json.loads(read())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("time"))
    head = {"level": "warning", "logger": "supervisor", "event": "died"}
    assert record == head | {"process": "reader", "code": -9, "restart_in": 0.05}


@pytest.mark.parametrize(
    "name", ["a\nforged line", "\r\x1b[2J", '"', "\\", "a=b", "", "\udcff\ud800", "\u202egnp", "\u2028", "x" * 100_000]
)
def test_what_comes_from_outside_stays_in_its_field(read: Read, name: str) -> None:
    logger("server-0")("auth_failed", client=name, peer="10.0.0.1")
    text = read()
    assert text.count("\n") == 1 and all(char.isprintable() for char in text[:-1])
    written = re.fullmatch(
        r'\S+ warning server-0 auth_failed client=(?:"((?:[^"\\]|\\.)*)"|(\S+)) peer=10.0.0.1\n', text
    )
    assert written
    logger("server-0", "json")("auth_failed", client=name, peer="10.0.0.1")
    record = read()
    assert record.count("\n") == 1
    assert json.loads(record)["client"] == name.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("form", ["text", "json"])
def test_codes_and_errors_are_logged_as_their_words(read: Read, form: str) -> None:
    error = RelayError(StopCode.DISK_FULL, "append", "no space left")
    logger("reader", form)("failed", code=error.code, error=error, hint=error.hint)
    shown = read()
    assert "disk_full" in shown and "append: no space left" in shown and "StopCode" not in shown


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    program = "from relay.base.log import logger\nfor _ in range(3): logger('reader')('stopping')\nprint('alive')"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=full, check=True
        )
    assert done.stdout == b"alive\n"


def logged() -> Iterator[tuple[str, str, set[str]]]:
    """Every literal event in the source: place, name, names of its literal fields."""
    for path in sorted((ROOT / "relay").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if (
                called in ("log", "_log", "refusals", "rejections", "_rejections")
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield place, first.value, {keyword.arg for keyword in node.keywords if keyword.arg}


def test_every_event_that_the_source_logs_is_in_the_table_with_its_fields() -> None:
    found = list(logged())
    assert len(found) > 40
    unlisted = [f"{place}: {name}" for place, name, _ in found if name not in EVENTS]
    assert not unlisted, f"not in EVENTS of relay/base/log_events.py: {unlisted}"
    unnamed = [
        f"{place}: {name} {fields - set(EVENTS[name].fields.split())}"
        for place, name, fields in found
        if fields - set(EVENTS[name].fields.split())
    ]
    assert not unnamed, f"fields that EVENTS of relay/base/log_events.py does not name: {unnamed}"
    assert not EVENTS.keys() - {name for _, name, _ in found}, "in the table, and nobody logs it"


def test_no_field_hides_what_every_json_record_has() -> None:
    assert not [
        name for name, event in EVENTS.items() if {"time", "level", "logger", "event"} & {*event.fields.split()}
    ]
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in EVENTS)


@pytest.mark.parametrize("name", EVENTS)
def test_the_page_tells_of_every_event_as_the_table_does(name: str) -> None:
    event = EVENTS[name]
    fields = ", ".join(f"`{field}`" for field in event.fields.split())
    assert f"| `{name}` | {event.level} | {fields} | {event.meaning} |\n" in PAGE


def test_the_page_tells_of_nothing_else() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| \w+ \| ", PAGE, re.MULTILINE)) == EVENTS.keys()


def fails(command: Callable[[], object]) -> None:
    with pytest.raises(RelayError):
        command()


def test_no_secret_is_ever_in_a_log_line_or_an_error(
    mariadb1011: DatabaseServer, start_relay: Callable[..., RelayProcess]
) -> None:
    marks = {name: f"Mark{name}{os.urandom(5).hex()}" for name in ("Source", "Schema", "Auth", "Admin", "Own", "Wrong")}
    user = f"u_{os.urandom(4).hex()}"
    mariadb1011.execute(
        f"CREATE USER {user} IDENTIFIED BY '{marks['Source']}'",
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}",
    )
    relay = start_relay(
        mariadb1011,
        {
            "Server.Login": user, "Server.Password": marks["Source"], "Server.AuthSecret": marks["Auth"],
            "Server.AdminSecret": marks["Admin"], "Client shop.Secret": marks["Own"], "Client shop.Tables": "shop.*",
            "MySQL.Login": user, "MySQL.Password": marks["Schema"], "Relay.LogFormat": "json",
        },
    )  # fmt: skip
    told = ""
    with RelayClient("127.0.0.1", relay.port, "shop", marks["Own"]) as client:
        client.add_filter("shop")
        fails(lambda: client.add_filter("other"))
    for name, secret in (("shop", marks["Auth"]), ("other", marks["Wrong"])):
        fails(RelayClient("127.0.0.1", relay.port, name, secret, patience=0).connect)
    with AdminClient("127.0.0.1", relay.port, marks["Wrong"]) as stranger:
        fails(stranger.pause)
    administrative = ("pause", "resume", "client flush shop", "client flush nobody", "stat", "check")
    for command in (*administrative, "stat --tcp", "pause --tcp", "resume --tcp"):
        done = run_relay(*command.split(), "-c", relay.conf)
        told += done.stdout + done.stderr
    assert run_relay("stat", "--tcp", "-c", relay.conf, "--set", f"Server.AdminSecret={marks['Wrong']}").returncode != 0
    relay.stop()
    mariadb1011.execute(f"ALTER USER {user} IDENTIFIED BY 'another'")  # now the source denies the account
    relay.start()
    assert "source_denied" in relay.ready
    relay.stop()
    mariadb1011.execute(f"DROP USER {user}")
    told += relay.stderr.read_text() + relay.stdout.read_text()
    assert {"auth_failed", "filter_denied", "admin_refused", "client_flushed", "failed", "stopped"} <= {
        name for name in EVENTS if re.search(rf"\b{name}\b", told)
    }
    for secret in marks.values():
        assert secret not in told
        for key in accepted_keys(secret.encode(), legacy=True):
            assert not re.search(f"{key}|{key:x}|{key & 0xFFFFFFFF}|{key >> 32}", told, re.IGNORECASE)
    lines = [line for line in relay.stderr.read_text().splitlines() if not line.startswith("relay: ")]
    assert {json.loads(line)["level"] for line in lines} == {"info", "warning", "error"}
