"""The whole relay in half a minute, on a throwaway database server: `make demo`; KEEP=1 keeps it running.

A MariaDB server starts in a temporary folder, the relay connects to it, two clients with different filters connect to
the relay, and a small workload runs. Every event is shown as it arrives; at the end the events are compared with the
workload.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port

SECRET = "demo-secret"
PATIENCE = 20.0  # seconds until the last event must have arrived

TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), city VARCHAR(40))",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, total DECIMAL(8,2),"
    " status ENUM('new','paid','sent'), placed DATETIME)",
)
WORKLOAD = (
    "INSERT INTO shop.customers (name, city) VALUES ('Ada', 'London'), ('Grace', 'New York'), ('Zoë', 'Liège')",
    "INSERT INTO shop.orders (customer, total, status, placed) VALUES (1, 12.50, 'new', '2026-01-05 09:30:00')",
    "INSERT INTO shop.orders (customer, total, status, placed) VALUES (2, 99.00, 'new', '2026-01-05 09:31:00'),"
    " (3, 7.25, 'new', '2026-01-05 09:32:00')",
    "UPDATE shop.orders SET status = 'paid' WHERE id = 1",
    "UPDATE shop.customers SET city = 'Paris' WHERE name = 'Ada'",
    "ALTER TABLE shop.orders ADD COLUMN note VARCHAR(60) AFTER status",
    "INSERT INTO shop.orders (customer, total, status, note, placed)"
    " VALUES (1, 3.10, 'new', 'gift wrap', '2026-01-05 09:40:00')",
    "UPDATE shop.orders SET status = 'sent', note = 'left the house' WHERE id = 1",
    "DELETE FROM shop.orders WHERE id = 3",
    "INSERT INTO shop.customers (name, city) VALUES ('Linus', 'Helsinki')",
)


Event: TypeAlias = tuple[str, str]  # client name and the line that it printed


@dataclass
class Consumer:
    """A client of the relay: its filter, and the rows of the workload that it must get, by kind."""

    name: str
    schema: str
    table: str
    kinds: str
    expected: Counter[str]
    got: Counter[str] = field(default_factory=Counter)


CONSUMERS = (
    Consumer("order-feed", "shop", "orders", "IUD", Counter(insert=4, update=2, delete=1)),
    Consumer("new-customers", "shop", "customers", "I", Counter(insert=4)),
)


def say(text: str = "") -> None:
    print(text, flush=True)


def step(text: str) -> None:
    say(f"\n\033[1m== {text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


@contextmanager
def running_relay(folder: Path, server: DatabaseServer, more: str = "") -> Iterator[tuple[int, Path]]:
    """Runs `relay start` on its own configuration, with `more` appended; yields the classic port and the file."""
    port, http_port = free_port(), free_port()
    conf = folder / "relay.conf"
    conf.write_text(
        f"""[Server]
IPAddr = 127.0.0.1
Port = {server.port}
Login = {USER}
Password = {PASSWORD}
AuthSecret = {SECRET}
AdminSecret = demo-admin
BindAddress = 127.0.0.1
ServerPort = {port}
HTTPAddress = 127.0.0.1
HTTPPort = {http_port}

[Relay]
DataDir = {folder / "data"}
SegmentBytes = 16MiB

{more}"""
    )
    log = folder / "relay.log"
    with open(log, "w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "relay", "start", "-c", str(conf)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None
        try:
            ready = process.stdout.readline().strip()
            if not ready.startswith("ready"):
                raise SystemExit(f"the relay did not start; its log:\n{log.read_text()}")
            say(ready)
            yield port, conf
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def running_client(consumer: Consumer, folder: Path, port: int, shown: queue.Queue[Event]) -> Iterator[None]:
    """Runs examples/client.py in its own process, once its filter is set; its lines go to `shown`."""
    conf = folder / f"{consumer.name}.conf"
    conf.write_text(
        f"""[Relay]
Host = 127.0.0.1
Port = {port}

[Client]
Name = {consumer.name}
Secret = {SECRET}

[Filter]
Schema = {consumer.schema}
Table = {consumer.table}
Kinds = {consumer.kinds}
Limit = 0
"""
    )
    process = subprocess.Popen([sys.executable, "-m", "examples.client", str(conf)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = process.stdout
    try:
        say(lines.readline().rstrip())
        threading.Thread(target=forward_lines, args=(consumer.name, lines, shown)).start()
        yield
    finally:
        process.terminate()
        process.wait(10)


def forward_lines(name: str, lines: Iterable[str], shown: queue.Queue[Event]) -> None:
    for line in lines:
        shown.put((name, line.rstrip()))


def show(name: str, line: str) -> None:
    say(f"{name:<14}  {line}")


def show_events(shown: queue.Queue[Event]) -> bool:
    """Prints each event when it arrives. True when every consumer has what it must get."""
    by_name = {consumer.name: consumer for consumer in CONSUMERS}
    deadline = time.monotonic() + PATIENCE
    while any(c.got != c.expected for c in CONSUMERS) and time.monotonic() < deadline:
        try:
            name, line = shown.get(timeout=0.2)
        except queue.Empty:
            continue
        by_name[name].got[line.split()[0]] += 1
        show(name, line)
    return all(c.got == c.expected for c in CONSUMERS)


def show_until_interrupted(shown: queue.Queue[Event]) -> None:
    try:
        while True:
            show(*shown.get())
    except KeyboardInterrupt:
        say()


def run_workload(server: DatabaseServer) -> None:
    for statement in WORKLOAD:
        server.execute(statement)
        time.sleep(0.3)  # so that a person can follow


def show_by_hand(conf: Path, server: DatabaseServer) -> None:
    relay, statement = ".venv/bin/relay", "INSERT INTO shop.customers (name) VALUES ('Eve')"
    say(f"{relay} stat -c {conf}\n{relay} tail -c {conf} 'shop.*'\n{relay} drain -c {conf}")
    say(f'.venv/bin/python -m examples.sql {server.port} "{statement}"')


def main() -> int:
    """Runs the demo; 0 if every consumer got exactly its rows."""
    keep = bool(os.environ.get("KEEP"))
    begun = time.monotonic()
    shown: queue.Queue[Event] = queue.Queue()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-demo-")))
        step("a throwaway MariaDB server in a temporary folder")
        server = stack.enter_context(DatabaseServer("mariadb118", options=("--binlog-row-metadata=FULL",)))
        server.execute(*TABLES)
        say(f"{server.kind.title} on 127.0.0.1:{server.port}, user {USER}, password {PASSWORD}")
        step("relay start")
        port, conf = stack.enter_context(running_relay(folder, server))
        step("two clients (examples/client.py), each with its filter")
        for consumer in CONSUMERS:
            stack.enter_context(running_client(consumer, folder, port, shown))
        step("the workload, and the events as they arrive")
        say(f"{'client':<14}  {'event':<6}  {'table':<15}  values")
        say("  ".join("-" * width for width in (14, 6, 15, 40)))
        work = threading.Thread(target=run_workload, args=(server,))
        work.start()
        complete = show_events(shown)
        work.join()
        step("by hand, while it runs" if keep else "by hand (make demo KEEP=1 leaves it running)")
        show_by_hand(conf, server)
        if keep:
            say("Ctrl-C ends it and removes everything; until then events are shown here.\n")
            show_until_interrupted(shown)
    step("summary")
    for consumer in CONSUMERS:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(consumer.got.items()))
        say(f"{consumer.name:<14}  {'as expected' if consumer.got == consumer.expected else 'INCOMPLETE'}: {counts}")
    say(f"done in {time.monotonic() - begun:.0f} s, everything removed")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
