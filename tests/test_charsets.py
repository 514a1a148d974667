"""Every character of every character set becomes the UTF-8 that the server makes of it."""

from __future__ import annotations

import pytest

from examples.dbserver import DatabaseServer
from relay._native import decode_text

PASSED_THROUGH = {"binary", "ascii", "utf8", "utf8mb3", "utf8mb4"}
UNICODE = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}


def test_every_code_of_every_character_set(server: DatabaseServer, db: str) -> None:
    codes = [f"X'{code:02X}'" for code in range(0x100)]
    codes += [f"X'{lead:02X}{trail:02X}'" for lead in range(0x80, 0x100) for trail in range(0x20, 0x100)]
    server.execute(
        f"CREATE TABLE {db}.codes (code VARBINARY(4))", f"INSERT INTO {db}.codes VALUES ({'),('.join(codes)})"
    )
    sets = {str(name) for name, *_ in server.execute("SHOW CHARACTER SET")}
    wrong, seen = [], 0
    for charset in sorted(sets - PASSED_THROUGH - UNICODE.keys()):
        rows = server.execute(
            f"SELECT code, CAST(CONVERT(CONVERT(code USING {charset}) USING utf8mb4) AS BINARY) FROM {db}.codes"
            f" WHERE CHAR_LENGTH(CONVERT(code USING {charset})) = 1"
        )
        # What is no character at all is NULL on MySQL; an incomplete one becomes nothing.
        told = [(code, text, decode_text(charset, code)) for code, text in rows if text]
        seen += len(told)
        wrong += [
            f"{charset} {code.hex()}: {text!r}, not {ours!r}" for code, text, ours in told if ours.encode() != text
        ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:50])
    assert seen > 80_000


def test_text_of_all_planes_in_the_unicode_sets() -> None:
    points = [*range(0x20, 0xD800, 7), *range(0xE000, 0x10000, 5), *range(0x10000, 0x110000, 997)]
    text = "".join(map(chr, points))
    for charset, codec in UNICODE.items():
        assert decode_text(charset, text.encode(codec)) == text, charset


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
