"""A lake in an object store, read by Spark's Python processes through fsspec, without Hadoop's file systems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import s3fs

from tests.spark.lakes import MadeLake
from tests.support import ROOT
from tests.support.s3_server import S3Server

# A session of its own: Spark's Python processes have the environment that its JVM was started with.
PROGRAM = """if True:
    import json
    from pyspark.sql import SparkSession
    from relay.lake.documents import Table
    from relay.lake.log import LakeLog, verify
    from relay.lake.storage import open_storage
    from relay.spark.compact import compact

    lake = LakeLog(open_storage("s3://bucket/lake"))
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.read.format("relay").options(lake="s3://bucket/lake", table="shop.orders").load().collect()
    print(compact(spark, lake, Table("shop", "orders")), verify(lake.storage, lake.state()))
    print(json.dumps(sorted((row.id, row.item, row._change_type) for row in rows)))
"""


def test_the_data_source_and_compaction_work_on_an_object_store(tmp_path: Path) -> None:
    lake = MadeLake(tmp_path / "lake")
    lake.define("shop.orders", {"id": "int", "item": "string"}, key=["id"])
    lake.insert("shop.orders", {"id": 1, "item": "pen"}, {"id": 2, "item": "ink"})
    lake.commit()
    lake.delete("shop.orders", {"id": 1, "item": "pen"})
    lake.commit()
    with S3Server() as server:
        given = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        files = s3fs.S3FileSystem(endpoint_url=server.url, key="key", secret="secret", skip_instance_cache=True)
        files.call_s3("create_bucket", Bucket="bucket")
        files.put(f"{lake.root}/", "bucket/lake/", recursive=True)
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compacted, printed = done.stdout.splitlines()[-2:]
    assert compacted.startswith("2 files of ") and compacted.endswith(" []")
    rows = [[1, "pen", "delete"], [1, "pen", "insert"], [2, "ink", "insert"]]
    assert json.loads(printed) == rows
