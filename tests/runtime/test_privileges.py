"""The relay's user, its files' permissions, and that nothing of its memory is written to disk."""

from __future__ import annotations

import json
import os
import pwd
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import psutil
import pytest
from packaging.requirements import Requirement

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.client import RelayClient
from relay.errors import ErrorCode, ExitCode, RelayError
from relay.runtime.privileges import Privileges, prepare
from relay.runtime.shm import beside, find
from tests.commands.test_cli import self_signed
from tests.support import ROOT
from tests.support.relay_process import SECRET, RelayProcess, run_relay, write_conf
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]
OTHER = "daemon"  # on every Debian, with an id of its own and nothing of its own


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may pass through, other than those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="relay-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def needed(package: str, extras: Iterable[str] = ()) -> set[str]:
    """The distributions that a distribution needs to run, itself included."""
    found = {package}
    # Not the metadata of the relay itself: a clone may have those of an earlier build.
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for line in own if package == "binlog-relay" else metadata.requires(package) or ():
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found |= needed(requirement.name, requirement.extras)
    return found


@pytest.fixture
def open_python(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python and the relay where every user may read them, for the programs that the test starts."""
    library = Path(os.__file__).parent
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in (*library.parents, ROOT, *ROOT.parents)):
        return
    home, packages = open_folder / "python", open_folder / "packages"
    left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "config-*", "idlelib", "tkinter")
    shutil.copytree(library, home / "lib" / library.name, ignore=left_out)
    program = Path(sys.executable).resolve()
    (home / "bin").mkdir()
    for path in (program, *library.parent.glob("libpython*.so*")):
        shutil.copy(path, home / ("bin" if path == program else "lib"), follow_symlinks=False)
    shutil.copytree(ROOT / "relay", packages / "relay", ignore=left_out)
    for name in needed("binlog-relay") - {"binlog-relay"}:
        distribution = metadata.distribution(name)
        for file in distribution.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(distribution.locate_file(file)), packages / file)
    monkeypatch.chdir(open_folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(home / "lib"))
    monkeypatch.setattr("tests.support.relay_process.RELAY", (str(home / "bin" / program.name), "-m", "relay"))
    monkeypatch.setenv("PYTHONHOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(packages))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fields(pid: int) -> dict[str, list[str]]:
    """The kernel's facts about a process, by name."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def family(relay: RelayProcess) -> list[int]:
    """Process ids of all that belong to it."""
    return [relay.pid, *(child.pid for child in psutil.Process(relay.pid).children(recursive=True))]


def everything(folder: Path) -> dict[Path, os.stat_result]:
    """Return what a folder has, in order, without what goes meanwhile, such as the journal of a database."""
    found = {}
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):
            if not path.is_symlink():
                found[path] = path.stat()
    return found


