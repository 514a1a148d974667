"""A Python for musl, which Debian does not have: zig builds it of Debian's sources, and Debian's musl runs it.

OpenSSL is that of psycopg's wheel for musl, which has it as shared libraries: to compile it takes longer than the rest.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from examples.debian import HOST, MACHINES, Unpacked, emulator
from tests.wheels.places import debian_python

VERSION: Final = "3.11"
SUITE: Final = "bookworm"  # which has the sources of this version
MUSL_SUITE: Final = "trixie"  # its musl is not older than zig's, for which the Python is compiled
SOURCES: Final = ("python3.11", "zlib", "bzip2", "xz-utils", "libffi", "sqlite3")
ZIG: Final = f"{sys.executable} -m ziglang"
TRIPLET: Final = "\n        {}-linux-{}\n"  # in Python's configure
# What configure cannot try out on another system.
ASSUMED: Final = (
    "ac_cv_buggy_getaddrinfo=no",
    "ac_cv_file__dev_ptmx=yes",
    "ac_cv_file__dev_ptc=no",
    "ac_cv_working_openssl_ssl=yes",
    "ac_cv_working_openssl_hashlib=yes",
    "ac_cv_working_tzset=yes",
)


class MuslPython(Unpacked):
    """The Python, built in the cache. Its packages are OpenSSL's headers."""

    def __init__(self, processor: str) -> None:
        super().__init__(f"python-musl-{processor}", "Python for musl", SUITE, ["libssl-dev"], print, processor, True)
        self.machine, _ = MACHINES[processor]

    def program(self, path: str) -> list[str]:
        """As `Unpacked.program`, with musl's dynamic linker."""
        musl = Unpacked(f"musl-{self.processor}", "musl", MUSL_SUITE, ["musl"], self.progress, self.processor, True)
        with musl.lock():
            musl.fetch()
        program = str(self.root / path)
        if self.processor != HOST:
            return [str(emulator(self.progress) / f"usr/bin/qemu-{self.machine}"), "-L", str(musl.root), program]
        return [str(musl.root / f"usr/lib/ld-musl-{self.machine}.so.1"), program]

    def _download(self, apt: Path, mirror: str, keyring: Path) -> list[Path]:
        sources = apt / "sources"
        sources.mkdir()
        self.run(
            [*self.apt_get(sources, mirror, keyring, "deb-src"), "source", "--download-only", *SOURCES], cwd=sources
        )
        platform = [f"--platform=musllinux_1_2_{self.machine}", f"--python-version={VERSION}"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *platform]
        self.run([*pip, "psycopg-binary"], cwd=sources)
        return super()._download(apt, mirror, keyring)

    def _unpack(self, debs: Sequence[Path], root: Path) -> None:
        super()._unpack(debs, root)
        sources = root.parent / "sources"
        for archive in sources.glob("*.orig.tar.*"):
            if archive.suffix != ".asc":
                self.run(["tar", "-x", "-C", str(sources), "-f", str(archive)])
        (wheel,) = sources.glob("psycopg_binary-*.whl")
        zipfile.ZipFile(wheel).extractall(sources)
        _Build(self, sources, root / "usr").run()


