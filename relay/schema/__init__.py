"""The schema history: the definitions of all tables at each binlog position."""
