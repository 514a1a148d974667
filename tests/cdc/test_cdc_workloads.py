"""A random workload on the CDC service with a constructed journal, compared with a model of what each client must get.

Transactions of several domains and tables that cross the ends of segments, definitions that change, retention,
restarts, and clients of either form that come at any time, from the beginning, a version, or a transaction.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from relay._native import JournalReader
from relay.journal.frames import Commit, decode
from tests.support.cdc_client import CdcClient, triplet_of
from tests.support.cdc_in_process import ServiceInProcess, inside
from tests.support.chance import seeds
from tests.support.journal_builder import DELETE, ID, INSERT, NAME, NOON, SEGMENT, UPDATE, Made, column
from tests.support.waiting import until

KINDS = {INSERT: ("insert",), UPDATE: ("update_before", "update_after"), DELETE: ("delete",)}
SHAPES = ((ID, NAME), (ID, NAME, column("more", 3)), (column("id", 8), NAME))
TABLES = ("t", "u")


class Image(NamedTuple):
    """A row as a client should see it; `version` is that of the schema before it."""

    gtid: str
    event_number: int
    event_type: str
    columns: dict[str, Any]
    version: int


class Life:
    """A journal, and what is in it: `images` of each table by GTID."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.made = Made(folder / "journal")
        self.images: dict[str, dict[str, list[Image]]] = {table: {} for table in TABLES}
        self.order: list[str] = []  # GTIDs
        self._shape = dict.fromkeys(TABLES, 0)
        self._version = dict.fromkeys(TABLES, 0)
        self._shown = dict.fromkeys(TABLES, -1)  # the shape of the newest version
        self._sequence = {0: 0, 1: 0}
        self._id = 0

    def transaction(self) -> None:
        """One with rows of some tables, in some events each."""
        domain = int(self.dice.random() < 0.2)
        self._sequence[domain] += self.dice.choice((1, 1, 1, 5))
        gtid = f"{domain}-{self.dice.randint(1, 3)}-{self._sequence[domain]}"
        number = 0
        for _ in range(self.dice.randint(1, 5)):
            table = self.dice.choice(TABLES)
            shape = self._shape[table]
            if shape != self._shown[table]:
                self._version[table] += 1
                self._shown[table] = shape
            kind = self.dice.choice((INSERT, INSERT, UPDATE, DELETE))
            rows = self.dice.choice((1, 3, 200))
            images = [self._image(shape) for _ in range(rows * len(KINDS[kind]))]
            frame = self.made.define(*SHAPES[shape], table=table, version=1 + self._version[table])
            self.made.rows(kind, *(raw for raw, _ in images), table=frame, columns=len(SHAPES[shape]))
            found = self.images[table].setdefault(gtid, [])
            for place, (_, columns) in enumerate(images):
                number += 1
                event = KINDS[kind][place % len(KINDS[kind])]
                found.append(Image(gtid, number, event, columns, self._version[table]))
        self.made.commit(gtid=gtid)
        self.order.append(gtid)

    def alter(self) -> None:
        """A table gets another shape."""
        table = self.dice.choice(TABLES)
        self._shape[table] = self.dice.randrange(len(SHAPES))
        self._sequence[0] += 1
        gtid = f"0-1-{self._sequence[0]}"
        self.made.writer.ddl(self.made.place, NOON, "shop", f"ALTER TABLE {table} ENGINE = InnoDB")
        self.made.commit(gtid=gtid)
        self.order.append(gtid)

    def there(self) -> tuple[list[str], str]:
        """The GTIDs that are whole in the journal, and that of the transaction of which it has the end only."""
        journal = JournalReader(self.made.folder)
        first = journal.first()
        committed = self.made.writer.committed()
        frames = [decode(payload) for _, payload in journal.frames(first, committed)]
        found = [frame.gtid for frame in frames if isinstance(frame, Commit)]
        return (found[1:], found[0]) if journal.torn(first, committed) else (found, "")

    def _image(self, shape: int) -> tuple[bytes, dict[str, Any]]:
        self._id += 1
        name = None if self.dice.random() < 0.1 else self.dice.choice(("", "ü", "x" * 55))
        columns: dict[str, Any] = {"id": self._id, "name": name}
        raw = bytes([2 if name is None else 0]) + self._id.to_bytes(8 if shape == 2 else 4, "little")
        raw += b"" if name is None else bytes([len(name.encode())]) + name.encode()
        if shape == 1:
            columns["more"] = -self._id
            raw += (-self._id).to_bytes(4, "little", signed=True)
        return raw, columns


