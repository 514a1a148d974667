"""Programs from Debian's packages, unpacked into a cache folder and run from there: nothing is installed.

They are fetched with apt, verified by the distribution's keys, and run through their own dynamic linker, so that what
they link to is theirs and not this machine's. Root is not needed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEYRINGS = [Path("/usr/share/keyrings/debian-archive-keyring").with_suffix(suffix) for suffix in (".gpg", ".pgp")]


class DebianError(Exception):
    """A program could not be had or does not work; the text says which, why and what to do."""


def cache_folder() -> Path:
    """Where downloads and templates are kept: $XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "binlog-relay" / "servers"


def debian_mirror(root: Path = Path("/")) -> str:
    """The Debian mirror: RELAY_DEBIAN_MIRROR, or what the machine's apt sources name, in either of apt's formats.

    A machine that is no Debian has debootstrap for it (`make setup` sees to that), which knows Debian's own mirror.
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
    """Packages of one suite, unpacked in the cache under `name`; `title` is what people call them."""

    def __init__(
        self, name: str, title: str, suite: str, packages: Sequence[str], progress: Callable[[str], None]
    ) -> None:
        self.name, self.title, self.suite, self.packages, self.progress = name, title, suite, packages, progress
        self.folder = cache_folder() / name
        self.root = self.folder / "root"

    def program(self, path: str) -> list[str]:
        """The beginning of a command line that runs the program at `path` (usr/bin/x) with its own libraries."""
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        # Not through lib64, where the linker may be an absolute link, which is this machine's and not the program's.
        return [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(self.root / path)]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process at a time fill the cache; the others wait and find it full."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def run(self, command: Sequence[str], **options: Any) -> bytes:
        """Run a step to its end and return its output; a failure carries the last lines of it."""
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options
        )
        if done.returncode != 0:
            tail = "\n  ".join(done.stdout.decode(errors="replace").strip().splitlines()[-8:])
            raise DebianError(f"{self.title}: {Path(command[0]).name} exited with {done.returncode}:\n  {tail}")
        return done.stdout

    def fetch(self) -> None:
        """Download, verify and unpack, unless the cache has it."""
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
        for folder in ("lists/partial", "cache/archives/partial", "empty"):
            (apt / folder).mkdir(parents=True)
        (apt / "status").touch()
        (apt / "sources.list").write_text(f"deb [arch=amd64 signed-by={keyring}] {mirror} {self.suite} main\n")
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
            "APT::Architecture": "amd64",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            # A mirror that stands still is good enough for throwaways; its signatures are checked all the same.
            "Acquire::Check-Valid-Until": "false",
            "Debug::NoLocking": "true",
        }
        apt_get = ["apt-get", "-qq"]
        for key, value in settings.items():
            apt_get += ["-o", f"{key}={value}"]
        self.run([*apt_get, "update"])
        self.run([*apt_get, "install", "-y", "--download-only", *self.packages])
        return sorted((apt / "cache" / "archives").glob("*.deb"))

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
