"""Character sets by collation number, as far as servers agree: all of MySQL 9.7 and MariaDB 11.8.

Binlogs have the numbers of collations instead of their names. A connected reader queries its server; a reader of
files uses this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

_NOPAD: Final = 1024  # MariaDB adds it to a collation's number for the variant that compares spaces at the end
_SPANS: Final = {
    "big5": "1 84",
    "latin2": "2 9 21 27 77",
    "dec8": "3 69",
    "cp850": "4 80",
    "latin1": "5 8 15 31 47-49 94",
    "hp8": "6 72",
    "koi8r": "7 74",
    "swe7": "10 82",
    "ascii": "11 65",
    "ujis": "12 91",
    "sjis": "13 88",
    "cp1251": "14 23 50-52",
    "hebrew": "16 71",
    "tis620": "18 89",
    "euckr": "19 85",
    "latin7": "20 41-42 79",
    "koi8u": "22 75",
    "gb2312": "24 86",
    "greek": "25 70",
    "cp1250": "26 34 44 66 99",
    "gbk": "28 87",
    "cp1257": "29 58-59",
    "latin5": "30 78",
    "armscii8": "32 64",
    "utf8mb3": "33 76 83 192-223 576-579 2048-2247",
    "ucs2": "35 90 128-159 640-642 2560-2759",
    "cp866": "36 68",
    "keybcs2": "37 73",
    "macce": "38 43",
    "macroman": "39 53",
    "cp852": "40 81",
    "utf8mb4": "45-46 224-247 255-323 608-611 2304-2503",
    "utf16": "54-55 101-124 672-674 2816-3015",
    "utf16le": "56 62",
    "cp1256": "57 67",
    "utf32": "60-61 160-183 736-738 3072-3271",
    "binary": "63",
    "geostd8": "92-93",
    "cp932": "95-96",
    "eucjpms": "97-98",
    "gb18030": "248-250",
}
"""Ranges of numbers. No other character set has a number in them; some numbers have no collation yet."""


def _numbers() -> Iterator[tuple[int, str]]:
    for charset, spans in _SPANS.items():
        for span in spans.split():
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield number, charset
                if number < _NOPAD:
                    yield number + _NOPAD, charset


CHARSET_OF: Final[Mapping[int, str]] = MappingProxyType(dict(_numbers()))
"""MySQL's name of the character set, by collation number."""