class _Build:
    """One build, of the sources in a folder; Python goes to `prefix`, which moves to its place afterwards."""

    def __init__(self, python: MuslPython, sources: Path, prefix: Path) -> None:
        self.python, self.sources, self.prefix = python, sources, prefix
        self.target = f"{python.machine}-linux-musl"
        self.tools, self.libraries = sources / "tools", sources / "libraries"
        for folder in (self.tools, self.libraries / "lib", self.libraries / "include"):
            folder.mkdir(parents=True)
        self.cross = [f"--host={self.target}", "--build=x86_64-linux-gnu"]
        self.environment = os.environ | self._tools()

    def run(self) -> None:
        """Build the libraries, then Python."""
        lib, include = self.libraries / "lib", self.libraries / "include"
        prefix, alone = f"--prefix={self.libraries}", "--disable-shared"
        self._make("zlib-*", ["./configure", "--static"], ["libz.a"], made=["libz.a", "zlib.h", "zconf.h"])
        # The wheel needs it as a shared library, which every Alpine with Python has.
        shared = f"-shared -Wl,-soname,libz.so.1 -o {self.prefix}/lib/libz.so.1"
        self._step(["sh", "-c", f"$CC {shared} -Wl,--whole-archive {lib}/libz.a"], include)
        flags = [f"CC={self.target}-cc", f"CFLAGS={self.environment['CFLAGS']} -D_FILE_OFFSET_BITS=64"]
        self._make("bzip2-*", [], [*flags, "libbz2.a"], made=["libbz2.a", "bzlib.h"])
        programs = [f"--disable-{name}" for name in ("xz", "xzdec", "lzmadec", "lzmainfo", "scripts", "doc", "nls")]
        self._make("xz-*", ["./configure", *self.cross, prefix, alone, *programs], ["-C", "src/liblzma", "install"])
        shape = [alone, "--disable-docs", "--disable-multi-os-directory"]
        self._make("libffi-*", ["./configure", *self.cross, prefix, *shape], ["install"])
        # The programs that join SQLite's sources run here.
        here = {"CC": "gcc", "CFLAGS": "-O1", "AR": "ar", "RANLIB": "ranlib"}
        headers = ["sqlite3.c", "sqlite3.h", "sqlite3ext.h"]
        self._make("sqlite3-*", ["./configure", "--disable-tcl", alone], ["sqlite3.c"], made=headers, **here)
        self._step(["sh", "-c", f"$CC $CFLAGS -c sqlite3.c && $AR rcs {lib}/libsqlite3.a sqlite3.o"], include)
        self._take_openssl(lib, include)
        self._make_python(lib, include)

    def _take_openssl(self, lib: Path, include: Path) -> None:
        for folder in (self.prefix / "include", self.prefix / f"include/{self.python.machine}-linux-gnu"):
            shutil.copytree(folder / "openssl", include / "openssl", dirs_exist_ok=True)
        for name in ("ssl", "crypto"):
            (library,) = (self.sources / "psycopg_binary.libs").glob(f"lib{name}-*.so.3")
            shutil.copy(library, self.prefix / "lib")
            (lib / f"lib{name}.so").symlink_to(self.prefix / "lib" / library.name)

    def _make_python(self, lib: Path, include: Path) -> None:
        (configure,) = self.sources.glob("Python-*/configure")
        text = configure.read_text()
        # This release names its extensions alike for both C libraries, as wheels for musl do not.
        for machine, _ in MACHINES.values():
            text = text.replace(TRIPLET.format(machine, "gnu"), TRIPLET.format(machine, "musl"))
        configure.write_text(text)
        places = [f"--with-build-python={self.tools}/build-python", f"--with-openssl={self.libraries}"]
        options = [*places, f"--prefix={self.prefix}", "--without-ensurepip", "--disable-test-modules", *ASSUMED]
        variables = {
            "CPPFLAGS": f"-I{include}",
            "CFLAGS": f"{self.environment['CFLAGS']} -DOPENSSL_NO_COMP",  # as psycopg's OpenSSL
            # zig makes static programs if it is not told otherwise.
            "LDFLAGS": f"-L{lib} -dynamic -Wl,-rpath,{self.python.root}/usr/lib",
            "LINKFORSHARED": "-dynamic -Wl,--export-dynamic",
            "LIBSQLITE3_CFLAGS": f"-I{include}",
            "LIBSQLITE3_LIBS": f"-L{lib} -lsqlite3",
            "PKG_CONFIG": "false",
        }
        self._make("Python-*", ["./configure", *self.cross, *options], ["all"], **variables)
        self._make("Python-*", [], ["install"], **variables)

    def _make(
        self, folder: str, configure: list[str], target: list[str], made: Sequence[str] = (), **variables: str
    ) -> None:
        (sources,) = (path for path in self.sources.glob(folder) if path.is_dir())
        self.python.progress(f"{self.python.title}: {sources.name}, make {target[-1]}")
        if configure:
            self._step(configure, sources, **variables)
        self._step(["make", f"-j{os.cpu_count()}", *target], sources, **variables)
        for name in made:
            shutil.copy(sources / name, self.libraries / ("lib" if name.endswith(".a") else "include"))

    def _step(self, command: list[str], folder: Path, **variables: str) -> None:
        self.python.run(command, cwd=folder, env=self.environment | variables)

    def _tools(self) -> dict[str, str]:
        """Write the programs of the build into `tools`; the variables of the environment that name them."""
        # configure asks for the folders of headers, and zig would name this system's.
        self._script(f"{self.target}-cc", f"{ZIG} cc -target {self.target}", 'case "$*" in *"-E -v -"*) exit ;; esac')
        for name in ("ar", "ranlib"):
            self._script(f"{self.target}-{name}", f"{ZIG} {name}")
        readelf = shutil.which("readelf")
        assert readelf, "readelf is part of binutils: apt-get install binutils"
        (self.tools / f"{self.target}-readelf").symlink_to(readelf)
        tcl = Unpacked("tcl", "Tcl", SUITE, ["tcl8.6"], self.python.progress)
        with tcl.lock():
            tcl.fetch()
        self._script("tclsh", " ".join(tcl.program("usr/bin/tclsh8.6")))
        self._script("build-python", " ".join(debian_python(VERSION, HOST)))
        return {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "TCL_LIBRARY": str(tcl.root / "usr/share/tcltk/tcl8.6"),
            "CC": f"{self.target}-cc",
            "AR": f"{self.target}-ar",
            "RANLIB": f"{self.target}-ranlib",
            "CFLAGS": "-O2 -fPIC -Wno-date-time -Wno-error=implicit-function-declaration",  # clang is stricter than gcc
        }

    def _script(self, name: str, command: str, before: str = "") -> None:
        script = self.tools / name
        script.write_text(f'#!/bin/sh\n{before}\nexec {command} "$@"\n')
        script.chmod(0o755)
