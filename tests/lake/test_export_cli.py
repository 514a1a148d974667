"""`relay export`, with and without a relay: its output, Ctrl-C, and its bar on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from relay.errors import ExitCode
from tests.support.exported_lake import Lake
from tests.support.journal_builder import Made
from tests.support.relay_process import RELAY, run_relay
from tests.support.waiting import patience, until

CONF = "[Server]\nLogin = relay\nAuthSecret = s\n[Relay]\nDataDir = data\n[Lake]\nRollSeconds = 1s\n"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """The journal of the configuration CONF in this folder: two rows of shop.t."""
    (tmp_path / "relay.conf").write_text(CONF)
    (tmp_path / "data").mkdir()
    journal = Made(tmp_path / "data" / "journal")
    journal.inserted(1, 2)
    journal.flush()
    return journal


def test_it_says_what_it_exported_and_where_the_lake_is(made: Made, tmp_path: Path) -> None:
    arguments = ("export", "-c", tmp_path / "relay.conf", "--to", tmp_path / "lake")
    done = run_relay(*arguments)
    assert done.returncode == 0, done.stderr
    assert re.match(r"exported 2 rows in 1 files, [\d.]+ KiB, in [\d.]+ s, [\d,]+ rows/s\n", done.stdout)
    assert f"{tmp_path / 'lake'} is at binlog.000001:154, seq 2, 0 B behind the journal" in done.stdout
    assert run_relay(*arguments).stdout.startswith("exported 0 rows in 0 files, 0 B,")
    assert ids(tmp_path / "lake") == [1, 2]


def test_tables_are_chosen_and_the_lake_is_the_configurations_without_a_path(made: Made, tmp_path: Path) -> None:
    conf = tmp_path / "relay.conf"
    conf.write_text(CONF + "Path = here\n")
    made.statement("DROP TABLE unwanted")
    made.flush()
    assert run_relay("export", "-c", conf, "--table", "shop.other", "--table", "else.*").returncode == 0
    assert Lake(tmp_path / "here").state().tables == {}
    made.statement("CREATE TABLE created (id INT)")
    made.flush()
    assert run_relay("export", "-c", conf).stderr == ""
    left = run_relay("export", "-c", conf, "--table", "shop.t")
    assert left.stderr == "relay: note: not exported any more, so incomplete in the lake: shop.created\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), ExitCode.USAGE, "give --to PATH"),
        (("--to", "lake", "--table", "orders"), ExitCode.USAGE, "schema.table"),
        (("--to", "s3://"), ExitCode.USAGE, "neither a folder nor a URL"),
        (("--to", "ftp://host/lake"), ExitCode.ENVIRONMENT, "ftp"),
        (("--to", "lake", "--set", "Relay.DataDir=nowhere"), ExitCode.STOPPED, "there is no journal"),
    ],
)
def test_what_cannot_be_is_told(
    made: Made, tmp_path: Path, arguments: tuple[str, ...], code: ExitCode, words: str
) -> None:
    refused = run_relay("export", "-c", tmp_path / "relay.conf", *arguments)
    assert refused.returncode == code and words in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_following_it_shows_a_bar_and_commits_what_it_has_read_at_ctrl_c(made: Made, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    arguments = ("--to", tmp_path / "lake", "--follow", "--set", "Lake.RollSeconds=1h")
    command = [*RELAY, "export", "-c", *map(str, (tmp_path / "relay.conf", *arguments))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = _shown(ours, "2 rows")
    assert re.search(r"exporting \[#+\] 100%  2 rows  [\d,]+ rows/s  lag [\d.]+ s, [\d.]+ K?i?B", shown), shown
    made.inserted(3)
    made.flush()
    _shown(ours, "3 rows")
    assert ids(tmp_path / "lake") == [1, 2], "the third is not yet due"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=patience(20))
    os.close(ours)
    assert process.returncode == 0 and output.startswith("exported 3 rows in 2 files")
    assert ids(tmp_path / "lake") == [1, 2, 3]


def _shown(terminal: int, words: str) -> str:
    """What a terminal shows up to some words."""
    shown = ""

    def read() -> bool:
        nonlocal shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096).decode()
        return words in shown

    until(read, what=lambda: shown, pause=0)
    return shown


def ids(lake: Path) -> list[int]:
    return [row["id"] for row in Lake(lake).rows("shop", "t")]
