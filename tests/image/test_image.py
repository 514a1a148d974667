"""The container image: what is in it, and how a relay in it starts, serves rows and ends."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.client import RelayClient
from tests.image.engine import IMAGE, Container, inspect, run
from tests.support.charset_digests import CHARSETS, digest_here
from tests.support.relay_process import SECRET

pytestmark = [pytest.mark.image, pytest.mark.timeout(300)]

OTHER = "1234567890"  # a user whom the image does not know, as OpenShift chooses one
PLACES = {
    "as it is": [],
    "read-only": ["--read-only"],
    "unknown user": [f"--user={OTHER}:0"],
    "no rights": ["--read-only", f"--user={OTHER}:0", "--cap-drop=all", "--security-opt=no-new-privileges"],
}


def settings_for(server: DatabaseServer) -> dict[str, object]:
    """A relay of that source, on free ports."""
    return {
        "Server.IPAddr": "127.0.0.1",
        "Server.Port": server.port,
        "Server.Login": USER,
        "Server.Password": PASSWORD,
        "Server.ServerPort": free_port(),
        "Server.HTTPPort": free_port(),
    }


@pytest.fixture
def container(mysql97: DatabaseServer) -> Iterator[Container]:
    """A relay that is healthy."""
    with Container(settings_for(mysql97), ["--shm-size=256m"]) as running:
        running.await_health()
        yield running


def in_image(*command: str) -> str:
    """The output of a command in a container of its own."""
    return run("run", "--rm", "--network=none", f"--entrypoint={command[0]}", IMAGE, *command[1:]).stdout


def test_the_image_has_less_than_200_megabytes() -> None:
    size = inspect(IMAGE)["Size"]
    assert size < 200e6, f"{size / 1e6:.1f} MB"


def test_the_image_has_nothing_that_only_a_build_needs() -> None:
    """No compiler, installer, list of packages or folder of the build, and no settings of the machine that built it."""
    commands = in_image("sh", "-c", "for each in gcc g++ zig cython pip pip3; do command -v $each; done; true")
    folders = "/src /venv /etc/pip.conf /root/.cache /opt/relay/setuptools* /opt/relay/Cython* /opt/relay/pip*"
    left = "/var/lib/apt/lists/*Packages* /var/cache/apt/archives/*.deb"
    assert commands + in_image("sh", "-c", f"ls -d {folders} {left} 2>/dev/null; true") == ""


def test_the_user_is_a_number_and_not_root() -> None:
    assert inspect(IMAGE)["Config"]["User"] == "10001:0"
    assert in_image("id", "-u").strip() == "10001"


def test_text_is_utf_8_and_the_time_zones_are_there() -> None:
    script = (
        "import sys, zoneinfo; print(sys.getfilesystemencoding(), sys.stdout.encoding, zoneinfo.ZoneInfo('Asia/Tokyo'))"
    )
    assert in_image("python3", "-c", script).split() == ["utf-8", "utf-8", "Asia/Tokyo"]


def test_text_is_the_same_in_every_character_set(mysql97: DatabaseServer) -> None:
    found = mysql97.execute("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    names = [str(name) for (name,) in found]
    file, digest = in_image("python3", "-c", CHARSETS, *names).split()
    assert file.startswith("/opt/relay/")
    assert digest == digest_here(names)


@pytest.mark.parametrize("options", PLACES.values(), ids=PLACES)
def test_a_relay_serves_rows_and_ends_with_code_0(
    options: list[str], mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mysql97)
    mysql97.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(9))")
    settings = settings_for(mysql97)
    with Container(settings, ["--shm-size=256m", *options]) as container:
        container.await_health()
        port = int(str(settings["Server.ServerPort"]))
        with RelayClient("127.0.0.1", port, "client", SECRET) as client:
            client.add_filter(db)
            mysql97.execute(f"INSERT INTO {db}.t VALUES (1, '中文'), (2, NULL)")
            rows = [row.after for row in client.poll_many(10, wait=20)]
        assert rows == [{"id": 1, "v": "中文"}, {"id": 2, "v": None}]
        assert "client" in container.exec("relay", "stat").stdout
        assert "binlog filters: none" in container.exec("relay", "check", check=False).stdout
        assert container.stop() == 0
        assert "killed" not in container.log()


def test_the_health_check_notices_a_process_that_stands_still(container: Container) -> None:
    container.exec("python3", "-c", f"import os, signal; os.kill({pids(container)['monitor']}, signal.SIGSTOP)")
    deadline = time.monotonic() + 60
    # Another process has its place soon; the check must fail before.
    while run("healthcheck", "run", container.id, check=False).returncode == 0:
        assert time.monotonic() < deadline, "the check passes although the monitor stands still"
    container.await_health()


def test_process_1_leaves_no_zombies(container: Container) -> None:
    """Neither its own children nor those of others, which it inherits."""
    container.exec("python3", "-c", f"import os, signal; os.kill({pids(container)['broker']}, signal.SIGKILL)")
    container.exec("sh", "-c", "sleep 0.1 & exit")
    time.sleep(1)
    container.await_health()
    states = container.exec("sh", "-c", "grep -h State: /proc/[0-9]*/status; true").stdout
    assert states.count("State:") > 5
    assert "zombie" not in states


def pids(container: Container) -> dict[str, int]:
    """Process ids in the container by name: reader, broker, monitor, ..."""
    document = json.loads(container.exec("relay", "stat", "--json").stdout)
    return {process["name"]: process["pid"] for process in document["processes"]}


def test_too_little_shared_memory_is_said_with_the_remedy() -> None:
    with Container({"Server.Login": "relay", "Server.Password": "x"}, ["--shm-size=8m"]) as container:
        assert container.wait() == 9
        log = container.log()
    assert re.search(r"allocate shared memory.*docker run --shm-size", log), log


def test_a_volume_of_another_user_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    settings: dict[str, object] = {"Server.Login": "relay", "Server.Password": "x"}
    with Container(settings, [f"--volume={folder}:/var/lib/relay"]) as container:
        assert container.wait() == 9
        log = container.log()
    assert re.search(r"Permission denied: /var/lib/relay/lock", log), log
