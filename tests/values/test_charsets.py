"""Text of all character sets is converted to UTF-8 as by the server; tests/types/charsets.py has all characters."""

from __future__ import annotations

import pytest

from examples.dbserver import DatabaseServer
from relay._native import decode_text

pytestmark = pytest.mark.every_server

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
