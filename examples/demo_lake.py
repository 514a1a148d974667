"""From a database to Parquet, Spark and a plot within a minute: `make demo-lake`; KEEP=1 keeps it running.

A MariaDB server starts in a temporary folder with a few rows in it, the relay connects to it with a lake, and the
workload of `make demo` runs. Spark merges the lake; each table is printed beside the source's `SELECT *`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.dbserver import PASSWORD, USER, DatabaseServer
from examples.demo import TABLES, run_workload, running_relay, say, step
from examples.lakeside import wait_caught_up
from relay.lake.documents import LakeState, Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 30.0  # seconds for the lake to have everything
LAKE_TABLES = (Table("shop", "customers"), Table("shop", "orders"))
EXISTING = (
    "INSERT INTO shop.customers (name, city) VALUES ('Alan', 'Wilmslow'), ('Edsger', 'Rotterdam')",
    "INSERT INTO shop.orders (customer, total, status, placed) VALUES (1, 20.00, 'paid', '2025-12-24 18:00:00'),"
    " (2, 5.75, 'sent', '2025-12-28 10:15:00'), (2, 8.00, 'new', '2025-12-30 11:45:00')",
)
"""The contents of the tables before the relay starts; a snapshot fetches them."""
RELAY = (sys.executable, "-m", "relay")


def show_files(state: LakeState, shown: set[str]) -> None:
    """Shows the lake's files that were not shown before."""
    for table in state.tables.values():
        for path, file in table.files.items():
            if path not in shown:
                shown.add(path)
                say(f"{path}  {file.rows} rows, {file.bytes} bytes")


def relay(*arguments: object) -> None:
    """Runs a command of the relay, as one would by hand, and shows what it prints."""
    line = [str(argument) for argument in arguments]
    say(f"$ relay {' '.join(line)}")
    done = subprocess.run([*RELAY, *line], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"relay {line[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    say(done.stdout.rstrip())


def show_comparison(server: DatabaseServer, spark: SparkSession, lake: Path, table: Table) -> bool:
    """Prints a table from the source and from the lake, row by row. True if they are equal."""
    from relay.spark import current

    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")
        source = [texts(row) for row in cursor.fetchall()]
        names = [column[0] for column in cursor.description]
    frame = current(spark, str(lake), str(table))
    merged = [texts(row) for row in frame.orderBy("id").collect()]
    equal = source == merged and names == frame.columns
    width = max(len(" | ".join(row)) for row in (names, *source))
    say(f"{f'SELECT * FROM {table}':<{width}}    current(spark, lake, {str(table)!r})")
    lines: list[list[str]] = [names, *source]
    for left, right in zip_longest(lines, [frame.columns, *merged], fillvalue=list[str]()):
        say(f"{' | '.join(left):<{width}}  {'=' if left == right else '!'}  {' | '.join(right)}")
    say("equal" if equal else "NOT EQUAL")
    return equal


def texts(values: Sequence[Any]) -> list[str]:
    return ["NULL" if value is None else str(value) for value in values]


def session() -> SparkSession:
    """A small Spark session in this process, with few messages."""
    from pyspark.sql import SparkSession

    from relay.spark.submit import environment_of

    settings = ["spark.sql.shuffle.partitions=2"]  # there is little data to shuffle
    os.environ.update(environment_of("demo", "local[2]", settings, os.environ))
    return SparkSession.builder.getOrCreate()


def main() -> int:
    """Runs the demo; 0 if every table of the lake equals its source."""
    keep = bool(os.environ.get("KEEP"))
    begun = time.monotonic()
    shown: set[str] = set()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-demo-")))
        lake = folder / "lake"
        step("a throwaway MariaDB server, with rows in it")
        server = stack.enter_context(DatabaseServer("mariadb118", options=("--binlog-row-metadata=FULL",)))
        server.execute(*TABLES, *EXISTING)
        say(f"{server.kind.title} on 127.0.0.1:{server.port}, user {USER}, password {PASSWORD}")
        step("relay start, with a lake: a snapshot of what is there")
        settings = f"[Lake]\nPath = {lake}\nTables = shop.*\nRollSeconds = 1\n"
        _, conf = stack.enter_context(running_relay(folder, server, settings))
        log = LakeLog(open_storage(str(lake)))
        show_files(wait_caught_up(log, server, LAKE_TABLES, PATIENCE), shown)
        step("the workload of make demo: files of changes")
        work = threading.Thread(target=run_workload, args=(server,))
        work.start()
        spark = session()  # takes as long as the workload
        stack.callback(spark.stop)
        work.join()
        show_files(wait_caught_up(log, server, LAKE_TABLES, PATIENCE), shown)
        step("Spark: changes to tables")
        relay("spark", "merge", "--lake", lake)
        differing = [str(table) for table in LAKE_TABLES if not show_comparison(server, spark, lake, table)]
        step("Spark: what changed when")
        plot = Path(tempfile.gettempdir()) / f"relay-usage-{datetime.now(UTC):%Y%m%d-%H%M%S}.png"
        relay("spark", "usage", "--lake", lake, "--plot", plot)
        if keep:
            show_by_hand(conf, lake, server)
    step("summary")
    say(f"{f'NOT EQUAL: {differing}' if differing else 'every table equals its source'}; the plot stays: {plot}")
    say(f"done in {time.monotonic() - begun:.0f} s, everything else removed")
    return 1 if differing else 0


def show_by_hand(conf: Path, lake: Path, server: DatabaseServer) -> None:
    """Shows what to try, until Ctrl-C."""
    statement = "INSERT INTO shop.customers (name, city) VALUES ('Eve', 'Ghent')"
    step("by hand, while it runs")
    say(f"export LAKE={lake} PORT={server.port} CONF={conf}")
    say(f'.venv/bin/python -m examples.sql $PORT "{statement}"')
    say(".venv/bin/relay spark merge --lake $LAKE\n.venv/bin/relay stat -c $CONF")
    say(".venv/bin/python    # docs/lake-tutorial.md continues here")
    say("Ctrl-C ends it and removes everything but the plot.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        say()


if __name__ == "__main__":
    sys.exit(main())
