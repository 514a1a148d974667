"""Tables with which many cases begin."""

from __future__ import annotations

from typing import Final

T: Final = "CREATE TABLE t (a INT, b VARCHAR(20), c TEXT)"
U: Final = "CREATE TABLE u (x INT, y VARCHAR(20), z TEXT)"
LATIN1: Final = "CREATE TABLE t (a VARCHAR(20), b TEXT, c ENUM('x','y'), d CHAR(3)) CHARACTER SET latin1"
