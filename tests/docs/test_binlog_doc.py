"""docs/binlog-api.md and docs/binlog-events.md agree with the code; the code in them runs."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay import binlog
from relay.binlog import Flag, Misuse, Replication
from tests.binlog.test_binlog_files import folder_of
from tests.docs import events_doc
from tests.support import ROOT
from tests.support.recipe import Recipe, blocks
from tests.support.waiting import until

TEXT = (ROOT / "docs" / "binlog-api.md").read_text()


def rows(head: str) -> list[str]:
    """The first cells, without backticks, of the table that begins with this head."""
    table = TEXT.split(f"\n| {head}", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)`", table, re.MULTILINE)


def test_the_page_of_events_is_what_the_code_says() -> None:
    assert events_doc.PATH.read_text() == events_doc.page(), "run python -m tests.docs.events_doc"


def test_every_field_flag_and_misuse_is_described() -> None:
    assert rows("field |") == list(Replication.__struct_fields__)
    assert set(rows("flag |")) == set(Flag.__members__)
    assert set(rows("misuse |")) == set(Misuse)
    assert all(f"`{name}`" in TEXT or f"{name}" in TEXT for name in binlog.__all__)


def test_defaults_are_as_described() -> None:
    assert msgspec.structs.asdict(Replication()) == {
        "file_name": "", "start_position": 4, "server_id": 0, "flags": 0, "gtid_set": "", "position": 0, "size": 0,
        "buffer": b"",
    }  # fmt: skip


@pytest.mark.usefixtures("full_metadata", "young_binlog")
def test_the_program_that_follows_prints_rows(
    server: DatabaseServer, db: str, tmp_path: Path, full_metadata: None
) -> None:
    server.execute(f"CREATE TABLE {db}.orders (id INT, v DECIMAL(4, 2))")
    replaced = {"3306": server.port, '"shop.*"': f'"{db}.*"', 'user="relay"': f'user="{USER}"', "relaypw": PASSWORD}
    with contextlib.closing(Recipe("../binlog-api", tmp_path, replaced)) as program:
        for number in (1, 2):
            program.start()
            until((tmp_path / "shop.pos").exists, what="the program did not begin")
            server.execute(f"INSERT INTO {db}.orders VALUES ({number}, 1.5)")
            line = f"insert orders None {{'id': {number}, 'v': Decimal('1.50')}}\n"
            until(lambda: line in program.printed(), what=f"the program did not print {line}")  # noqa: B023
            program.kill()


def test_the_code_runs(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT, v TEXT)", f"INSERT INTO {db}.t VALUES (1, 'x')", "FLUSH BINARY LOGS")
    server.execute(f"DELETE FROM {db}.t")
    names = [row[0] for row in server.execute("SHOW BINARY LOGS")]
    for number, name in enumerate(names):
        shutil.copy(folder_of(server) / name, tmp_path / name)
        if number == 0:
            first = tmp_path / name
    _, *others = blocks("../binlog-api", "python")
    code = "\n".join(others)
    code = code.replace("port=3306", f"port={server.port}").replace("/backup/binlog.000001", str(first))
    assert str(server.port) in code
    printed = io.StringIO()
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "binlog-api.md", "exec"), found)
    text = printed.getvalue()
    assert f"{db} t None -> {{'id': '1', 'v': 'x'}}" in text
    assert f"{db} t {{'id': '1', 'v': 'x'}} -> None" in text
    assert "1236 Could not find first log file" in text
    assert f"goes on in {names[1]}" in text
    assert found["replication"].file_name == names[-1]
    assert text.splitlines()[-1].startswith('{"event":"')
