"""What the monitor measures and serves: the stat document, metrics, table usage, HTTP."""
