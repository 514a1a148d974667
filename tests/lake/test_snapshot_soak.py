"""The snapshot beside a random workload on tables of every type, with DDL: in the end the lake equals the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay.errors import RelayError, StopCode
from relay.lake.documents import Table
from relay.lake.snapshot import table
from relay.source.failures import SourceLost
from tests.support import random_tables
from tests.support.chance import seeds
from tests.support.lake_rows import difference, selected
from tests.support.lake_state import current
from tests.support.random_tables import RandomWorkload
from tests.support.snapshot_lake import Lake, MakeReader, running
from tests.support.value_cases import CASES

STEPS = 6  # transactions between looks at whether to go on
ROUNDS = 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 1))
@pytest.mark.usefixtures("full_metadata")
def test_every_table_is_the_source_whatever_happened_meanwhile(
    server: DatabaseServer,
    db: str,
    tmp_path: Path,
    make_reader: MakeReader,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    monkeypatch.setattr(table, "FILE_BYTES", 20_000)
    # MariaDB's CONVERT TO CHARACTER SET leaves bytes of the old character set in labels: no text to compare.
    plain = [case for case in CASES if case.family != "enum and set" or case.sql.isascii()]
    monkeypatch.setattr(random_tables, "CASES", plain)
    with visible_in_order(server, bool(seed % 2)), closing(RandomWorkload(server, db, seed)) as life:
        life.fill(40)
        lake = Lake(server, db, tmp_path, make_reader)
        with running(lambda: life.run(STEPS)), lake.exporting():
            for _ in range(ROUNDS):
                fetch_what_is_there(lake)
        life.touch()
        lake.export()
        lake.fetch(most_rows=3)
        lake.export()
        wrong = []
        for one in life.tables:
            name = Table(db, one.name)
            fields, rows = current(str(lake.storage.url()), name)
            wanted = Counter(selected(server, db, one.name, fields))
            wrong += [f"{one.name}: {line}" for line in [difference(wanted, rows, fields)] if line]
        assert not wrong, "\n".join(wrong)


@contextmanager
def visible_in_order(server: DatabaseServer, always: bool) -> Iterator[None]:
    """Within the block, transactions of MySQL become visible in the binlog's order, or in any."""
    if not server.kind.mysql:
        yield
        return
    server.execute(f"SET GLOBAL binlog_order_commits = {'ON' if always else 'OFF'}")
    try:
        yield
    finally:
        server.execute("SET GLOBAL binlog_order_commits = ON")


def fetch_what_is_there(lake: Lake) -> None:
    """One round. A table that a statement takes away meanwhile is none of it, and one whose rows stay locked waits."""
    with lake.snapshots(most_rows=3) as snapshots:
        for name in snapshots.todo():
            try:
                snapshots.fetch(name)
            except RelayError as error:
                if error.code is not StopCode.SOURCE_DENIED:
                    raise
            except SourceLost as error:
                if not error.sent_by_server:
                    raise
