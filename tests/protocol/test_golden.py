"""The codec and encoder against the recording of the original: the same bytes wherever the relay does the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from relay._native import RowImages
from relay.protocol import classic
from relay.protocol.classic import Command, Discard, Identity, TableFilter
from tests.support.golden_session import Exchange, exchanges, header_of

EXCHANGES = exchanges()
KEY = 0x0BF246A9C6D9567F


def of(command: int) -> list[Exchange]:
    """The exchanges of one command."""
    return [each for each in EXCHANGES if header_of(each.request).command == command]


def rows(table: str) -> list[tuple[int, bytes]]:
    """Rows of a table that were polled: the version of the poll, 1 or 2, and the payload."""
    name = table.encode() + b"\0"
    return [
        (version, exchange.reply[classic.REPLY.size :])
        for version, command in ((1, Command.POLL), (2, Command.POLL_V2))
        for exchange in of(command)
        if name in exchange.reply
    ]


def test_every_request_parses_and_has_the_right_checksum_but_one() -> None:
    wrong = []
    for request, reply in EXCHANGES:
        header = header_of(request)
        payload = request[classic.HEADER.size :]
        assert len(payload) == header.payload_size
        if header.checksum != header.expected_checksum(payload):
            wrong.append(reply)
    assert wrong == [classic.encode_error("Invalid Checksum")]


def test_every_reply_parses() -> None:
    parser = classic.ReplyParser()
    for _, reply in EXCHANGES:
        parser.feed(reply)
        assert not reply or parser.next() is not None


def test_requests_are_encoded_as_recorded() -> None:
    ping, auth = EXCHANGES[0].request, of(Command.AUTH)[1].request
    assert classic.encode_request(Command.PING, version=0x00010020) == ping
    assert classic.encode_request(Command.AUTH, classic.encode_auth(KEY, "golden"), version=0x00010020) == auth
    first = of(Command.ADD_FILTER)[0].request
    header = header_of(first)
    wanted = TableFilter(7, Discard.NEWEST_BY_DEFAULT, 0, "test", "golden")
    ids = {"client_id": header.client_id, "token": header.token, "version": header.version}
    assert classic.encode_request(Command.ADD_FILTER, classic.encode_filter(wanted), **ids) == first


def test_replies_to_ping_auth_and_an_empty_poll_are_the_recorded_ones() -> None:
    pongs = {reply for request, reply in of(Command.PING) if reply and reply[0] == 0}
    assert pongs == {classic.encode_reply(0, b"PONG\0")}
    failed, done, *_ = of(Command.AUTH)
    refused = Identity(classic.parse_auth(failed.request[classic.HEADER.size :]).key, 0, 0)
    assert classic.encode_reply(0xFF, classic.encode_identity(refused)) == failed.reply
    identity = classic.parse_identity(done.reply[classic.REPLY.size :])
    assert identity.key == KEY
    assert classic.encode_reply(0, classic.encode_identity(identity)) == done.reply
    assert of(Command.POLL)[0].reply == classic.encode_reply(classic.Result.EMPTY)


def test_filters_of_the_recording_are_understood() -> None:
    asked = [classic.parse_filter(request[classic.HEADER.size :]) for request, _ in of(Command.ADD_FILTER)]
    assert asked[:3] == [
        TableFilter(7, 0, 0, "test", "golden"),
        TableFilter(3, 1, 32768, "test", "golden2"),
        TableFilter(3, 2, 500, "test", "golden2"),
    ]


def text(data: bytes, at: int) -> tuple[bytes, int]:
    """A string of the protocol at an offset, and the offset after it."""
    size = int.from_bytes(data[at : at + 4], "little")
    return data[at + 4 : at + 3 + size], at + 4 + size


def parsed(version: int, payload: bytes) -> dict[str, Any]:
    """What a Poll or PollV2 payload says."""
    skip = 4 if version == 2 else 0
    at = 13 + 2 * skip
    _, at = text(payload, at)
    _, at = text(payload, at + skip)
    count, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
    columns = []
    for _ in range(count):
        name, at = text(payload, at + skip)
        before, at = text(payload, at)
        after, at = text(payload, at)
        columns.append((name, before, after))
    assert at == len(payload)
    return {
        "kind": payload[0],
        "position": int.from_bytes(payload[1:9], "little"),
        "queue_size": int.from_bytes(payload[9:13], "little"),
        "instance": int.from_bytes(payload[13:17], "little"),
        "columns": columns,
    }


def image(values: list[bytes]) -> bytes:
    """A row image of golden2, whose columns are INT but for the last, a VARCHAR, with these texts."""
    nulls = sum(1 << number for number, value in enumerate(values) if value == b"NULL")
    *numbers, word = values
    packed = b"".join(int(number).to_bytes(4, "little") for number in numbers)
    return bytes([nulls]) + packed + (b"" if word == b"NULL" else bytes([len(word)]) + word)


@pytest.mark.parametrize(("version", "payload"), rows("golden2"))
def test_rows_are_encoded_as_recorded(version: int, payload: bytes) -> None:
    recorded = parsed(version, payload)
    ids = 0 if version == 2 else 1
    columns: list[list[Any]] = [
        [name.decode(), ids, 3, 0, False, True, False, "", [], "int(11)"] for name, _, _ in recorded["columns"]
    ]
    columns[-1][2:] = [15, 200, False, True, False, "utf8mb4", [], "varchar(50)"]
    definition = ["test", "golden2", recorded["instance"], ids, ids, True, columns]
    present = bytes([(1 << len(columns)) - 1])
    body = bytes([len(columns)]) + (present + present if recorded["kind"] == 2 else present)
    if recorded["kind"] != 1:
        body += image([before for _, before, _ in recorded["columns"]])
    if recorded["kind"] != 4:
        body += image([after for _, _, after in recorded["columns"]])
    images = RowImages(msgspec.msgpack.encode(definition), recorded["kind"], body)
    form = "poll" if version == 1 else "poll2"
    facts = {"position": recorded["position"], "queue_size": recorded["queue_size"]}
    assert images.render(form, **facts) == [payload]
