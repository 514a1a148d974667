"""The journal as Python sees it; native code writes and serves it."""
