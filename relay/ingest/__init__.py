"""The reader's work on a source's binlog: resume position, definitions of rows, exclusions."""
