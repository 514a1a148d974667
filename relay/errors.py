"""The error type of the relay and its codes, for programs that import them; relay/base/errors.py defines them."""

from __future__ import annotations

from relay.base.errors import MEANINGS, ErrorCode, ExitCode, Meaning, RelayError, StopCode, printable

__all__ = ["MEANINGS", "ErrorCode", "ExitCode", "Meaning", "RelayError", "StopCode", "printable"]
