"""Prepare a job for a cluster: spark-submit of the installed pyspark, with a master and settings."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

from relay.base.errors import ErrorCode, RelayError

LEAST_JAVA: Final = 17
_HERE: Final = Path(__file__).resolve().parent
_JAVA_SECONDS: Final = 60


def prepare(job: str, master: str, settings: Sequence[str]) -> None:
    """Set the environment for the session that this process starts next.

    The session is for a job on `master`, with "key=value" settings of Spark. Raises `RelayError` (environment) without
    Java.
    """
    check_java()
    os.environ.update(environment_of(job, master, settings, os.environ))


def check_java() -> None:
    """Raise `RelayError` (environment) unless there is a Java that Spark supports."""
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
            " or set JAVA_HOME to one",
        )


def _version(java: str) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except OSError:
        return None
    found = re.search(r' version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None


def arguments(job: str, master: str, settings: Sequence[str]) -> list[str]:
    """Return the arguments of spark-submit. The user's settings come last, so that they take precedence."""
    ours = {
        "spark.ui.enabled": str(not master.startswith("local")).lower(),
        "spark.ui.showConsoleProgress": "false",  # the command shows the rows
    }
    given = [*(f"{key}={value}" for key, value in ours.items()), *settings]
    return ["--master", master, "--name", f"relay {job}", *(part for each in given for part in ("--conf", each))]


def environment_of(job: str, master: str, settings: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of spark-submit and of Python on the workers.

    It has this pyspark, this relay, and a quiet log.
    """
    root = str(_HERE.parent.parent)
    quiet = f'-Dlog4j2.configurationFile="{(_HERE / "log4j2.properties").as_uri()}"'
    ours = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYTHONPATH": os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH")))),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, (quiet, environment.get("SPARK_SUBMIT_OPTS")))),
        # pyspark passes them to spark-submit, which becomes the Java side of this process.
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments(job, master, settings), "pyspark-shell"]),
    }
    defaults = {"PYSPARK_PYTHON": sys.executable}
    if master.startswith("local"):
        defaults["SPARK_LOCAL_IP"] = "127.0.0.1"
    return defaults | dict(environment) | ours
