"""Random journals read by a CdcReader, compared with a model: at any pace, and resumed anywhere in a transaction.

Domains of MySQL and MariaDB, transactions without a GTID, gaps, definitions that change, statements, small segments.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from relay._native import CdcReader, JournalReader
from tests.support.cdc_rows import rows_of
from tests.support.chance import seeds
from tests.support.journal_builder import DELETE, ID, INSERT, NAME, NOON, UPDATE, Made, column, row

UUID = "0e9cc2d6-9af3-11ee-a9a5-0242ac110002"
DOMAINS = {UUID: 100, f"{UUID}:blue": 200}
TRANSACTIONS = 60
TYPES = {INSERT: ("insert",), UPDATE: ("update_before", "update_after"), DELETE: ("delete",)}


class Image(NamedTuple):
    """What a client is to get."""

    domain: int
    server_id: int
    sequence: int
    event_number: int
    event_type: str
    id: int


class Past(NamedTuple):
    """A transaction: its triplet, None without a GTID; the images of the table; where it ends in the journal."""

    gtid: tuple[int, int, int] | None
    images: list[Image]
    end: int


class Life:
    """A journal that goes on by chance, with two tables."""

    def __init__(self, folder: Path, chance: random.Random, mysql: bool) -> None:
        self.chance = chance
        self.made = Made(folder, segment_bytes=1 << 12)
        self.past: list[Past] = []
        self._mysql = mysql
        self._numbers: dict[str | int, int] = {}
        self._version = 0
        self._define()

    def go_on(self) -> None:
        """A transaction, and what may stand before it."""
        chance, made = self.chance, self.made
        if chance.random() < 0.1:
            made.writer.gap(made.place, "binlog.000001", "lost")
        if chance.random() < 0.15:
            self._define()
        if chance.random() < 0.2:
            made.writer.ddl(made.place, NOON, "shop", "ALTER TABLE t COMMENT 'changed'")
        text, gtid, server = self._gtid()
        images, number = list[Image](), 0
        for _ in range(chance.choice((0, 1, 1, 2, 3, 40))):
            kind, wanted = chance.choice((INSERT, UPDATE, DELETE)), chance.random() < 0.5
            ids = [chance.randrange(1000) for _ in range(chance.randrange(1, 5) * len(TYPES[kind]))]
            more = bytes(4 * (self._columns - 2))
            table = self._tables[not wanted]
            made.rows(kind, *(row(each) + more for each in ids), table=table, columns=self._columns)
            for at, each in enumerate(ids):
                number += 1
                if wanted:
                    images.append(Image(*(gtid or (0, 0, 0)), number, TYPES[kind][at % len(TYPES[kind])], each))
        made.place += 50
        made.writer.commit(made.place, NOON, text, server)
        self.past.append(Past(gtid, images, made.writer.committed()))

    def expected(self, sought: tuple[int, int] | None) -> list[Image]:
        """What a client gets that asks for a domain and a number."""
        got: list[Image] = []
        for gtid, images, _ in self.past:
            if sought and gtid and gtid[0] == sought[0] and gtid[2] >= sought[1]:
                sought = None
            if sought:
                continue
            if images and not gtid:
                break
            got += images
        return got

    def _define(self) -> None:
        self._version += 1
        columns = (ID, NAME, *(column(f"more{n}", 3) for n in range(self.chance.randrange(3))))
        self._columns = len(columns)
        self._tables = [self.made.define(*columns, table=name, version=self._version) for name in ("t", "other")]

    def _gtid(self) -> tuple[str, tuple[int, int, int] | None, int]:
        server = self.chance.choice((1, 3_000_000_000))
        if self.chance.random() < 0.03:
            return "", None, server
        sources: list[str | int] = [*DOMAINS] if self._mysql else [0, 7]
        source = self.chance.choice(sources)
        number = self._numbers[source] = self._numbers.get(source, 0) + self.chance.choice((1, 1, 1, 5))
        if isinstance(source, str):
            return f"{source}:{number}", (DOMAINS[source], server, number), server
        return f"{source}-{server}-{number}", (source, server, number), server


class Client:
    """Reads a life as it goes on, and now and then begins anew from where it was."""

    def __init__(self, life: Life, sought: tuple[int, int] | None) -> None:
        self._life, self._sought = life, sought
        self._journal = JournalReader(life.made.folder)
        self._ended = False
        self.got: list[Image] = []
        self._begin(0)
        if sought:
            self._reader.seek(*sought)

    def read(self) -> None:
        """Up to what there is by now."""
        chance, until = self._life.chance, self._life.past[-1].end
        while not self._ended:
            reached = self._reader.read(until, chance.choice((1, 100, 10_000)))
            count, content = self._reader.take()
            rows = rows_of(content)
            assert len(rows) == count
            self.got += [Image(*(each[name] for name in Image._fields)) for each in rows]
            self._ended = reached.why == "no_gtid"
            if reached.why == "end":
                return
            if chance.random() < 0.1:
                self._again()

    def _again(self) -> None:
        seeking, position = self._reader.seeking, self._reader.position
        whole = {past.gtid for past in self._life.past if past.end <= position}
        self.got = [image for image in self.got if image[:3] in whole]  # that which is under way comes once more
        self._begin(position)
        if self._sought and seeking:
            self._reader.seek(*self._sought)

    def _begin(self, position: int) -> None:
        self._reader = CdcReader(
            self._journal, position, schema="shop", table="t", domain=lambda source: DOMAINS[source]
        )


@pytest.mark.parametrize("seed", seeds(20))
def test_a_reader_gives_what_the_model_says_however_it_is_driven(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    life = Life(tmp_path / "journal", chance, mysql=seed % 2 == 0)
    life.go_on()
    domains = list(DOMAINS.values()) if seed % 2 == 0 else [0, 7]
    asked = [None, *((chance.choice(domains), chance.randrange(TRANSACTIONS)) for _ in range(5))]
    clients = [Client(life, each) for each in asked]
    for _ in range(TRANSACTIONS):
        life.go_on()
        chance.choice(clients).read()
    for client, each in zip(clients, asked, strict=True):
        client.read()
        assert client.got == life.expected(each), each
