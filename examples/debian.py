"""Programs from Debian's packages, unpacked into a cache folder and run from there, without installation.

They are fetched with apt, verified with the distribution's keys, and run through their own dynamic linker, so that they
use their own libraries and not the host's. Root is not needed.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEYRINGS = [Path("/usr/share/keyrings/debian-archive-keyring").with_suffix(suffix) for suffix in (".gpg", ".pgp")]


# Debian's name of a processor -> the machine, and the dynamic linker.
MACHINES = {"amd64": ("x86_64", "ld-linux-x86-64.so.2"), "arm64": ("aarch64", "ld-linux-aarch64.so.1")}
HOST = next((name for name, (machine, _) in MACHINES.items() if machine == platform.machine()), "amd64")


class DebianError(Exception):
    """A program is not available or does not work. The text says which, why, and what to do."""


def cache_folder() -> Path:
    """The folder of downloads and templates: $XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "binlog-relay" / "servers"


def debian_mirror(root: Path = Path("/")) -> str:
    """The Debian mirror: RELAY_DEBIAN_MIRROR, or the one in the host's apt sources, in either of apt's formats.

    On a host that is not Debian, debootstrap (which `make setup` installs) knows Debian's mirror.
    """
    if configured := os.environ.get("RELAY_DEBIAN_MIRROR"):
        return configured.rstrip("/")
    apt = root / "etc/apt"
    for file in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))):
        if file.suffix not in {".list", ".sources"} or not file.is_file():
            continue
        text = re.sub(r"(?m)^\s*#.*\n?", "", file.read_text(errors="replace"))
        pattern = r"(?m)^URIs:(.*)$" if file.suffix == ".sources" else r"(?m)^deb\s+(?:\[[^]]*\]\s*)?(\S+)"
        for uris in re.findall(pattern, text):
            for uri in uris.split():
                if uri.rstrip("/").endswith("/debian"):
                    return str(uri.rstrip("/"))
    for knows in (root / "usr/share/debootstrap/scripts/sid", root / "usr/sbin/debootstrap"):
        if knows.is_file() and (found := re.search(r"https?://[^\s\"]+/debian\b", knows.read_text(errors="replace"))):
            return found[0]
    raise DebianError(
        "packages come from Debian, and neither apt's sources nor debootstrap name a mirror of it: "
        "apt-get install debootstrap, or set RELAY_DEBIAN_MIRROR to the address of one"
    )


class Unpacked:
    """Packages of one suite, unpacked in the cache under `name`; `title` is the name for people.

    With `alone`, without the packages that they depend on.
    """

    def __init__(
        self,
        name: str,
        title: str,
        suite: str,
        packages: Sequence[str],
        progress: Callable[[str], None],
        processor: str = HOST,
        alone: bool = False,
    ) -> None:
        self.name, self.title, self.suite, self.packages, self.progress = name, title, suite, packages, progress
        self.processor, self.alone = processor, alone
        self.folder = cache_folder() / name
        self.root = self.folder / "root"

    def program(self, path: str) -> list[str]:
        """The beginning of a command line that runs the program at `path` (usr/bin/x) with its own libraries.

        qemu-user runs it if it is for another processor.
        """
        machine, linker = MACHINES[self.processor]
        program = str(self.root / path)
        if self.processor != HOST:
            return [str(emulator(self.progress) / f"usr/bin/qemu-{machine}"), "-L", str(self.root), program]
        libraries = self.root / f"usr/lib/{machine}-linux-gnu"
        # Not through lib64, where the linker may be an absolute link to the host's.
        return [str(libraries / linker), "--library-path", str(libraries), program]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lets one process at a time fill the cache; the others wait and find it filled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def run(self, command: Sequence[str], **options: Any) -> bytes:
        """Runs a step to its end and returns its output. A failure includes its last lines."""
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options
        )
        if done.returncode != 0:
            tail = "\n  ".join(done.stdout.decode(errors="replace").strip().splitlines()[-8:])
            raise DebianError(f"{self.title}: {Path(command[0]).name} exited with {done.returncode}:\n  {tail}")
        return done.stdout

    def fetch(self) -> None:
        """Downloads, verifies and unpacks, unless the cache has it."""
        if self.root.is_dir():
            return
        keyring = next((path for path in KEYRINGS if path.exists()), None)
        if keyring is None or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise DebianError(
                f"{self.title} comes from Debian's packages, verified by Debian's keys, and apt-get, dpkg-deb "
                "or the keys are missing here: apt-get install apt dpkg debian-archive-keyring"
            )
        mirror = debian_mirror()
        self.progress(f"{self.title}: downloading Debian {self.suite} packages from {mirror}")
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="fetch-") as scratch:
            debs = self._download(Path(scratch), mirror, keyring)
            self.progress(f"{self.title}: unpacking {len(debs)} packages")
            self._unpack(debs, Path(scratch) / "root")
            (Path(scratch) / "root").rename(self.root)

    def _download(self, apt: Path, mirror: str, keyring: Path) -> list[Path]:
        action = ["download"] if self.alone else ["install", "-y", "--download-only"]
        self.run([*self.apt_get(apt, mirror, keyring), *action, *self.packages], cwd=apt / "cache" / "archives")
        return sorted((apt / "cache" / "archives").glob("*.deb"))

    def apt_get(self, apt: Path, mirror: str, keyring: Path, kind: str = "deb") -> list[str]:
        """The beginning of an apt-get command line: it keeps to the folder `apt`, with fresh lists of this kind."""
        for folder in ("lists/partial", "cache/archives/partial", "empty"):
            (apt / folder).mkdir(parents=True)
        (apt / "status").touch()
        (apt / "sources.list").write_text(
            f"{kind} [arch={self.processor} signed-by={keyring}] {mirror} {self.suite} main\n"
        )
        settings = {
            "Dir::State": apt,
            "Dir::State::lists": apt / "lists",
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt / "cache",
            "Dir::Etc::sourcelist": apt / "sources.list",
            "Dir::Etc::sourceparts": apt / "empty",
            "Dir::Etc::preferences": apt / "none",
            "Dir::Etc::preferencesparts": apt / "empty",
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "",
            "APT::Architecture": self.processor,
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            # An outdated mirror is good enough for throwaway servers; signatures are checked all the same.
            "Acquire::Check-Valid-Until": "false",
            "Debug::NoLocking": "true",
        }
        apt_get = ["apt-get", "-qq"]
        for key, value in settings.items():
            apt_get += ["-o", f"{key}={value}"]
        self.run([*apt_get, "update"])
        return apt_get

    def _unpack(self, debs: Sequence[Path], root: Path) -> None:
        for folder in ("bin", "sbin", "lib", "lib64"):
            (root / "usr" / folder).mkdir(parents=True)
            (root / folder).symlink_to(f"usr/{folder}")
        for deb in debs:
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as archive:
                self.run(
                    ["tar", "-x", "-C", str(root), "--keep-directory-symlink", "--no-same-owner"], stdin=archive.stdout
                )
            if archive.returncode != 0:
                raise DebianError(f"{self.title}: {deb.name} could not be unpacked (dpkg-deb {archive.returncode})")


def emulator(progress: Callable[[str], None]) -> Path:
    """The folder of qemu-user for all processors, which is fetched if it is not there."""
    qemu = Unpacked("qemu", "qemu-user", "testing", ["qemu-user"], progress)
    with qemu.lock():
        qemu.fetch()
    return qemu.root