class Reader:
    """A client, and what it should have got of `table` so far."""

    def __init__(self, running: ServiceInProcess, life: Life, whole: list[str]) -> None:
        dice = life.dice
        self.table = dice.choice(TABLES)
        self.form = dice.choice(("JSON", "AVRO"))
        self.seen = 0
        behind, torn = life.order[: life.order.index(whole[0])], life.there()[1]
        self._gtids, self._known = list(whole), len(life.order)
        request, gtid = f"shop.{self.table}", ""
        versions = sorted({image.version for each in whole for image in life.images[self.table].get(each, [])})
        self._version = dice.choice(versions) if versions and dice.random() < 0.3 else 0
        if self._version:
            request += f".{self._version}"
        self._sought: tuple[int, int] | None = None
        if dice.random() < 0.7:
            gtid = dice.choice([*life.order, "0-0-0", "0-9-99999", "1-9-99999"])
            domain, _, sequence = map(int, gtid.split("-"))
            older = [each for each in behind if each != torn and each.startswith(f"{domain}-")]
            if sequence and not (older and int(older[-1].rpartition("-")[2]) >= sequence):
                self._sought = domain, sequence
        self.client: CdcClient = running.client(self.form).request(request, gtid)
        self.what = f"{request} {gtid} {self.form}"
        self._rows = self._json() if self.form == "JSON" else self._avro()

    def more(self, life: Life) -> None:
        """What has come since, and whether the client gets it."""
        self._gtids += life.order[self._known :]
        self._known = len(life.order)
        begin = next((place for place, gtid in enumerate(self._gtids) if self._reaches(gtid)), len(self._gtids))
        images = [image for gtid in self._gtids[begin:] for image in life.images[self.table].get(gtid, [])]
        expected = [image for image in images if image.version >= self._version]
        for image in expected[self.seen :]:
            version, row = next(self._rows)
            assert version in (None, image.version), self.what
            assert (triplet_of(row), row["event_number"], row["event_type"]) == image[:3], self.what
            assert dict(list(row.items())[6:]) == image.columns, self.what
        self.seen = len(expected)

    def _reaches(self, gtid: str) -> bool:
        """Whether the stream begins here, if it has not yet."""
        domain, _, sequence = map(int, gtid.split("-"))
        return not self._sought or (domain == self._sought[0] and sequence >= self._sought[1])

    def _json(self) -> Iterator[tuple[int | None, dict[str, Any]]]:
        version = 0
        for line in self.client.lines():
            if line.is_schema:
                assert line.document["version"] != version, f"{self.what}: a schema once more"
                version = line.document["version"]
            else:
                yield version, line.document

    def _avro(self) -> Iterator[tuple[int | None, dict[str, Any]]]:
        return ((None, row) for _, row in self.client.records())


SEEDS = [*seeds(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in seeds(58, 2))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_client_gets_what_it_should_whatever_happens(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    for _ in range(20):
        life.transaction()
    for _ in range(3):
        with inside(tmp_path, life.made) as running:
            readers: list[Reader] = []
            for _ in range(25):
                step = life.dice.random()
                if step < 0.4:
                    for _ in range(life.dice.choice((1, 1, 10))):
                        life.transaction()
                elif step < 0.5:
                    life.alter()
                elif step < 0.6 and life.made.writer.committed() > 8 * SEGMENT:
                    until(lambda: running.service.position == running.committed)
                    life.made.writer.drop_before(running.committed - life.dice.randint(1, 6) * SEGMENT)
                    running.do(running.service.release)
                running.flush()
                until(lambda: running.service.position == running.committed)
                if step > 0.5:
                    whole, _ = life.there()
                    if whole and all(any(gtid in life.images[table] for gtid in whole) for table in TABLES):
                        readers.append(Reader(running, life, whole))
                for reader in readers:
                    reader.more(life)
            assert readers
