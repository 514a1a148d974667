"""`relay verify`: reads a range of the source's binlog with mysql-replication and compares it with the journal.

The comparison is row by row. mysql-replication is the reference reader.
"""
