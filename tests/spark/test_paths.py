"""Names of folders are encoded as Spark encodes those of its partitions."""

from __future__ import annotations

from pyspark.sql import SparkSession

from relay.lake import paths

NAMES = [*(f"x{chr(code)}y" for code in range(1, 0x180)), "/x", "日本", "a b", "%41", "[x]{y}", "é%2F", "$#\"'"]


def test_names_of_folders_are_spark_s(spark: SparkSession) -> None:
    assert spark._jvm is not None
    utils = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    assert [utils.escapePathName(name) for name in NAMES] == [paths.encode(name) for name in NAMES]
    assert [utils.unescapePathName(paths.encode(name)) for name in NAMES] == NAMES
