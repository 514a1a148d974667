"""The child processes other than reader, broker, servers and monitor, and the table of all children."""
