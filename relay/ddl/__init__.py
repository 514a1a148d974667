"""Parse statements that define tables, as in the binlog: text in, typed statements out, without I/O."""

from relay.ddl.dialect import Dialect, SqlMode
from relay.ddl.statements import parse_statement

__all__ = ["Dialect", "SqlMode", "parse_statement"]
