"""The schema history: the definitions of all tables as of a place in the binlog."""
