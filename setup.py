"""Build of the native extension: everything else about the package is in pyproject.toml."""

import json
import os
import shutil
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

NATIVE = Path("native")
WRAPPER = NATIVE / "python"
# No debug information: it would name the folder of the build.
COMMON = ["-std=c++17", "-O3", "-g0", "-fvisibility=hidden"]
# Only hand-written sources: the files that Cython writes are not ours to repair.
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
# The files that Cython writes call Python and the core, and compile in half the time so.
WRAPPED = ["-O1"]
UNIT_LINES = 1500  # of the hand-written sources that are compiled together
OBJECTS = Path("build/native")  # of this clone; each has a .json beside it, which says what it was made of
REMEDY = "install a C++17 compiler and the headers (apt-get install g++ python3-dev zlib1g-dev) or use a wheel"


class BuildNative(build_ext):
    """build_ext on all cores, stricter with hand-written sources, and with one clear line when there is no compiler.

    Cython translates while the compiler is busy with the hand-written sources. Each compiled unit is a line. A clone
    keeps its objects: only units of files that have changed are compiled, and those that include one that has.
    """

    def run(self) -> None:
        if self.editable_mode or self.inplace:
            self.build_temp = str(OBJECTS)
        super().run()

    def build_extension(self, ext: Extension) -> None:
        compiler = [*map(str, getattr(self.compiler, "compiler_so_cxx", ["g++"]))]
        if (program := shutil.which(compiler[0])) is None:
            raise SystemExit(f"binlog-relay: cannot build relay._native: no {compiler[0]}; {REMEDY}")
        list_bytes(NATIVE / "values/charsets.bin", NATIVE / "values/charsets.inc")
        program = os.path.realpath(program)  # another one than before compiles everything again
        compile_one, link = self.compiler._compile, self.compiler.link_shared_object
        # Processes, as Cython is Python. They are forked before there are threads.
        with (
            ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as cython,
            ThreadPoolExecutor(os.cpu_count()) as pool,
        ):
            translated = {
                str(path.with_suffix(".cpp")): cython.submit(
                    cythonize, [module_of(path)], quiet=True, compiler_directives=DIRECTIVES
                )
                for path in wrappers
            }
            units = units_of(handwritten)
            ext.sources = [*units, *translated]
            jobs: list[Future[None]] = []

            def compile_now(obj: str, src: str, extension: str, cc_args: Any, flags: list[str], pp_opts: Any) -> None:
                if src in translated:
                    translated[src].result()
                command = [program, *compiler, *map(str, cc_args), *flags]
                if is_current(obj, command):
                    return
                begun = time.time_ns()
                compile_one(obj, src, extension, cc_args, [*flags, "-MD", "-MF", f"{obj}.d"], pp_opts)
                record(obj, command, begun)

            def compile_later(obj: str, src: str, extension: str, cc_args: Any, extra: list[str], pp_opts: Any) -> None:
                flags = [*extra, *(WRAPPED if src in translated else [*STRICT, *units[src]])]
                jobs.append(pool.submit(compile_now, obj, src, extension, cc_args, flags, pp_opts))

            def link_then(objects: list[str], *arguments: Any, **options: Any) -> None:
                for done, job in enumerate(as_completed(jobs), 1):
                    job.result()
                    print(f"{done} of {len(jobs)} units", flush=True)
                for each in set(map(str, Path(self.build_temp).rglob("*.o"))).difference(objects):
                    os.unlink(each)  # of another division into units, or of a source that is gone
                # What both define, the linker takes from the first: the hand-written sources are optimized more.
                link(sorted(objects, key=lambda obj: str(WRAPPER) in obj), *arguments, **options)

            self.compiler._compile, self.compiler.link_shared_object = compile_later, link_then
            try:
                super().build_extension(ext)
            except (CompileError, LinkError) as error:
                raise SystemExit(f"binlog-relay: cannot build relay._native: {error}; {REMEDY}") from error
            finally:
                for each in (pool, cython):
                    each.shutdown(cancel_futures=True)
                self.compiler._compile, self.compiler.link_shared_object = compile_one, link


def units_of(sources: list[Path]) -> dict[str, list[str]]:
    """The source that stands for each unit, and the flags that compile the unit's other sources with it.

    Sources of one folder include much the same: together they compile in two thirds of the time.
    """
    units: dict[str, list[str]] = {}
    for _, folder in groupby(sources, key=lambda path: path.parent):
        left = -1  # no unit yet
        for source in folder:
            lines = source.read_text().count("\n")
            if lines > left:
                others, left = units.setdefault(str(source), []), UNIT_LINES
            else:
                others += ["-include", str(source)]
            left -= lines
    return units


def module_of(wrapper: Path) -> Extension:
    """One extension holds all modules (relay/_native.pyx loads them); cythonize needs each under its own name."""
    return Extension(".".join(wrapper.relative_to(WRAPPER).with_suffix("").parts), [str(wrapper)], language="c++")


def stamp(file: str) -> list[int]:
    """What a changed file has another one of."""
    found = os.stat(file)
    return [found.st_mtime_ns, found.st_size]


def is_current(obj: str, command: list[str]) -> bool:
    """Whether the object was made by this command of files that are as they were."""
    try:
        made = json.loads(Path(f"{obj}.json").read_text())
        stamp(obj)
        return made["command"] == command and all(stamp(file) == then for file, then in made["files"].items())
    except (OSError, ValueError):
        return False


def record(obj: str, command: list[str], begun: int) -> None:
    """Note what the object was made of, unless a file has changed since it was begun."""
    rule = Path(f"{obj}.d").read_text().replace("\\\n", " ").partition(": ")[2]
    names = [command[0], *(name.replace("\0", " ") for name in rule.replace("\\ ", "\0").split())]
    files = {name: stamp(name) for name in names}
    if all(changed < begun for changed, _ in files.values()):
        Path(f"{obj}.json").write_text(json.dumps({"command": command, "files": files}))


def list_bytes(source: Path, target: Path) -> None:
    """Write the bytes of a file as numbers that C++ can include. An unchanged target keeps its time."""
    text = ",".join(map(str, source.read_bytes())) + "\n"
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


DIRECTIVES = {
    "language_level": "3", "boundscheck": False, "wraparound": False, "auto_pickle": False,
    "freethreading_compatible": False,
}  # fmt: skip
# The largest first: the compiler waits for the last one. The C++ files stand beside their sources: a build folder would
# hold copies of headers that go stale.
wrappers = sorted(WRAPPER.rglob("*.pyx"), key=lambda path: -path.stat().st_size)
handwritten = sorted(NATIVE.glob("*/*.cpp"))
headers = sorted(
    [*NATIVE.glob("*/*.hpp"), NATIVE / "values/charsets.bin", *WRAPPER.rglob("*.pyx"), *WRAPPER.rglob("*.pxd")]
)
native = Extension(
    "relay._native",
    sources=[str(path) for path in [*wrappers, *handwritten]],
    depends=[str(path) for path in headers],
    include_dirs=[str(NATIVE)],
    libraries=["z"],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],  # one build for Python 3.11 and every later one
    py_limited_api=True,
    extra_compile_args=COMMON,
    extra_link_args=["-s"],
    language="c++",
)
setup(ext_modules=[native], cmdclass={"build_ext": BuildNative})
