"""Logins at the CDC port: files of users as MaxScale wrote them, changed at any time, and the service user."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from relay.cdc import users
from relay.cdc.users import Users
from relay.cli import run
from relay.errors import ErrorCode, ExitCode, RelayError
from relay.protocol.cdc_messages import digest_of
from tests.support.waiting import patience

FOOBAR = "foobar:534EBD301EF499621802C63709693765CB5E81E0\n"  # foopasswd
MAXUSER = "maxuser:5EDBD32E469DAE0CE10E6999C3899DEFCB9F12E0\n"  # maxpwd
RIGHT = digest_of(b"foopasswd")
MAXPWD = digest_of(b"maxpwd")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cdcusers"


def of(path: Path, rule: str = "never") -> Users:
    return Users(path, rule, "service", "secret")


@pytest.mark.parametrize(
    "content",
    [
        FOOBAR,
        MAXUSER + FOOBAR,
        FOOBAR.rstrip(),
        FOOBAR.lower(),
        FOOBAR.replace("\n", "\r\n"),
        f"# no comment\n\nfoobar\nfoobar:short\n:534EBD301EF499621802C63709693765CB5E81E0\n{FOOBAR}",
        f"foobar:{'0' * 40}\n{FOOBAR}",
    ],
)
def test_files_of_the_original_let_their_users_in(path: Path, content: str) -> None:
    path.write_text(content)
    known = of(path)
    assert known.check("foobar", RIGHT)
    assert not known.check("foobar", MAXPWD)
    assert not known.check("FOOBAR", RIGHT)
    assert not known.check("", RIGHT)
    assert not known.check("nobody", digest_of(b""))
    assert not known.check("nobody", b"")


@pytest.mark.parametrize(
    "line",
    [
        "foobar:534EBD301EF499621802C63709693765CB5E81E0 \n",
        "foobar:*534EBD301EF499621802C63709693765CB5E81E0\n",
        "foobar:534EBD301EF499621802C63709693765CB5E81E000\n",
        "foobar:534EBD301EF499621802C63709693765CB5E81\n",
        f"{FOOBAR}foobar:{'0' * 40}\n",
    ],
)
def test_a_line_that_is_not_exactly_right_lets_nobody_in(path: Path, line: str) -> None:
    path.write_text(line)
    assert not of(path).check("foobar", RIGHT)


def test_a_name_may_be_any_bytes(path: Path) -> None:
    path.write_bytes(b"\xff\xe9" + FOOBAR.encode()[6:])
    assert of(path).check("\udcff\udce9", RIGHT)


def test_a_changed_file_counts_from_the_next_login_on(path: Path) -> None:
    known = of(path)
    assert not known.check("foobar", RIGHT)
    path.write_text(FOOBAR)
    assert known.check("foobar", RIGHT)
    path.write_text(MAXUSER)
    assert not known.check("foobar", RIGHT)
    assert known.check("maxuser", MAXPWD)
    path.unlink()
    assert not known.check("maxuser", MAXPWD)


def test_a_change_that_the_clock_does_not_show_counts_for_whoever_would_fail_without_it(path: Path) -> None:
    path.write_text(FOOBAR)
    known = of(path)
    assert known.check("foobar", RIGHT)
    before = path.stat()
    with path.open("r+") as file:  # the same inode
        file.write(f"foobaz{FOOBAR[6:]}")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known.check("foobaz", RIGHT)


@pytest.mark.parametrize("content", [None, "", "\n# nobody\n", FOOBAR], ids=["missing", "empty", "nobody", "somebody"])
@pytest.mark.parametrize("rule", ["always", "never", "when-no-users"])
def test_the_service_user_may_come_in_as_the_rule_says(path: Path, rule: str, content: str | None) -> None:
    if content is not None:
        path.write_text(content)
    known = of(path, rule)
    allowed = rule == "always" or (rule == "when-no-users" and content != FOOBAR)
    assert known.check("service", digest_of(b"secret")) is allowed
    assert not known.check("service", digest_of(b"Secret"))
    assert known.check("foobar", RIGHT) is (content == FOOBAR)


@pytest.mark.parametrize("rule", ["always", "when-no-users"])
def test_an_account_without_a_password_is_no_service_user(path: Path, rule: str) -> None:
    assert not Users(path, rule, "service", "").check("service", digest_of(b""))
    assert not Users(path, rule, "", "secret").check("", digest_of(b"secret"))


def test_a_file_that_cannot_be_read_lets_nobody_in_and_says_why(path: Path) -> None:
    path.mkdir()
    known = of(path, "always")
    assert not known.check("service", digest_of(b"secret"))
    assert known.problem == f"Is a directory: {path}"
    path.rmdir()
    path.write_text(FOOBAR)
    assert known.check("foobar", RIGHT)
    assert known.problem == ""
    path.unlink()
    path.mkdir()
    assert not known.check("foobar", RIGHT)
    assert known.problem


def test_a_file_of_which_nobody_can_say_whether_it_is_there_lets_no_service_user_in(path: Path) -> None:
    path.parent.joinpath("no folder").touch()
    known = of(path.parent / "no folder" / path.name, "when-no-users")
    assert not known.check("service", digest_of(b"secret"))
    assert known.problem.startswith("Not a directory: ")


def test_users_are_added_as_the_original_did_and_removed_without_a_trace(path: Path) -> None:
    assert users.names(path) == []
    assert users.add(path, "maxuser", "maxpwd")
    assert path.read_text() == MAXUSER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert users.add(path, "foobar", "another")
    assert not users.add(path, "foobar", "foopasswd")
    assert path.read_text() == MAXUSER + FOOBAR
    assert users.names(path) == ["maxuser", "foobar"]
    assert users.remove(path, "maxuser")
    assert not users.remove(path, "maxuser")
    assert path.read_text() == FOOBAR
    assert os.listdir(path.parent) == [path.name]


def test_what_else_is_in_the_file_stays_and_so_do_its_mode_and_its_link(path: Path) -> None:
    behind = path.with_name("real")
    behind.write_bytes(b"# ours\r\n\n" + FOOBAR.encode().rstrip())
    behind.chmod(0o640)
    path.symlink_to(behind)
    users.add(path, "maxuser", "maxpwd")
    assert path.is_symlink()
    assert behind.read_bytes() == b"# ours\r\n\n" + FOOBAR.encode() + MAXUSER.encode()
    assert stat.S_IMODE(behind.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "a\0", "u" * 44, "é" * 22])
def test_a_name_that_could_not_log_in_is_refused(path: Path, name: str) -> None:
    with pytest.raises(RelayError) as caught:
        users.add(path, name, "p")
    assert caught.value.code is ErrorCode.USAGE
    assert not path.exists()


def test_an_empty_password_is_refused(path: Path) -> None:
    with pytest.raises(RelayError, match="empty"):
        users.add(path, "a", "")


def _add(path: Path, name: str) -> bool:
    return users.add(path, name, name)


def test_users_that_are_added_at_the_same_time_are_all_there(path: Path) -> None:
    added = [f"user{number}" for number in range(40)]
    with ProcessPoolExecutor(4) as pool:
        assert all(pool.map(_add, [path] * len(added), added))
    assert sorted(users.names(path)) == sorted(added)


class TestCommands:
    """`relay cdc ...`"""

    @pytest.fixture
    def conf(self, tmp_path: Path) -> Path:
        conf = tmp_path / "relay.conf"
        conf.write_text(f"[Server]\nLogin = relay\nAuthSecret = s\n[Relay]\nDataDir = {tmp_path / 'data'}\n")
        return conf

    def test_passwords_come_from_a_file(self, conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
        password = conf.with_name("password")
        password.write_bytes(b"maxpwd\r\nmore\n")
        add = ["cdc", "add-user", "maxuser", "--password-file", str(password), "-c", str(conf)]
        assert run(add) == ExitCode.OK
        assert run(add) == ExitCode.OK
        assert (conf.parent / "data" / "cdcusers").read_text() == MAXUSER
        assert run(["cdc", "list-users", "-c", str(conf)]) == ExitCode.OK
        assert run(["cdc", "remove-user", "maxuser", "-c", str(conf)]) == ExitCode.OK
        assert run(["cdc", "list-users", "-c", str(conf)]) == ExitCode.OK
        printed = capsys.readouterr()
        assert printed.out == "added maxuser\nchanged the password of maxuser\nmaxuser\nremoved maxuser\n"
        assert printed.err == ""

    def test_passwords_are_asked_for_twice_and_not_shown(self, conf: Path) -> None:
        outer, inner = pty.openpty()
        command = [sys.executable, "-m", "relay", "cdc", "add-user", "maxuser", "-c", str(conf)]
        child = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
        os.close(inner)
        shown = b""
        for question in (b"Password: ", b"confirmation: "):
            while not shown.endswith(question):
                shown += os.read(outer, 1000)
            os.write(outer, b"maxpwd\n")
        try:
            while data := os.read(outer, 1000):
                shown += data
        except OSError:  # the other end is closed
            pass
        os.close(outer)
        assert child.wait(timeout=patience(20)) == ExitCode.OK
        assert b"added maxuser" in shown and b"maxpwd" not in shown
        assert (conf.parent / "data" / "cdcusers").read_text() == MAXUSER

    def test_the_file_may_be_named_and_is_then_where_the_configuration_says(self, conf: Path) -> None:
        with conf.open("a") as file:
            file.write("[CDC]\nUsers = maxscale/cdcusers\n")
        password = conf.with_name("password")
        password.write_text("maxpwd")
        assert run(["cdc", "add-user", "maxuser", "--password-file", str(password), "-c", str(conf)]) == ExitCode.OK
        assert (conf.parent / "maxscale" / "cdcusers").read_text() == MAXUSER

    def test_what_cannot_be_done_is_one_line_with_a_hint(self, conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["cdc", "remove-user", "nobody", "-c", str(conf)]) == ExitCode.USAGE
        printed = capsys.readouterr().err
        assert printed.startswith("relay: remove CDC user: nobody: there is no such user in ")
        assert printed.endswith("(hint: `relay cdc list-users` lists the users)\n") and printed.count("\n") == 1

    def test_no_command_takes_a_password_as_an_argument(self, conf: Path) -> None:
        assert run(["cdc", "add-user", "maxuser", "maxpwd", "-c", str(conf)]) == ExitCode.USAGE
