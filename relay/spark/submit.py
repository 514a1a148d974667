"""Running a job: spark-submit of the pyspark that is installed, on relay/spark/jobs.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import pyspark

from relay.errors import ErrorCode, RelayError
from relay.spark.jobs import Request

LEAST_JAVA: Final = 17
_HERE: Final = Path(__file__).resolve().parent
_JAVA_SECONDS: Final = 60


def submit(request: Request, master: str, settings: Sequence[str]) -> NoReturn:
    """Become spark-submit for a job, on `master`, with `settings` ("key=value") as its --conf.

    Raises `RelayError` (environment) without Java; otherwise the process ends with the job's exit code.
    """
    check_java()
    environment = environment_of(master, os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(_submitter(), command(request, master, settings, terminal=sys.stderr.isatty()), environment)


def check_java() -> None:
    """Raises `RelayError` (environment) unless there is a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    found = _version(java) if java else None
    if found is None or found < LEAST_JAVA:
        raise RelayError(
            ErrorCode.ENVIRONMENT,
            "run Spark",
            f"Java {found} is too old" if found else "there is no Java",
            position=java or "",
            hint=f"install Java {LEAST_JAVA} or newer (`make setup-spark`, or apt-get install openjdk-17-jre-headless),"
            " or point JAVA_HOME at one",
        )


def _version(java: str) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except OSError:
        return None
    found = re.search(r' version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None


def command(request: Request, master: str, settings: Sequence[str], *, terminal: bool) -> list[str]:
    """The command line of spark-submit."""
    local = master.startswith("local")
    ours = {
        "spark.ui.enabled": str(not local).lower(),
        "spark.ui.showConsoleProgress": str(terminal).lower(),
    }
    given = [*(f"{key}={value}" for key, value in ours.items()), *settings]
    return [
        _submitter(),
        *("--master", master, "--name", f"relay {request.job}"),
        *(part for setting in given for part in ("--conf", setting)),
        str(_HERE / "jobs.py"),
        msgspec.json.encode(request).decode(),
    ]


def environment_of(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What spark-submit runs with: this Python and this relay, and few words in the log."""
    root = str(_HERE.parent.parent)
    quiet = f'-Dlog4j2.configurationFile="{(_HERE / "log4j2.properties").as_uri()}"'
    ours = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH")))),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, (quiet, environment.get("SPARK_SUBMIT_OPTS")))),
    }
    usual = {"PYSPARK_PYTHON": sys.executable}
    if master.startswith("local"):
        usual["SPARK_LOCAL_IP"] = "127.0.0.1"
    return usual | dict(environment) | ours


def _submitter() -> str:
    return str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
