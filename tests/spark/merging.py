"""Merges all tables of a lake in a separate driver, which is killed before its N-th change to the lake.

python -m tests.spark.merging LAKE N
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark.merge import merge
from tests.spark.conftest import JVM_OPTIONS
from tests.support.lake_kill import arm


def main() -> None:
    """Start Spark, then live for as long as the command line says."""
    _, lake, at = sys.argv
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    log = LakeLog(open_storage(lake))
    arm(Path(lake), int(at))
    for table in [state.table for state in log.state().tables.values()]:
        merge(spark, log, table)


if __name__ == "__main__":
    main()
