"""Where Spark finds the data source "relay": it looks for packages named `pyspark_*` that export a DefaultSource."""

from relay.spark.source import RelayDataSource as DefaultSource

__all__ = ["DefaultSource"]
