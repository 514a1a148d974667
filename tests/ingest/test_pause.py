"""The position where reading has stopped is reported exactly: in a pause, and in a drain's receipt."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess, run_relay
from tests.support.waiting import until


@contextmanager
def written_to(server: DatabaseServer, table: str) -> Iterator[None]:
    """Meanwhile one transaction after the other of one row is made."""
    enough = threading.Event()

    def write() -> None:
        connection = server.connect()
        with connection, connection.cursor() as cursor:
            while not enough.is_set():
                cursor.execute(f"INSERT INTO {table} VALUES ()")
                connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        enough.set()
        writer.join()


def test_a_pause_and_a_drain_under_load_name_the_last_transaction_that_was_read(
    mariadb118: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Callable[..., RelayProcess],
) -> None:
    server, db = mariadb118, make_db(mariadb118)
    relay = start_relay(server)
    server.execute(f"CREATE TABLE {db}.t (id INT AUTO_INCREMENT PRIMARY KEY)")
    [[before]] = server.execute("SELECT @@GLOBAL.gtid_binlog_pos")
    until(lambda: relay.stat()["source"]["gtid_set"])  # the source is asked for its tables first

    def read() -> tuple[int, int]:
        """Rows, and transactions, that the document tells of; there is one row in each."""
        document = relay.stat()
        return document["clients"][0]["matched"], newest(document["source"]["gtid_set"]) - newest(before)

    with (
        RelayClient("127.0.0.1", relay.port, "a", SECRET) as client,
        AdminClient("127.0.0.1", relay.port, ADMIN_SECRET) as admin,
    ):
        client.add_filter(db, "t")
        for _ in range(2):
            rows, _ = read()
            with written_to(server, f"{db}.t"):
                until(lambda least=rows: read()[0] > least + 50)  # type: ignore[misc]
                admin.pause()
                until(lambda: relay.stat()["state"] == "paused")
            until(lambda: (journal := relay.stat()["journal"])["decided"] == journal["committed"])
            rows, transactions = read()
            assert rows == transactions
            admin.resume()
            until(lambda: relay.stat()["state"] == "running")
    with written_to(server, f"{db}.t"):
        shown = run_relay("drain", "--timeout", "1", "-c", relay.conf).stdout
    remaining = re.search(r"^([\d,]+) rows remain$", shown, re.MULTILINE)
    gtid_set = re.search(r"^gtid +(\S+)$", shown, re.MULTILINE)
    assert remaining and gtid_set
    assert int(remaining[1].replace(",", "")) == newest(gtid_set[1]) - newest(before)


def newest(gtid_set: str) -> int:
    """The number of domain 0, which is that of every session that asks for no other."""
    found = re.search(r"(?:^|,)0-\d+-(\d+)", gtid_set)
    assert found, gtid_set
    return int(found[1])
