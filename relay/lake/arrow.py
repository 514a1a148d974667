"""pyarrow (`from relay.lake.arrow import pyarrow`), or an error that names the extra which installs it."""

from __future__ import annotations

from relay.base.errors import ErrorCode, RelayError

try:
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet
except ImportError as error:
    raise RelayError(ErrorCode.ENVIRONMENT, "load pyarrow", error, hint="pip install 'binlog-relay[lake]'") from error

__all__ = ["pyarrow"]
