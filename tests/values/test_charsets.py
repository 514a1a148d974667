"""Text of all character sets is converted to UTF-8 as by the server; tests/types/charsets.py has all characters."""

from __future__ import annotations

import random

import pytest

from examples.dbserver import DatabaseServer
from relay._native import decode_text, utf8_of

pytestmark = pytest.mark.every_server

PIECES = [b"a", b"bcd", b"01234567", *map(str.encode, "\xe4\u20ac\U0001f600")]
BROKEN = [b"\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\x80", b"\xf4\x90\x80\x80"]
UNICODE = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}


def test_text_of_all_planes_in_the_unicode_sets() -> None:
    points = [*range(0x20, 0xD800, 7), *range(0xE000, 0x10000, 5), *range(0x10000, 0x110000, 997)]
    text = "".join(map(chr, points))
    for charset, codec in UNICODE.items():
        held = text if charset != "ucs2" else "".join(character for character in text if character <= "\uffff")
        assert decode_text(charset, held.encode(codec)) == held, charset


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("gb18030", "ḿ😀中a€ⅰ"),
        ("ujis", "仡aｱ日"),
        ("eucjpms", "仡aｱ日"),
        ("gbk", "a中文b"),
        ("latin1", "äöü€\x81"),
    ],
)
def test_characters_of_different_lengths_follow_one_another(server: DatabaseServer, charset: str, text: str) -> None:
    if not server.execute(f"SHOW CHARACTER SET LIKE '{charset}'"):
        assert charset == "gb18030" and not server.kind.mysql
        return
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT CAST(CONVERT(%s USING {charset}) AS BINARY)", (text * 3,))
        [(encoded,)] = cursor.fetchall()
    assert decode_text(charset, encoded) == text * 3


def test_what_is_cut_off_becomes_a_question_mark() -> None:
    assert decode_text("gbk", b"a\xd6") == "a?"
    assert decode_text("utf16", b"\x00a\xd8\x3d") == "a?"
    assert decode_text("utf32", b"\x00\x00\x00a\x00\x11\x00\x00\x00") == "a??"
    assert decode_text("utf16", b"\x00\x00") == "\x00"
    with pytest.raises(LookupError, match="klingon"):
        decode_text("klingon", b"a")


def test_every_byte_that_belongs_to_no_character_of_utf8_becomes_a_question_mark() -> None:
    """Wherever it is: the code looks at eight bytes at a time, and at fewer at the end."""
    choose = random.Random(1)
    for _ in range(20_000):
        text = b"".join(choose.choice(PIECES + BROKEN) for _ in range(choose.randrange(8)))
        assert utf8_of("utf8mb4", text)[0] == mended(text), text


def test_text_of_one_byte_characters_is_converted_at_every_length() -> None:
    choose = random.Random(1)
    for _ in range(20_000):
        text = bytes(choose.choice((0x41, 0x7F, 0xA3, 0xFF)) for _ in range(choose.randrange(30)))
        assert decode_text("koi8r", text) == text.decode("koi8-r"), text


def mended(text: bytes) -> str:
    """The same by Python's decoder: the shortest valid start is a character, or else one byte a question mark."""
    found, at = "", 0
    while at < len(text):
        for size in range(1, 5):
            try:
                found += text[at : at + size].decode()
            except UnicodeDecodeError:
                continue
            break
        else:
            found, size = found + "?", 1
        at += size
    return found
