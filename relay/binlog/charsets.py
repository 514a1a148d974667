"""Character sets of MySQL and MariaDB: how many bytes a character takes, and how labels become text."""

from __future__ import annotations

from typing import Final

BINARY_COLLATION: Final = 63

_WIDEST: Final = {
    "big5": 2, "cp932": 2, "eucjpms": 3, "euckr": 2, "gb18030": 4, "gb2312": 2, "gbk": 2, "sjis": 2, "ucs2": 2,
    "ujis": 3,
    "utf16": 4, "utf16le": 4, "utf32": 4, "utf8": 3, "utf8mb3": 3, "utf8mb4": 4,
}  # fmt: skip

_CODECS: Final = {
    "armscii8": "", "ascii": "ascii", "big5": "big5", "binary": "utf-8", "cp1250": "cp1250", "cp1251": "cp1251",
    "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "cp932": "cp932",
    "dec8": "", "eucjpms": "euc_jp", "euckr": "cp949", "gb18030": "gb18030", "gb2312": "gb2312", "gbk": "gbk",
    "geostd8": "", "greek": "iso8859-7", "hebrew": "iso8859-8", "hp8": "hp-roman8", "keybcs2": "", "koi8r": "koi8-r",
    "koi8u": "koi8-u", "latin1": "cp1252", "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13",
    "macce": "mac-latin2", "macroman": "mac-roman", "sjis": "shift_jis", "swe7": "", "tis620": "tis-620",
    "ucs2": "utf-16-be",
    "ujis": "euc_jp", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}  # fmt: skip


def widest(charset: str) -> int:
    """The most bytes that one character takes."""
    return _WIDEST.get(charset, 1)


def decode(data: bytes, charset: str) -> str:
    """Text of a label. Raises `UnicodeDecodeError`, or `LookupError` for a charset that is not known here."""
    codec = _CODECS.get(charset, "")
    if not codec:
        if data.isascii():
            return data.decode("ascii")
        raise LookupError(f"character set {charset!r} is not known here")
    if codec == "cp1252":
        # MySQL's latin1 is cp1252 with the five holes filled by the control characters of the same number.
        return "".join(chr(byte) if byte in _HOLES else bytes([byte]).decode(codec) for byte in data)
    return data.decode(codec)


_HOLES: Final = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})
