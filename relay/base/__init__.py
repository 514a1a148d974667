"""The log, its events, and the time zone. Every module may import these."""
