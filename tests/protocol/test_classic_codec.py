"""The classic codec: headers, payloads, keys, replies in pieces, and malformed input."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay._native import byte_sum
from relay.errors import RelayError
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Auth, FilterName, Identity, MalformedPayload, TableFilter
from tests.support.golden_session import header_of

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60)
u8, u32, u64 = st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
filters = st.builds(TableFilter, st.integers(1, 7), st.integers(0, 2), st.integers(0, 2**31 - 1), names, names)


@given(st.binary(max_size=5000))
def test_byte_sum_is_the_sum_of_bytes(data: bytes) -> None:
    assert byte_sum(data) == sum(data)
    assert byte_sum(memoryview(data)[1:]) == sum(data[1:])


@given(st.integers(0, 65535), st.binary(max_size=300), u32, u32)
def test_request_has_the_checksum_that_its_header_expects(
    command: int, payload: bytes, client_id: int, token: int
) -> None:
    request = classic.encode_request(command, payload, client_id=client_id, token=token)
    header = header_of(request)
    assert (header.command, header.client_id, header.token) == (command, client_id, token)
    assert header.payload_size == len(payload) == len(request) - classic.HEADER.size
    words = sum(header) - header.checksum
    assert header.checksum == header.expected_checksum(payload) == (words + sum(payload)) % 2**32


def test_reserved_words_count_in_the_checksum() -> None:
    plain = header_of(classic.encode_request(1))
    assert plain._replace(reserved1=5, reserved2=9).expected_checksum(b"") == plain.checksum + 14


@given(st.lists(st.tuples(u8, st.binary(max_size=200)), max_size=8), st.integers(0, 2**32))
def test_replies_are_found_however_they_are_cut(replies: list[tuple[int, bytes]], seed: int) -> None:
    stream = b"".join(classic.encode_reply(*reply) for reply in replies)
    parser, found, at, rng = classic.ReplyParser(), [], 0, random.Random(seed)
    while at < len(stream):
        step = rng.randint(1, 64)
        parser.feed(stream[at : at + step])
        at += step
        while (reply := parser.next()) is not None:
            found.append(tuple(reply))
    assert found == replies


def test_reply_with_a_wrong_checksum_is_an_error() -> None:
    parser = classic.ReplyParser()
    parser.feed(classic.encode_reply(0, b"PONG\0")[:-1] + b"\1")
    with pytest.raises(RelayError, match="checksum"):
        parser.next()


def test_reply_that_claims_to_be_huge_is_an_error_before_it_is_received() -> None:
    parser = classic.ReplyParser(max_payload=1000)
    parser.feed(classic.REPLY.pack(0, 1001, 0))
    with pytest.raises(RelayError, match="1001 bytes"):
        parser.next()


@given(u64, names)
def test_auth_payload_survives_the_way(key: int, name: str) -> None:
    assert classic.parse_auth(classic.encode_auth(key, name)) == Auth(key, name)


def test_name_is_the_same_with_and_without_its_nul() -> None:
    with_nul = classic.encode_auth(1, "dup")
    without = with_nul[:16] + (3).to_bytes(4, "little") + b"dup"
    assert classic.parse_auth(with_nul) == classic.parse_auth(without) == Auth(1, "dup")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "0 bytes"),
        (bytes(19), "19 bytes"),
        (bytes(20), "is empty"),
        (bytes(16) + b"\1\0\0\0\0", "is empty"),
        (bytes(16) + b"\x3c\0\0\0name", "60 bytes announced, 4 sent"),
        (bytes(16) + b"\xff\xff\xff\xffname", "4294967295 bytes announced"),
        (bytes(16) + (300).to_bytes(4, "little") + b"n" * 300, "longer than 256"),
        (bytes(16) + b"\2\0\0\0\xff\xfe", "not UTF-8"),
    ],
)
def test_malformed_auth_is_refused_with_the_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(MalformedPayload, match=reason):
        classic.parse_auth(payload)


@given(filters)
def test_filter_payload_survives_the_way(wanted: TableFilter) -> None:
    assert classic.parse_filter(classic.encode_filter(wanted)) == wanted
    assert classic.parse_filters(classic.encode_filters([wanted, wanted])) == [wanted, wanted]


@given(st.integers(0, 7), names, names)
def test_filter_name_survives_the_way(kinds: int, schema: str, table: str) -> None:
    name = FilterName(kinds, schema, table)
    assert classic.parse_filter_name(classic.encode_filter_name(name)) == name


def test_filter_takes_what_old_clients_send() -> None:
    odd = classic.parse_filter(classic.encode_filter(TableFilter(0xFF, 7, 0x8000_0000, "s", "t")) + b"behind")
    assert odd == TableFilter(7, 2, 0, "s", "t")


@pytest.mark.parametrize(
    "payload", [b"", b"\1\0\0\0\0\0", b"\1\0\0\0\0\0\xff\0\0\0x", b"\x08\0\0\0\0\0\1\0\0\0a\1\0\0\0b"]
)
def test_malformed_filter_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedPayload):
        classic.parse_filter(payload)


@given(st.binary(max_size=80))
def test_any_payload_is_understood_or_refused(payload: bytes) -> None:
    for parse in (classic.parse_auth, classic.parse_filter, classic.parse_filter_name):
        with suppress(MalformedPayload):
            parse(payload)
    for parse_reply in (classic.parse_filters, classic.parse_identity):
        with suppress(RelayError):
            parse_reply(payload)


def test_keys_are_those_of_the_original() -> None:
    assert classic_keys.fnv1a64(b"") == 0xCBF29CE484222325
    assert classic_keys.fnv1a64(b"Freedelity") == 0x700E76749A3B5CE8
    assert (
        classic_keys.shifted_fnv1a64(b"Freedelity") == classic_keys.shifted_fnv1a64(b"Freedelitz") == 0x0BF246A9C6D9567F
    )
    assert classic_keys.shifted_fnv1a64(b"") == 0xCBF29CE484222325


def test_legacy_keys_are_accepted_only_where_they_are_wanted() -> None:
    secret = next(s for s in (str(n).encode() for n in range(100)) if classic_keys.fnv1a64(s) >> 63)
    key, shifted = classic_keys.fnv1a64(secret), classic_keys.shifted_fnv1a64(secret)
    legacy = classic_keys.accepted_keys(secret, legacy=True)
    for sent in (key, shifted, key & ~(1 << 63), shifted & ~(1 << 63)):
        assert classic_keys.key_matches(sent, legacy)
        assert classic_keys.key_matches(sent, classic_keys.accepted_keys(secret, legacy=False)) == (sent == key)
    assert not classic_keys.key_matches(key ^ 1, legacy)
    assert not classic_keys.key_matches(0, ())


@given(u64, u32, u32)
def test_identity_survives_the_way(key: int, token: int, client_id: int) -> None:
    identity = Identity(key, token, client_id)
    payload = classic.encode_identity(identity)
    assert len(payload) == 16
    assert classic.parse_identity(payload) == identity


def test_admin_request_carries_the_key_low_word_first() -> None:
    key = classic_keys.fnv1a64(b"admin")
    header = header_of(classic.encode_admin_request(0x0100, key, b"{}"))
    assert header.token << 32 | header.client_id == key
