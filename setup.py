"""Build of the native extension: everything else about the package is in pyproject.toml."""

import os
import shutil
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

NATIVE = Path("native")
WRAPPER = NATIVE / "python"
COMMON = ["-std=c++17", "-O3", "-g1", "-fvisibility=hidden"]
# Only hand-written sources: the files that Cython writes are not ours to mend.
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
# The files that Cython writes call Python and the core, and compile in half the time so.
WRAPPED = ["-O1", "-g0"]
REMEDY = "install a C++17 compiler and the headers (apt-get install g++ python3-dev zlib1g-dev) or use a wheel"


class BuildNative(build_ext):
    """build_ext on all cores, stricter with hand-written sources, and with one clear line when there is no compiler.

    Cython translates while the compiler is busy with the hand-written sources. Each compiled file is a line.
    """

    def build_extension(self, ext: Extension) -> None:
        program = str(self.compiler.compiler_so_cxx[0] if hasattr(self.compiler, "compiler_so_cxx") else "g++")
        if shutil.which(program) is None:
            raise SystemExit(f"binlog-relay: cannot build relay._native: no {program}; {REMEDY}")
        list_bytes(NATIVE / "values/charsets.bin", NATIVE / "values/charsets.inc")
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
            # What both define, the linker takes from the first: the hand-written sources are optimized more.
            ext.sources = [*map(str, handwritten), *translated]
            jobs: list[Future[None]] = []

            def compile_now(obj: str, src: str, *arguments: Any) -> None:
                if src in translated:
                    translated[src].result()
                compile_one(obj, src, *arguments)

            def compile_later(obj: str, src: str, extension: str, cc_args: Any, extra: list[str], pp_opts: Any) -> None:
                flags = [*extra, *(WRAPPED if src in translated else STRICT)]
                jobs.append(pool.submit(compile_now, obj, src, extension, cc_args, flags, pp_opts))

            def link_then(*arguments: Any, **options: Any) -> None:
                for done, job in enumerate(as_completed(jobs), 1):
                    job.result()
                    print(f"{done} of {len(jobs)} files", flush=True)
                link(*arguments, **options)

            self.compiler._compile, self.compiler.link_shared_object = compile_later, link_then
            try:
                super().build_extension(ext)
            except (CompileError, LinkError) as error:
                raise SystemExit(f"binlog-relay: cannot build relay._native: {error}; {REMEDY}") from error
            finally:
                for each in (pool, cython):
                    each.shutdown(cancel_futures=True)
                self.compiler._compile, self.compiler.link_shared_object = compile_one, link


def module_of(wrapper: Path) -> Extension:
    """One extension holds all modules (relay/_native.pyx loads them); cythonize needs each under its own name."""
    return Extension(".".join(wrapper.relative_to(WRAPPER).with_suffix("").parts), [str(wrapper)], language="c++")


def list_bytes(source: Path, target: Path) -> None:
    """Write the bytes of a file as numbers that C++ can include. An unchanged target keeps its time."""
    text = ",".join(map(str, source.read_bytes())) + "\n"
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


DIRECTIVES = {"language_level": "3", "boundscheck": False, "wraparound": False, "freethreading_compatible": False}
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
    language="c++",
)
setup(ext_modules=[native], cmdclass={"build_ext": BuildNative})
