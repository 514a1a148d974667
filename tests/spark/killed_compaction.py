"""Compacts the table shop.orders of a lake, and kills itself before or after its commit: `before|after LAKE`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyspark.sql import SparkSession

from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark.compact import compact
from tests.spark.conftest import JVM_OPTIONS


class Killed(LakeLog):
    """A log whose process does not outlive a commit."""

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """Commit or not, and die."""
        if sys.argv[1] == "after":
            super().commit(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraJavaOptions", JVM_OPTIONS)
    session = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    compact(session, Killed(open_storage(sys.argv[2])), Table("shop", "orders"))
