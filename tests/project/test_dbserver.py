"""The throwaway servers behave as the tests expect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import pymysql
import pytest

from examples.dbserver import KINDS, PASSWORD, USER, DatabaseServer, ServerError, free_port, remove_abandoned
from examples.debian import DebianError, debian_mirror
from tests.support import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.every_server


def test_server_writes_a_row_based_binlog_and_lets_the_relay_in(server: DatabaseServer, db: str) -> None:
    assert server.execute("SELECT @@log_bin, @@binlog_format") == [(1, "ROW")]
    with pymysql.connect(host="127.0.0.1", port=server.port, user=USER, password=PASSWORD, database=db) as connection:
        connection.cursor().execute("CREATE TABLE t (a INT PRIMARY KEY)")


@pytest.mark.parametrize("kind", KINDS)
def test_data_survives_a_restart_and_a_kill(kind: str, own_server: Callable[..., DatabaseServer]) -> None:
    server = own_server(kind)
    server.execute("CREATE TABLE test.t (a INT PRIMARY KEY)", "INSERT INTO test.t VALUES (1)")
    server.restart()
    server.execute("INSERT INTO test.t VALUES (2)")
    server.kill()
    server.start()
    assert server.execute("SELECT a FROM test.t ORDER BY a") == [(1,), (2,)]


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_server_that_died_tells_its_last_words_and_comes_back(
    kind: str, own_server: Callable[..., DatabaseServer]
) -> None:
    server = own_server(kind)
    assert server.unexpected_exit() is None
    [pid] = server.execute("SELECT @@pid_file")[0]
    os.kill(int(Path(str(pid)).read_text()), signal.SIGABRT)
    words = until(server.unexpected_exit, 30)
    assert "got signal 6" in words
    server.start()
    assert server.execute("SELECT 1") == [(1,)]


@pytest.mark.parametrize("kind", KINDS)
def test_options_reach_the_server_and_a_wrong_one_is_named(
    kind: str, own_server: Callable[..., DatabaseServer]
) -> None:
    server = own_server(kind, "--binlog-row-metadata=FULL")
    assert server.execute("SELECT @@binlog_row_metadata") == [("FULL",)]
    with pytest.raises(ServerError, match="no-such-option"):
        own_server(kind, "--no-such-option")


@pytest.mark.parametrize("kind", ["mysql97"])
def test_copies_of_a_template_are_servers_of_their_own(kind: str, own_server: Callable[..., DatabaseServer]) -> None:
    one, two = own_server(kind), own_server(kind)
    assert one.execute("SELECT @@server_uuid") != two.execute("SELECT @@server_uuid")


@pytest.mark.parametrize("kind", ["mariadb1011"])
def test_closing_leaves_no_process_and_no_folder(kind: str) -> None:
    with DatabaseServer(kind) as server:
        pid = server.pid
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)
    assert not server.folder.exists()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "sources.list",
            "# deb http://no.example/debian x main\ndeb [arch=amd64] http://a.example/debian/ trixie main\n",
        ),
        ("sources.list.d/x.list", "deb-src http://no.example/debian x main\ndeb http://a.example/debian trixie main\n"),
        (
            "sources.list.d/x.sources",
            "Types: deb\n# URIs: http://no.example/debian\nURIs: http://a.example/debian\nSuites: trixie\n",
        ),
    ],
)
def test_the_mirror_is_the_one_of_the_machines_own_sources(tmp_path: Path, file: str, text: str) -> None:
    apt = tmp_path / "etc/apt"
    (apt / "sources.list.d").mkdir(parents=True)
    (apt / "sources.list.d" / "other.sources").write_text("Types: deb\nURIs: http://b.example/debian-security\n")
    (apt / file).write_text(text)
    assert debian_mirror(tmp_path) == "http://a.example/debian"


def test_without_a_debian_source_debootstrap_names_the_mirror(tmp_path: Path) -> None:
    (tmp_path / "etc/apt").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("deb http://a.example/ubuntu noble main\n")
    with pytest.raises(DebianError, match="apt-get install debootstrap, or set RELAY_DEBIAN_MIRROR"):
        debian_mirror(tmp_path)
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/debootstrap").write_text('DEF_MIRROR="http://c.example/debian"\n')
    assert debian_mirror(tmp_path) == "http://c.example/debian"


def test_the_mirror_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_DEBIAN_MIRROR", "http://d.example/debian/")
    assert debian_mirror(tmp_path) == "http://d.example/debian"


def test_an_unknown_server_is_refused_by_name() -> None:
    with pytest.raises(ServerError, match=r"no server 'oracle'; there are mysql97"):
        DatabaseServer("oracle")


GIVER = """
from examples.dbserver import free_port
print(*(free_port() for _ in range(150)), flush=True)
input()
"""


def test_no_port_is_given_twice_while_those_live_who_got_it() -> None:
    with ExitStack() as stack:
        givers = [
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", GIVER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(3)
        ]
        given = [int(port) for giver in givers if giver.stdout for port in giver.stdout.readline().split()]
        given += [free_port() for _ in range(150)]
        for giver in givers:
            giver.communicate(b"\n")
    assert len(set(given)) == 600


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    living = DatabaseServer("mariadb1011", scratch=tmp_path)
    if (killed := os.fork()) == 0:
        DatabaseServer("mariadb1011", scratch=tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(killed, 0)
    assert len([*tmp_path.iterdir()]) == 2
    remove_abandoned(tmp_path)
    assert [*tmp_path.iterdir()] == [living.folder]
    living.close()
    assert not [*tmp_path.iterdir()]
