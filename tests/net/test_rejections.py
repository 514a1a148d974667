"""Every event that is not supported causes a fatal error with a remedy, or is skipped if that was configured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from relay._native import Attention
from relay.base.event_names import EVENT_NAMES
from relay.ddl.syntax import TableName
from relay.errors import MEANINGS, RelayError, StopCode
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions
from relay.ingest.handler import IngestHandler, Policy
from relay.ingest.left_out import StatementCounts
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.ingest.unsupported_events import fatal_error
from relay.schema.history import History
from relay.schema.store import SCHEMA_FILE, Store
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition

START = StreamPosition("binlog.000001", 4)
INCIDENT = 26
LOST_EVENTS = b"\1\0\x0cout of space"


def no_question(table: TableName) -> None:
    raise AssertionError(f"asked for {table}")


def refused(folder: Path, event: bytes) -> list[Attention]:
    """What the ingest does not understand of a stream with this one event between two transactions."""
    fed = Fed(folder)
    fed.begin(START)
    opening = binlogs.opening(*START)
    before, after = (binlogs.query("BEGIN", at) + binlogs.xid(at + 100) for at in (1000, 3000))
    fed.feed(opening + before + event + after)
    assert fed.writer.state().position == 3100, "the stream did not go on behind it"
    return [asked for asked in fed.asked if asked.asks == "unknown"]


def unknown_types() -> list[int]:
    """Every event type that stands for itself and is not passed over."""
    rows = {*range(23, 26), *range(30, 33), 39, *range(166, 172)}
    structural = {2, 4, 15, 16, 19, 33, 34, 38, 40, 42, 162, 165}
    harmless = {3, 5, 13, 14, 27, 28, 29, 35, 36, 37, 41, 160, 161, 163, 164}
    return sorted(set(range(1, 256)) - rows - structural - harmless)


def test_every_other_event_is_named_with_a_hint_or_skipped(tmp_path: Path) -> None:
    for kind in unknown_types():
        [asked] = refused(tmp_path / str(kind), binlogs.made(kind, LOST_EVENTS, 2000))
        stop = fatal_error(asked)
        assert EVENT_NAMES.get(kind, f"event type {kind}") in stop.cause
        assert stop.position == f"binlog.000001:{2000 - 19 - len(LOST_EVENTS) - 4}"
        assert "OnUnknown = skip" in stop.hint
        assert stop.hint != MEANINGS[stop.code].hint, f"{stop.cause} has no hint of its own"


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (INCIDENT, StopCode.UNKNOWN_EVENT, ("INCIDENT_EVENT", "out of space", "error log")),
        (172, StopCode.UNKNOWN_EVENT, ("PARTIAL_ROW_DATA_EVENT", "binlog_row_event_fragment_threshold")),
        (18, StopCode.STATEMENT_FORMAT, ("EXECUTE_LOAD_QUERY_EVENT", "LOAD DATA", "binlog_format = ROW")),
        (20, StopCode.UNKNOWN_EVENT, ("PRE_GA_WRITE_ROWS_EVENT", "5.1")),
        (250, StopCode.UNKNOWN_EVENT, ("event type 250", "a newer relay")),
    ],
)
def test_what_can_be_done_is_said(kind: int, code: StopCode, words: tuple[str, ...], tmp_path: Path) -> None:
    [asked] = refused(tmp_path, binlogs.made(kind, LOST_EVENTS, 2000))
    stop = fatal_error(asked)
    assert stop.code == code
    assert all(word in stop.line() for word in words), stop.line()


@pytest.mark.parametrize("body", [b"", b"\1", b"\1\0", b"\1\0\0", b"\1\0\xffcut", b"\1\0\2\xff\xfe"])
def test_an_incident_that_is_cut_short_is_still_one(body: bytes, tmp_path: Path) -> None:
    [asked] = refused(tmp_path, binlogs.made(INCIDENT, body, 2000))
    assert "INCIDENT_EVENT" in fatal_error(asked).line()


def test_skipping_is_logged_with_the_cause_and_stopping_is_not_passed_over(tmp_path: Path) -> None:
    logged: list[tuple[str, str]] = []
    fed = Fed(tmp_path)
    fed.begin(START)
    with closing(ReaderState(tmp_path / "state.db")) as reader_state, closing(Store(tmp_path / SCHEMA_FILE)) as store:
        history = History(store, lambda *_: None)
        definitions = Definitions(
            reader_state, history, Rules(), {}, no_question, lambda *_, **__: None,
            assumptions=Assumptions(reader_state, fed.writer, tmp_path, lambda *_, **__: None), incomplete_types=False,
        )  # fmt: skip

        def let(skip_unknown: bool) -> Callable[[Attention], bool]:
            policy = Policy(skip_unknown, send_partial=False)
            log = partial(_note, logged)
            answers = IngestHandler(fed.ingest, fed.writer, definitions, store, {}, policy, StatementCounts(log), log)

            def answer(asked: Attention) -> bool:
                answers.handle(asked)
                return True

            return answer

        fed.answer = let(skip_unknown=True)
        fed.feed(binlogs.opening(*START) + binlogs.made(INCIDENT, LOST_EVENTS, 1000))
        [(event, cause)] = logged
        assert event == "event_skipped"
        assert "INCIDENT_EVENT" in cause
        assert "out of space" in cause
        fed.answer = let(skip_unknown=False)
        for _ in range(2):  # as long as nobody allows it
            with pytest.raises(RelayError, match="INCIDENT_EVENT"):
                fed.feed(binlogs.made(INCIDENT, LOST_EVENTS, 2000))
    assert len(logged) == 1


def _note(logged: list[tuple[str, str]], event: str, **fields: object) -> None:
    logged.append((event, str(fields["cause"])))
