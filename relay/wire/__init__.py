"""Codecs of the wire protocols: bytes in, messages out, and back; no input or output of their own."""
