"""`relay verify` on real servers: equal data is equal, differences are listed, faults of the reference reader too."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalError, JournalReader, JournalWriter
from relay.journal import frames
from relay.verify import faults
from tests.support.relay_process import RelayProcess, run_relay, write_conf
from tests.support.server_variables import global_variable
from tests.support.source_rows import binlog_end
from tests.types.case import METADATA
from tests.types.cases import cases as all_cases
from tests.types.run import Tables
from tests.verify.typed_rows import Mark, caught_up, fill, mark, verify


class Followed(NamedTuple):
    """A server with a relay beside it, a database, and the part of the binlog in which that was filled."""

    server: DatabaseServer
    relay: RelayProcess
    db: str
    start: Mark
    end: Mark

    def execute(self, *statements: str) -> None:
        """Run statements in the database, in one session."""
        self.server.execute(f"USE {self.db}", *statements)

    def mark(self) -> Mark:
        """Where the binlog ends; the relay has read it up to there."""
        caught_up(self.server, self.relay)
        return mark(self.server)

    def verify(self, start: str, end: str, *, code: int = 0) -> dict[str, Any]:
        """The report of a range, which has to end with that exit code."""
        done = verify(self.relay.conf, "--from", start, "--to", end, "--json")
        assert done.code == code, f"exit code {done.code}: {done.errors}\n{done.output}"
        return done.report

    def since(self, start: Mark) -> dict[str, Any]:
        """The report of all since then, in which there is no difference."""
        report = self.verify(start.place, self.mark().place)
        assert report["differences"] == 0 and report["ended_early"] == ""
        return report


@pytest.fixture(scope="module")
def followed(server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    db = f"verify_{secrets.token_hex(5)}"
    before = server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.execute(f"CREATE DATABASE {db} CHARACTER SET utf8mb4", "FLUSH BINARY LOGS")
    settings = {
        "Source.ExcludeTables": "*.hidden",
        "Source.ExcludeColumns": "*.partly.secret",
        "Relay.OnPartialImage": "send",
        "Server.SourceTLS": "off",  # which is quicker to connect
    }
    relay = RelayProcess(write_conf(tmp_path_factory.mktemp("verify"), server, settings)).start()
    try:
        start = mark(server)  # not before: some time after a rotation MariaDB writes a checkpoint
        fill(server, db, "plain")
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
        fill(server, db, "full")
        caught_up(server, relay)
        yield Followed(server, relay, db, start, mark(server))
    finally:
        relay.end()
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}", f"DROP DATABASE {db}")


WITHOUT_METADATA = {faults.NO_SIGNS, faults.NO_LABELS, faults.NO_CHARSET}
WITH_METADATA = {faults.CHARSET, faults.LABEL_CHARSET, faults.PADDING, faults.EMPTY_SET}
ALWAYS = {faults.NEGATIVE_TIME, faults.ZERO_DATE, faults.ZERO_TIMESTAMP, faults.ZERO_YEAR}
FAULTS_OF = {
    "mysql97": {faults.VECTOR, faults.OPAQUE_JSON, faults.UNREADABLE_JSON},
    "mariadb118": {faults.NO_TYPES, faults.LATE_TIMESTAMP},
    # Its default is latin1. The schema, from before the range, has utf8mb4: a row contradicts the assumption.
    "mariadb1011": {faults.NO_TYPES, faults.NO_NAMES},
}


def test_every_value_is_the_same_or_a_known_fault_of_the_witness(followed: Followed) -> None:
    report = followed.verify(followed.start.place, followed.end.place)
    assert report["differences"] == 0 and report["ended_early"] == ""
    assert report["compared"] == report["equal"] + report["weaker"] > 0.95 * report["rows"] > 200
    assert set(report["faults"]) == WITHOUT_METADATA | WITH_METADATA | ALWAYS | FAULTS_OF[followed.server.name]


def test_what_the_witness_lacks_without_metadata_is_said(followed: Followed) -> None:
    with global_variable(followed.server, "binlog_row_metadata", "DEFAULT"):
        report = followed.verify(followed.start.place, followed.end.place)
    assert report["differences"] == 0
    assert report["compared"] > 0.95 * report["rows"]
    assert set(report["faults"]) == WITHOUT_METADATA | ALWAYS | FAULTS_OF[followed.server.name]


def test_names_are_compared_where_the_range_holds_the_statements_that_made_them(followed: Followed) -> None:
    with global_variable(followed.server, "binlog_row_metadata", "DEFAULT"):
        before = followed.mark()
        followed.execute(
            "CREATE TABLE told (a INT, b INT)", "ALTER TABLE told RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "INSERT INTO told (a, b) VALUES (1, 2)",
        )  # fmt: skip
        behind = followed.mark()
        followed.execute("INSERT INTO told (a, b) VALUES (3, 4)")
        assert faults.NO_NAMES not in followed.since(before)["faults"]
        assert followed.since(behind)["faults"][faults.NO_NAMES] == 1, "nothing in this range tells names"


Change = Callable[[frames.Rows], list[frames.Rows]]
CHANGES: dict[str, Change] = {
    "as it is": lambda rows: [rows],
    "altered": lambda rows: [msgspec.structs.replace(rows, body=rows.body.replace(b"second", b"sEcond"))],
    "dropped": lambda rows: [] if b"second" in rows.body else [rows],
    "doubled": lambda rows: [rows, rows] if b"second" in rows.body else [rows],
}


def payloads(reader: JournalReader) -> Iterator[bytes]:
    """All frames that there are."""
    at = reader.first()
    with suppress(JournalError):  # the journal's end
        while True:
            at, payload = reader.frame(at)
            yield payload


def rewritten(journal: Path, target: Path, change: Change) -> None:
    """A copy of a journal, frame by frame, in which some rows events are others."""
    reader, writer = JournalReader(journal), JournalWriter(target, 1 << 20)
    handles: dict[bytes, int] = {}

    def handle(table: int) -> int:
        frame = frames.decode(reader.frame(table)[1])
        assert isinstance(frame, frames.Table)
        if frame.link:
            return handle(frame.link)
        if frame.definition not in handles:
            handles[frame.definition] = writer.define(frame.definition)
        return handles[frame.definition]

    for payload in payloads(reader):
        match frames.decode(payload):
            case frames.Source() as source:
                if (writer.state().file, writer.state().position) != (source.file, source.position):
                    writer.source(source.position, source.file, source.gtid_set, source.identity)
            case frames.File() as file:
                writer.file(file.position, file.file)
            case frames.Rows() as rows:
                for r in change(rows):
                    writer.rows(handle(r.table), r.kind, r.end_position, r.timestamp, r.rows, r.body)
            case frames.Ddl() as ddl:
                writer.ddl(ddl.end_position, ddl.timestamp, ddl.schema, ddl.statement)
            case frames.Commit() as commit:
                writer.commit(commit.position, commit.timestamp, commit.gtid)
            case _:
                pass
    writer.flush()


def test_what_the_journal_has_wrong_is_listed(followed: Followed, tmp_path: Path) -> None:
    start = mark(followed.server)
    followed.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20), w INT)",
        "INSERT INTO orders VALUES (1, 'first', 5)",
        "INSERT INTO orders VALUES (2, 'two', 6), (3, 'second', 7)",
        "UPDATE orders SET w = 8 WHERE id = 1",
    )
    end, table = followed.mark(), f"{followed.db}.orders"
    listed = {}
    for name, change in CHANGES.items():
        settings = {"Relay.DataDir": tmp_path / name, "Server.SourceTLS": "off"}
        conf = write_conf(tmp_path, followed.server, settings)
        rewritten(followed.relay.conf.parent / "data" / "journal", tmp_path / name / "journal", change)
        done = verify(conf, "--from", start.place, "--to", end.place, "--json")
        report = done.report
        assert done.code == (1 if report["differences"] else 0), done.errors
        assert report["tables"][table]["rows"] == (6 if name == "doubled" else 4)
        listed[name] = report["listed"]
    assert listed["as it is"] == []
    [altered] = listed["altered"]
    assert (altered["table"], altered["row"], altered["what"], altered["column"]) == (table, 2, "value", "v")
    assert (altered["ours"], altered["theirs"]) == ("'sEcond'", "'second'")
    [dropped], [doubled] = listed["dropped"], listed["doubled"]
    assert dropped["table"] == doubled["table"] == table
    assert dropped["position"] == doubled["position"] == altered["position"]
    assert dropped["what"].startswith("not in the journal") and doubled["what"].startswith("only in the journal")


def test_a_range_is_from_place_to_place_or_from_gtids_to_gtids(followed: Followed) -> None:
    followed.execute("CREATE TABLE counted (id INT PRIMARY KEY)")
    first = followed.mark()
    followed.execute("INSERT INTO counted VALUES (1), (2)")
    second = followed.mark()
    followed.execute("INSERT INTO counted VALUES (3), (4), (5)", "FLUSH BINARY LOGS")
    third = followed.mark()
    assert followed.verify(first.place, second.place)["rows"] == 2
    assert followed.verify(first.gtid_set, second.gtid_set)["rows"] == 2
    assert followed.verify(second.gtid_set, third.place)["rows"] == 3
    assert followed.verify(second.place, "newest")["rows"] == 3
    assert followed.verify(third.place, "newest")["rows"] == 0
    file, position = second.place.split(":")
    within = followed.verify(f"{file}:{int(position) - 1}", third.place)
    assert within["rows"] == 5 and within["start"] == first.place, "a place within a transaction is its beginning"


def test_what_cannot_be_compared_is_refused_by_name(followed: Followed) -> None:
    conf = followed.relay.conf
    early = verify(conf, "--from", "binlog.000001:4")
    assert early.code == 5 and "the journal begins at" in early.errors
    unknown = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1" if followed.server.kind.mysql else "77-1-1"
    assert verify(conf, "--from", unknown).code == 5
    assert verify(conf, "--from", followed.end.place, "--to", followed.start.place).code == 2
    assert verify(conf, "--from", "yesterday").code == 2


def test_rows_that_need_not_be_in_the_journal_are_counted_apart(followed: Followed) -> None:
    start = mark(followed.server)
    followed.execute(
        "CREATE TABLE hidden (id INT PRIMARY KEY)",
        "CREATE TABLE partly (id INT PRIMARY KEY, secret VARCHAR(10), n INT, v VARCHAR(20))",
        "INSERT INTO hidden VALUES (1), (2)",
        "INSERT INTO partly VALUES (1, 'never', 2, 'shown'), (2, NULL, 3, NULL)",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE partly SET n = 7",
    )
    report = followed.since(start)
    assert report["left_out"] == {"of tables that [Source] excludes": 2}
    counts = {"rows": 4, "compared": 4, "equal": 4, "weaker": 0, "differences": 0}
    assert report["tables"] == {f"{followed.db}.partly": counts}


def test_xa_transactions_count_where_they_are_committed(followed: Followed) -> None:
    followed.execute("CREATE TABLE xa (id INT PRIMARY KEY) ENGINE=InnoDB")
    start = followed.mark()

    def prepare(name: str, number: int) -> None:
        followed.execute(f"XA START '{name}'", f"INSERT INTO xa VALUES ({number})", f"XA END '{name}'",
                         f"XA PREPARE '{name}'")  # fmt: skip

    names = [secrets.token_hex(4) for _ in range(3)]
    for number, name in enumerate(names):
        prepare(name, number)
    followed.execute("FLUSH BINARY LOGS", f"XA COMMIT '{names[0]}'", f"XA ROLLBACK '{names[1]}'")
    between = followed.mark()
    report = followed.since(start)
    assert (report["rows"], report["equal"]) == (1, 1)
    assert report["left_out"] == {
        "of XA transactions that were rolled back": 1,
        "of XA transactions that are prepared and not ended": 1,
    }
    followed.execute(f"XA COMMIT '{names[2]}'", "INSERT INTO xa VALUES (9)")
    report = followed.since(between)
    assert (report["rows"], report["equal"]) == (1, 1)
    assert report["left_out"] == {"of XA transactions that were prepared before the range": 1}


EVENTS = {
    True: (
        "SET gtid_next = 'AUTOMATIC:tagged'",
        "INSERT INTO events VALUES (2, 'tagged')",
        "SET gtid_next = 'AUTOMATIC', SESSION binlog_transaction_compression = ON",
        "INSERT INTO events VALUES (3, 'compressed'), (4, 'compressed')",
        "SET SESSION binlog_transaction_compression = OFF, SESSION binlog_row_value_options = PARTIAL_JSON",
        "CREATE TABLE documents (id INT PRIMARY KEY, v JSON)",
        "INSERT INTO documents VALUES (1, JSON_OBJECT('k', 1, 'long', REPEAT('x', 300)))",
        "UPDATE documents SET v = JSON_SET(v, '$.k', 2)",
        "FLUSH BINARY LOGS",
    ),
    False: (
        "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
        "INSERT INTO events VALUES (2, REPEAT('compressed', 9)), (3, REPEAT('compressed', 9))",
        "SET GLOBAL log_bin_compress = OFF, GLOBAL log_bin_compress_min_len = DEFAULT",
        "CREATE TABLE named (v VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci)",
        "CREATE TABLE packed (id INT PRIMARY KEY, v TEXT COMPRESSED)",
        "INSERT INTO packed VALUES (1, REPEAT('x', 300))",
    ),
}


def test_it_goes_on_after_events_that_the_witness_cannot_read(followed: Followed) -> None:
    followed.execute("CREATE TABLE events (id INT PRIMARY KEY, v VARCHAR(100))")
    start = followed.mark()
    invalid = ("SET sql_mode = 'ALLOW_INVALID_DATES'", "CREATE TABLE dates (v DATE)",
               "INSERT INTO dates VALUES ('2024-02-30')")  # fmt: skip
    mysql = followed.server.kind.mysql
    followed.execute("INSERT INTO events VALUES (1, 'before')", *EVENTS[mysql], *invalid,
                     "INSERT INTO events VALUES (9, 'after')")  # fmt: skip
    report = followed.since(start)
    on_mysql = {faults.COMPRESSED_TRANSACTION: 2, faults.PARTIAL_JSON: 1}
    on_mariadb = {faults.COMPRESSED_ROWS: 2, faults.COMPRESSED_COLUMN: 1}
    assert report["faults"] == (on_mysql if mysql else on_mariadb) | {faults.INVALID_DATE: 1}
    assert report["equal"] == (4 if mysql else 2)
    dates = report["unread"][-1]
    assert (dates["table"], dates["fault"], dates["rows"]) == (f"{followed.db}.dates", faults.INVALID_DATE, 1)


def test_a_witness_that_cannot_go_on_has_an_exit_code_of_its_own(followed: Followed) -> None:
    followed.execute("CREATE TABLE ended (id INT PRIMARY KEY)")
    start = followed.mark()
    followed.execute(
        "INSERT INTO ended VALUES (1)",
        "SET GLOBAL binlog_checksum = NONE",  # begins a new file
        "INSERT INTO ended VALUES (2)",
        "SET GLOBAL binlog_checksum = CRC32",
    )
    end = followed.mark()
    report = followed.verify(start.place, end.place, code=12)
    assert (report["differences"], report["equal"], report["rows"]) == (0, 1, 1)
    assert "written without checksums" in report["ended_early"]
    assert report["end"].endswith(":4") and report["end"] in report["ended_early"]


def test_where_the_witness_fails_for_no_known_reason_it_is_said_so(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.execute("CREATE TABLE failing (id INT PRIMARY KEY)")
    start = followed.mark()
    followed.execute("INSERT INTO failing VALUES (1), (2)", "UPDATE failing SET id = 9 WHERE id = 1")
    end = followed.mark()

    def fail(*_: object, **__: object) -> None:
        raise KeyError("nobody knows")

    monkeypatch.setattr("pymysqlreplication.row_event.WriteRowsEvent._fetch_one_row", fail)
    report = followed.verify(start.place, end.place, code=12)
    assert report["faults"] == {faults.DIED: 2} and (report["rows"], report["equal"]) == (3, 1)
    assert report["unread"][0]["detail"] == "KeyError: 'nobody knows'"
    monkeypatch.setattr("pymysqlreplication.event.FormatDescriptionEvent.__init__", fail)
    report = followed.verify(start.place, end.place, code=12)
    assert "KeyError: 'nobody knows'" in report["ended_early"] and report["rows"] == 0
    assert report["start"] == report["end"]  # before the mark, if the server noted a checkpoint in between


@pytest.mark.slow
@pytest.mark.parametrize("metadata", METADATA)
def test_every_case_of_the_type_test_is_the_same_or_a_known_fault(
    server: DatabaseServer, metadata: str, start_relay: Callable[..., RelayProcess], tmp_path: Path
) -> None:
    relay = start_relay(server, {"Relay.OnUnknown": "skip", "Relay.OnPartialImage": "send"})
    start = mark(server)
    tables = Tables(server, all_cases(server))
    tables.run(metadata, tmp_path)
    caught_up(server, relay)
    done = verify(relay.conf, "--from", start.place, "--json")
    tables.close()
    assert done.code == 0, f"{done.errors}\n{done.output}"
    assert done.report["compared"] == done.report["equal"] + done.report["weaker"] > 0.98 * done.report["rows"] > 20000


@pytest.mark.parametrize("kind", ["mariadb1011"])
def test_what_the_source_has_purged_is_refused_by_name(
    kind: str, own_server: Callable[..., DatabaseServer], start_relay: Callable[..., RelayProcess]
) -> None:
    server = own_server(kind)
    relay = start_relay(server)
    start = mark(server)
    server.execute("CREATE TABLE test.t (id INT)", "INSERT INTO test.t VALUES (1)", "FLUSH BINARY LOGS",
                   "INSERT INTO test.t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO test.t VALUES (3)")  # fmt: skip
    caught_up(server, relay)
    file = binlog_end(server)[0]
    while len(server.execute(f"PURGE BINARY LOGS TO '{file}'", "SHOW BINARY LOGS")) > 1:
        time.sleep(0.05)
    gone = verify(relay.conf, "--from", start.place)
    assert gone.code == 5 and f"the source's binlog begins at {file}:4" in gone.errors
    elsewhere_first = "Server.IPAddr=127.0.0.2,127.0.0.1"
    shell = run_relay("verify", "-c", relay.conf, "--set", elsewhere_first)
    assert shell.returncode == 0, shell.stderr
    assert f"range       {file}:4 to " in shell.stdout and "no difference" in shell.stdout
