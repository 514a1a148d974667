"""`relay verify`: a range of the source's binlog read again by mysql-replication, and compared row by row with the
journal."""
