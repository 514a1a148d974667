"""Errors say what failed, where, why and what to do, and every code has its exit code."""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import re

import pytest

from relay._native import Arena
from relay.errors import MEANINGS, ErrorCode, ExitCode, RelayError, StopCode
from tests.support import ROOT

DOCUMENT = ROOT / "docs" / "exit-codes.md"


def test_every_code_has_a_meaning_with_a_hint() -> None:
    assert set(MEANINGS) == {*ErrorCode, *StopCode}
    assert all(meaning.hint for meaning in MEANINGS.values())


def test_an_error_is_one_line_with_place_cause_and_hint() -> None:
    error = RelayError(StopCode.BINLOG_PURGED, "open stream", "no such\nfile", position="binlog.000003:4")
    assert str(error) == "open stream: binlog.000003:4: no such file"
    assert error.line().startswith("relay: open stream: binlog.000003:4: no such file (hint: ")
    assert "\n" not in error.line()
    assert error.exit_code is ExitCode.STOPPED


def test_a_given_hint_replaces_the_usual_one() -> None:
    assert RelayError(ErrorCode.CONFIG, "read config", hint="do this").line().endswith("(hint: do this)")


@pytest.mark.parametrize(
    ("code", "hint", "continues"),
    [
        (StopCode.DISK_FULL, "make room", True),
        (StopCode.SOURCE_DENIED, "`relay check` prints the grants", True),
        (StopCode.SYNC_FAILED, "repair it, then `relay resume`", False),
        (StopCode.BINLOG_PURGED, "", False),
        (StopCode.JOURNAL_CORRUPT, "", False),
        (ErrorCode.UNEXPECTED, "report it", False),
    ],
)
def test_the_remedy_of_a_stop_says_how_the_relay_continues(code: StopCode, hint: str, continues: bool) -> None:
    error = RelayError(code, "work", hint=hint)
    assert error.remedy.startswith(error.hint)
    assert error.remedy.endswith("and `relay resume`") == continues
    assert "afterwards" not in error.line(), "a command that fails has nothing to resume"


@pytest.mark.parametrize("code", StopCode)
def test_the_remedy_of_a_stop_is_shown_whole(code: StopCode) -> None:
    error = RelayError(code, "work")
    arena = Arena(mmap.mmap(-1, Arena.size(1, 1, 0)), 1, 1, 0)
    arena.beat(0, os.getpid())
    arena.set_stop(str(code), str(error), error.remedy)
    shown = arena.stop()
    assert shown is not None
    assert shown["hint"] == error.remedy
    assert any(words in error.remedy for words in ("relay resume", "relay start", "stop the relay", "run that release"))


def test_a_long_hint_is_shown_without_a_beginning_of_more() -> None:
    assert RelayError(StopCode.DISK_FULL, "work", hint="make room " * 20).remedy == "make room " * 20


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (OSError(errno.EACCES, "Permission denied", "/etc/x"), "Permission denied: /etc/x"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (KeyError("a"), "'a'"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_cause_is_put_into_words(cause: BaseException, text: str) -> None:
    assert RelayError(ErrorCode.UNEXPECTED, "work", cause).cause == text


def test_an_error_survives_the_way_between_processes() -> None:
    error = RelayError(StopCode.DISK_FULL, "append", "no space", position="00.seg", hint="make room")
    back = pickle.loads(pickle.dumps(error))
    assert (back.code, back.line()) == (error.code, error.line())


def test_the_document_lists_every_exit_code_and_every_code_with_its_exit_code() -> None:
    text = DOCUMENT.read_text()
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == set(ExitCode)
    listed = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE))
    assert {code: int(number) for code, number in listed.items()} == {
        str(code): int(meaning.exit_code) for code, meaning in MEANINGS.items()
    }
