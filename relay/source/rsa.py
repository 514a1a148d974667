"""The library that encrypts passwords with a source's RSA key, for PyMySQL: only logins without TLS use it.

PyMySQL imports it with itself, which takes 30 ms and 4 MB. `postpone` avoids that until `load`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

_LIBRARY: Final = "cryptography.hazmat.backends"
"""The first module of it that PyMySQL imports."""


def postpone() -> None:
    """Import PyMySQL without the library, in a process in which nobody but the relay logs in with PyMySQL."""
    modules: dict[str, Any] = sys.modules
    if _LIBRARY in modules:
        return
    modules[_LIBRARY] = None  # lets its import fail, as if it were not installed
    try:
        importlib.import_module("pymysql")
    finally:
        del modules[_LIBRARY]


def load() -> None:
    """Import the library for PyMySQL, unless that is done or it is not installed."""
    auth = importlib.import_module("pymysql._auth")
    if not auth._have_cryptography:
        importlib.reload(auth)
