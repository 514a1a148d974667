"""Codecs of the wire protocols: bytes to messages, and back. No I/O."""
