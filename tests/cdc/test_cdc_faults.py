"""The effect of a defect in one stream of the CDC port on the others, and of a damaged cdc.db on the relay."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay.cdc.stream import Stream
from tests.support.cdc_client import USER, Refused, Reset
from tests.support.cdc_in_process import inside
from tests.support.cdc_source import relay_on
from tests.support.journal_builder import ID, INSERT, NAME, row
from tests.support.waiting import until


def test_a_defect_under_one_stream_ends_that_one_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Stream.turn

    def faulty(stream: Stream) -> bytes:
        if stream.table == ("shop", "other"):
            raise ZeroDivisionError("by nothing")
        return turn(stream)

    monkeypatch.setattr(Stream, "turn", faulty)
    with inside(tmp_path) as running:
        other = running.made.define(ID, NAME, table="other")
        for table in (running.made.table, other):
            running.made.rows(INSERT, row(1), row(2), table=table)
            running.made.commit(gtid="0-1-1")
        running.flush()
        bad, good = running.client().request("shop.other"), running.client()
        with pytest.raises(Refused, match="ERR fatal error: ZeroDivisionError"):
            bad.rows(1)
        with pytest.raises(Reset):
            bad.more()
        assert [each["id"] for each in good.request("shop.t").rows(2)] == [1, 2]
    [(event, fields)] = running.logged
    assert event == "cdc_stream_failed"
    assert (fields["client"], str(fields["code"])) == (USER, "unexpected")


def test_a_damaged_file_is_a_stop_of_the_port_alone(tmp_path: Path, mariadb118: DatabaseServer) -> None:
    with relay_on(mariadb118, tmp_path) as cdc:
        assert cdc.relay.stop() == 0
        for each in (tmp_path / "data").glob("cdc.db*"):
            each.write_bytes(b"not what it was" * 1000)
        cdc.relay.start()
        until(lambda: cdc.relay.stat()["cdc"]["processes"][0]["stop"])
        document = cdc.relay.stat()
        stop = document["cdc"]["processes"][0]["stop"]
        assert (stop["code"], document["state"]) == ("journal_corrupt", "running")
        assert stop["text"].startswith("read DataDir: cdc.db: ")
