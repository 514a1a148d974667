"""A public data set arrives complete: existing rows at the start of the relay, and later changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.dbserver import DatabaseServer
from examples.lakeside import wait_caught_up
from relay.lake import paths
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark import current
from tests.support.lake_rows import checksum, in_lake, selected
from tests.support.nyc_flights import ROWS, TABLES, Flights
from tests.support.relay_process import RelayProcess

pytestmark = pytest.mark.spark

AFTERWARDS = (
    "UPDATE flights SET arr_delay = arr_delay + 1 WHERE dest = 'ATL'",
    "UPDATE planes SET speed = 400 WHERE manufacturer = 'BOEING'",
    "UPDATE flights SET id = id + 1000000 WHERE id % 1000 = 0",
    "DELETE FROM flights WHERE carrier = 'HA'",
    "UPDATE airlines SET name = 'Hawaiian' WHERE carrier = 'HA'",
    "INSERT INTO airports (faa, name, lat, lon, alt, tz, dst, tzone) SELECT 'BQN', 'Aguadilla', 18.49, -67.13, 72, -4,"
    " 'A', NULL",
    "UPDATE flights SET dest = 'BQN' WHERE dest IS NULL AND distance > 1570",
)
"""What goes on after all rows are there; keys change too."""


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118"])
@pytest.mark.timeout(400)
def test_a_public_data_set_arrives_complete(
    kind: str,
    request: pytest.FixtureRequest,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Callable[..., RelayProcess],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    db, lake = make_db(server), str(tmp_path / "lake")
    flights = Flights(server, db, tmp_path)
    flights.load(slice(0, None, 2))
    start_relay(
        server, {"Lake.Path": lake, "Lake.Tables": f"{db}.*", "Lake.RollSeconds": 2, "Source.Tables": f"{db}.*"}
    )
    flights.load(slice(1, None, 2))
    flights.close()
    assert {table: server.execute(f"SELECT COUNT(*) FROM {db}.{table}")[0][0] for table in TABLES} == ROWS
    server.execute(f"USE {db}", *AFTERWARDS)

    state = wait_caught_up(LakeLog(open_storage(lake)), server, [Table(db, table) for table in TABLES], 120)
    for table in TABLES:
        fields = state.tables[paths.table_key(Table(db, table))].version.fields
        arrow = current(spark, lake, Table(db, table)).toArrow()
        there = checksum(in_lake(arrow.to_pydict(), fields, arrow.num_rows))
        assert there == checksum(selected(server, db, table, fields)), f"{table} differs"
