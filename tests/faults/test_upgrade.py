"""DataDirs and lakes of earlier releases: clients get what waited for them and then new rows; tables are as they were.

tests/fixtures/release/record.py recorded them. The first is of a release whose journal does not name the server of a
transaction and whose state files have no format number.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient, Row
from relay.lake.documents import Table
from tests.faults.ordeal import Allows, Line
from tests.fixtures.release.record import IN_FLIGHT, plain
from tests.support.exported_lake import Lake
from tests.support.lake_rows import checksum
from tests.support.lake_state import current
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
RECORDED = sorted((Path(__file__).parents[1] / "fixtures" / "release").glob("*.tar.xz"))
Start = Callable[..., RelayProcess]


def fetched(relay: RelayProcess, name: str, count: int) -> list[Row]:
    """The next rows of that client, confirmed; all there are if `count` is 0."""
    rows: list[Row] = []
    with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
        while len(rows) < count and (more := client.poll_many(wait=patience(10))):
            rows += more
        return rows + client.poll_many()


def checksums(lake: Lake, tables: Iterable[str]) -> dict[str, list[object]]:
    """The number of rows and the sum of each table's last complete state, as expected.json has them."""
    return {name: [*checksum(current(str(lake.folder), Table("shop", name))[1].elements())] for name in tables}


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_clients_of_the_release_before_get_their_rows(
    mariadb1011: DatabaseServer,
    mysql97: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    tell: Callable[[Line], None],
    recorded: Path,
) -> None:
    server = mariadb1011 if "mysql" in recorded.name else mysql97  # of another make: known at once for a wrong one
    relay = start_relay(server)
    relay.end()
    folder = relay.conf.parent
    with tarfile.open(recorded) as archive:
        archive.extractall(folder / "before", filter="data")
    (folder / "data").rename(folder / "unused")
    (folder / "before" / "data").rename(folder / "data")
    log = folder / "data" / "log"
    expected = json.loads((folder / "before" / "expected.json").read_text())
    lake = Lake(folder / "before" / "lake") if "lake" in expected else None
    sections = f"[Logger]\nSchema = shop\nPath = {log}\n"
    if lake is not None:
        assert checksums(lake, expected["lake"]) == expected["lake"]
        sections += f"[Lake]\nPath = {lake.folder}\nRollSeconds = 1s\n"
    relay.conf.write_text(f"{relay.conf.read_text()}\n{sections}")
    lines = {path.name: path.read_bytes() for path in log.glob("*.txt")}
    assert lines
    relay.start()
    assert until(lambda: relay.stat()["stop"])["code"] == "wrong_source", "its own server is gone"
    sent = delivered = 0
    for name, wanted in expected["clients"].items():
        rows = fetched(relay, name, len(wanted))
        assert [plain(row) for row in rows] == wanted, name
        sent, delivered = sent + len(wanted), delivered + len(rows)
        if wanted:
            assert [row.sequence for row in rows] == sorted({row.sequence for row in rows})
    books = {client["name"]: client for client in relay.stat()["clients"]}
    for name, book in books.items():
        assert book["matched"] == expected["matched"][name], book
        dropped = sum(book["dropped"].values())
        assert book["matched"] == book["confirmed"] + book["in_flight"] + book["waiting"] + dropped, book
        assert book["confirmed"] == len(expected["clients"][name]) + expected["confirmed"].get(name, 0), book
    usage = until(lambda: relay.stat()["usage"]["tables"])
    assert {table["table"]: table["total"] for table in usage} == expected["usage"]
    assert {path.name: path.read_bytes() for path in log.glob("*.txt")} == lines, "lines were written again"
    relay.accept_gap()
    until(lambda: relay.stat()["state"] == "running")
    db = make_db(server)
    with RelayClient("127.0.0.1", relay.port, "half", SECRET) as client:
        client.add_filter(db)
        server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2), (3)")
        came: list[Row] = []
        while len(came) < 3 and (more := client.poll_many(wait=patience(10))):
            came += more
        assert [row.after for row in came] == [{"id": 1}, {"id": 2}, {"id": 3}]
    if lake is not None:

        def changes() -> list[int]:
            # The snapshotter may have copied the new table too, before the exporter reached its rows.
            return [row["id"] for row in lake.rows(db, "t") if row["_change_type"] != "snapshot"]

        until(lambda: changes() == [1, 2, 3], what="the lake did not go on")
        lake.check()
        assert [gap.reason for gap in lake.state().gaps], "the source is another one"
        assert lake.table("shop", "alpha").complete_from is None, "what happened meanwhile is not known"
    # IN_FLIGHT rows of "half" were handed out and not confirmed when the release before ended.
    repeated, allows = IN_FLIGHT, Allows.IN_FLIGHT.value
    fault = "upgrade: DataDir of the release before"
    tell(Line(fault, 1, sent, delivered, sent - delivered, repeated, allows, 0.0))