def test_what_the_relay_keeps_is_its_owners_alone(
    mariadb1011: DatabaseServer, start_relay: Start, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    db = make_db(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    log, lake = tmp_path / "log", tmp_path / "lake"
    log.mkdir()
    before = os.umask(0o022)
    try:
        relay = start_relay(
            mariadb1011,
            {"CDC.Enabled": "yes", "CDC.Address": "127.0.0.1", "CDC.Port": 0, "Logger.Schema": db, "Logger.Path": log,
             "Lake.Path": lake, "Lake.RollSeconds": "1s"},
        )  # fmt: skip
    finally:
        os.umask(before)
    data = relay.conf.parent / "data"
    with RelayClient("127.0.0.1", relay.port, "c", SECRET) as client:
        client.add_filter(db)
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
        assert client.poll_many(1, wait=patience(20))
    assert run_relay("cdc", "add-user", "u", "--password-file", __file__, "-c", relay.conf).returncode == 0
    assert mode(data) == 0o700
    kept = {"state.db", "usage.db", "cdc.db", "cdcusers", "journal"}
    until(lambda: kept <= {path.name for path in everything(data)}, what="not all is there that a relay keeps")
    for path, facts in everything(data).items():
        if path.name != "arena":  # a name under /dev/shm
            assert facts.st_mode & 0o077 == 0, path
    block = find(data)
    assert block is not None and mode(Path("/dev/shm") / block.name) == 0o600
    assert mode(beside(block)) == 0o700
    while not (written := [path for path in everything(log) if path.name.startswith("relaylogs-")]):
        signal.sigtimedwait([], 0.05)
    assert {mode(path) for path in written} == {0o640}, "rows: for whoever the folder's group is"
    while not (parquet := list(lake.rglob("*.parquet"))):
        signal.sigtimedwait([], 0.05)
    assert {mode(path) & 0o044 for path in parquet} == {0o044}, "the lake is written for others, as the umask says"


def test_databases_of_an_earlier_release_are_closed_to_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    for name, given in (("state.db", 0o644), ("state.db-wal", 0o666), ("usage.db", 0o600), ("notes", 0o644)):
        (data / name).touch()
        (data / name).chmod(given)
    prepare(data)
    assert {path.name: mode(path) for path in everything(data)} == {
        "state.db": 0o600, "state.db-wal": 0o600, "usage.db": 0o600, "notes": 0o644,
    }  # fmt: skip
    assert mode(data) == 0o755, "a folder that was there is somebody's choice: relay check tells of it"


def test_no_process_of_a_relay_leaves_a_core_dump(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        relay = start_relay(mariadb1011)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    for pid in family(relay):
        limits = Path(f"/proc/{pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        assert line.split()[4:6] == ([str(min(hard, 1))] * 2 if hard >= 0 else ["1", "1"])
    assert relay.stat()["state"] == "running"


def test_a_process_that_crashes_says_that_it_dumped_nothing() -> None:
    program = (
        "import os, resource; from relay.runtime.privileges import disable_core_dumps\n"
        "disable_core_dumps(); os.kill(os.getpid(), 6)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    _, status = os.waitpid(child.pid, 0)
    child.returncode = 0
    assert os.WTERMSIG(status) == signal.SIGABRT and not os.WCOREDUMP(status)


def test_secrets_are_in_no_argument_and_no_environment_of_a_process(
    mariadb1011: DatabaseServer, start_relay: Start
) -> None:
    marks = [f"Mark{os.urandom(6).hex()}" for _ in range(3)]
    relay = start_relay(
        mariadb1011,
        {"Server.AuthSecret": marks[0], "Server.AdminSecret": marks[1], "Client shop.Secret": marks[2]},
    )
    assert len(family(relay)) >= 5
    for pid in family(relay):
        for name in ("cmdline", "environ", "comm"):
            content = Path(f"/proc/{pid}/{name}").read_bytes()
            assert not [mark for mark in marks if mark.encode() in content]


# `[Relay] User`. What root can is shown where the tests are root, what others cannot where they are not.


def test_who_is_that_user_already_stays_so(tmp_path: Path) -> None:
    for name in ("", pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else ""):
        rights = Privileges(name)
        rights.use_for_files(tmp_path / "data")
        with rights.as_root():
            pass
        rights.drop()
    assert mode(tmp_path / "data") == 0o700


def test_an_unknown_user_is_an_error_by_name(tmp_path: Path) -> None:
    with pytest.raises(RelayError, match="there is no user 'nobody-of-that-name'") as found:
        Privileges("nobody-of-that-name")
    assert found.value.code is ErrorCode.CONFIG


@pytest.mark.usefixtures("open_python")
def test_everything_runs_as_the_user_and_can_never_be_root_again(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], open_folder: Path
) -> None:
    conf = write_conf(open_folder, mariadb1011, {"Relay.User": OTHER, "Relay.DataDir": open_folder / "a" / "data"})
    conf.chmod(0o644)  # a reload reads it as that user
    if os.geteuid() != 0:
        refused = run_relay("start", "-c", conf)
        assert refused.returncode == ExitCode.CONFIG and "start the relay as root" in refused.stderr
        return
    user = pwd.getpwnam(OTHER)
    (open_folder / "a").mkdir(mode=0o755)
    relay = RelayProcess(conf)
    try:
        relay.start()
        for pid in family(relay):
            found = fields(pid)
            assert found["Uid"] == [str(user.pw_uid)] * 4
            assert found["Gid"] == [str(user.pw_gid)] * 4
            assert set(map(int, found["Groups"])) == set(os.getgrouplist(OTHER, user.pw_gid))
            assert {found[name][0] for name in ("CapPrm", "CapEff", "CapInh")} == {"0" * 16}
        data = open_folder / "a" / "data"
        assert {facts.st_uid for facts in (data.stat(), *everything(data).values())} == {user.pw_uid}
        db = make_db(mariadb1011)
        mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
        with RelayClient("127.0.0.1", relay.port, "c", SECRET) as client:
            client.add_filter(db)
            mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
            assert client.poll_many(1, wait=patience(20))
        document = relay.stat()
        assert {process["state"] for process in document["processes"]} == {"running"}, "they see each other"
        assert json.loads(run_relay("stat", "--json", "-c", conf).stdout)["state"] == "running"
        assert run_relay("reload", "-c", conf).returncode == 0
        second = run_relay("start", "-c", conf)
        assert second.returncode == ExitCode.ALREADY_RUNNING
        os.kill(relay.pids()["reader"], signal.SIGKILL)
        assert relay.stop() == 0
        relay.start()
        assert relay.stat()["clients"][0]["name"] == "c", "it finds again what it left"
    finally:
        relay.end()


@pytest.mark.usefixtures("open_python")
def test_a_relay_that_a_url_starts_runs_as_the_user_who_can_reload_it(
    mariadb1011: DatabaseServer, open_folder: Path
) -> None:
    url = f"mysql://{USER}:{PASSWORD}@127.0.0.1:{mariadb1011.port}/"
    relay = RelayProcess(open_folder / "data" / "relay.conf")
    relay.stdout, relay.stderr = open_folder / "out", open_folder / "err"
    relay.configured_by = (url, "--data", open_folder / "data", "--set", f"Relay.User={OTHER}")
    if os.geteuid() != 0:
        with pytest.raises(AssertionError, match="start the relay as root"):
            relay.start()
        return
    try:
        relay.start()
        owners = {facts.st_uid for facts in everything(open_folder / "data").values()}
        assert owners == {pwd.getpwnam(OTHER).pw_uid}
        assert mode(relay.conf) == 0o600
        assert run_relay("reload", "--data", open_folder / "data").returncode == 0
        assert relay.stop() == 0
    finally:
        relay.end()


@pytest.mark.usefixtures("open_python")
def test_a_link_in_the_users_folder_is_followed_as_the_user(mariadb1011: DatabaseServer, open_folder: Path) -> None:
    conf = write_conf(open_folder, mariadb1011, {"Relay.User": OTHER})
    if os.geteuid() != 0:
        assert run_relay("start", "-c", conf).returncode == ExitCode.CONFIG
        return
    user = pwd.getpwnam(OTHER)
    precious = open_folder / "precious"
    precious.write_text("root's")
    data = open_folder / "data"
    data.mkdir()
    (data / "lock").symlink_to(precious)
    os.chown(data, user.pw_uid, user.pw_gid)
    refused = run_relay("start", "-c", conf)
    assert refused.returncode == ExitCode.ENVIRONMENT, refused.stderr
    assert precious.read_text() == "root's"


@pytest.mark.usefixtures("open_python")
def test_a_key_that_the_user_may_not_read_is_refused_at_the_start(
    mariadb1011: DatabaseServer, open_folder: Path
) -> None:
    cert, key = self_signed(open_folder)
    key.chmod(0o600)
    settings = {"Relay.User": OTHER, "Server.TLS": "required", "Server.TLSCert": cert, "Server.TLSKey": key}
    if os.geteuid() != 0:
        settings |= {"Relay.User": "", "Server.TLSKey": cert}
    refused = run_relay("start", "-c", write_conf(open_folder, mariadb1011, settings))
    assert refused.returncode == ExitCode.CONFIG, refused.stderr
    assert "load certificate" in refused.stderr
