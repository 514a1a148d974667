"""The environment of a benchmark: hardware, kernel, versions."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from examples.dbserver import DatabaseServer
from relay import __version__

_LIBRARIES = ("mysql-replication", "PyMySQL", "msgspec", "pyarrow", "fastavro")
_BALLOON, _REPORTING = 5, 5  # of virtio: the id of the device, and the bit of its feature VIRTIO_BALLOON_F_REPORTING


def machine(server: DatabaseServer) -> dict[str, str]:
    """Facts by name, for people."""
    return {
        "processor": _processor(),
        "cores": f"{len(os.sched_getaffinity(0))}, hypervisor: {_hypervisor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB, {_free_pages()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "relay": f"{__version__}, {_commit()}",
        "Python": platform.python_version(),
        "compiler": subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[
            0
        ],
        "source": f"{server.kind.title}, {server.execute('SELECT VERSION()')[0][0]}",
        "libraries": ", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
    }


def anonymous_bytes(pid: int) -> int:
    """Bytes of memory that belong to a process alone, so without the mapped journal."""
    [size] = re.findall(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(size) * 1024


def _processor() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _hypervisor() -> str:
    return "yes" if re.search(r"\bhypervisor\b", Path("/proc/cpuinfo").read_text()) else "no"


def _free_pages() -> str:
    """Whether a balloon device tells the host which pages are free; the host takes them back."""
    devices = Path("/sys/bus/virtio/devices").glob("*")
    balloons = [device for device in devices if int((device / "device").read_text(), 16) == _BALLOON]
    reported = any((balloon / "features").read_text()[_REPORTING] == "1" for balloon in balloons)
    return f"the host takes free pages back: {'yes' if reported else 'no'}"


def _commit() -> str:
    """The commit, and whether files differ from it; a package has none."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return f"commit {described.stdout.strip()}" if described.returncode == 0 else "no commit"
