"""The journal from Python's side; native code writes and serves it."""
