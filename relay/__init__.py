"""A binlog relay: one replica connection to MySQL or MariaDB, many consumers behind it."""

from typing import Final

__version__: Final = "0.1.0"
