"""Build of the native extension: everything else about the package is in pyproject.toml."""

import os
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

NATIVE = Path("relay/native")
GENERATED = NATIVE / "_native.cpp"  # beside its source: a build folder would hold copies of headers that go stale
COMMON = ["-std=c++17", "-O3", "-g1", "-fvisibility=hidden"]
# Only hand-written sources: the file that Cython writes is not ours to mend.
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
REMEDY = "install a C++17 compiler and the headers (apt-get install g++ python3-dev zlib1g-dev) or use a wheel"


class BuildNative(build_ext):
    """build_ext on all cores, stricter with hand-written sources, and with one clear line when there is no compiler."""

    def build_extension(self, ext: Extension) -> None:
        program = str(self.compiler.compiler_so_cxx[0] if hasattr(self.compiler, "compiler_so_cxx") else "g++")
        if shutil.which(program) is None:
            raise SystemExit(f"binlog-relay: cannot build relay._native: no {program}; {REMEDY}")
        compile_one, link = self.compiler._compile, self.compiler.link_shared_object
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs: list[Future[None]] = []

            def compile_later(obj: str, src: str, extension: str, cc_args: Any, extra: list[str], pp_opts: Any) -> None:
                flags = extra if Path(src) == GENERATED else [*extra, *STRICT]
                jobs.append(pool.submit(compile_one, obj, src, extension, cc_args, flags, pp_opts))

            def link_then(*arguments: Any, **options: Any) -> None:
                for job in jobs:
                    job.result()
                link(*arguments, **options)

            self.compiler._compile, self.compiler.link_shared_object = compile_later, link_then
            try:
                super().build_extension(ext)
            except (CompileError, LinkError) as error:
                raise SystemExit(f"binlog-relay: cannot build relay._native: {error}; {REMEDY}") from error
            finally:
                self.compiler._compile, self.compiler.link_shared_object = compile_one, link


sources = [NATIVE / "_native.pyx", *sorted(path for path in NATIVE.glob("*.cpp") if path != GENERATED)]
headers = sorted([*NATIVE.glob("*.hpp"), *NATIVE.glob("*.pxi"), *NATIVE.glob("*.pxd")])
native = Extension(
    "relay._native",
    sources=[str(path) for path in sources],
    depends=[str(path) for path in headers],
    include_dirs=[str(NATIVE)],
    libraries=["z"],
    extra_compile_args=COMMON,
    language="c++",
)
setup(
    ext_modules=cythonize([native], compiler_directives={"language_level": "3"}),
    cmdclass={"build_ext": BuildNative},
)
