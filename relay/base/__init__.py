"""The error type and its codes, the log, its events, and the time zone. Every module may import these."""
