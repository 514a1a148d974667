"""Statements that define tables, as the binlog has them: text in, typed statements out, without I/O."""

from relay.ddl.dialect import Dialect, SqlMode
from relay.ddl.statements import read

__all__ = ["Dialect", "SqlMode", "read"]
