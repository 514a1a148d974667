"""The lake in Spark: changes and current states of tables as DataFrames, and the jobs that `relay spark` runs.

    from relay.spark import changes, current

    current(spark, "/srv/lake", "shop.orders").show()

Needs Java 17 or newer and the extra "spark" (`pip install 'binlog-relay[spark]'`).
"""

from relay.base.errors import ErrorCode, RelayError

try:
    import pyspark as _pyspark
except ImportError as error:
    raise RelayError(
        ErrorCode.ENVIRONMENT,
        "import relay.spark",
        "the package pyspark is not installed",
        hint="pip install 'binlog-relay[spark]', or `make setup-spark` in the source tree",
    ) from error

from relay.spark.changes import changes
from relay.spark.current import current

__all__ = ["changes", "current"]

del _pyspark
