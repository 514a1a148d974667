"""The source: connecting to it, opening its binlog, and what its events say about tables and statements."""
