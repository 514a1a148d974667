"""A status page in shared memory shows what its writer wrote last, complete, whichever process dies meanwhile."""

from __future__ import annotations

import os
import signal

import pytest

from relay.runtime.process_status import ExportStatus, StatusPage
from tests.support.waiting import until


def test_a_status_page_shows_nothing_until_something_is_written() -> None:
    status_page = StatusPage()
    assert status_page.read() == b""
    assert status_page.decode(ExportStatus).state == "starting"
    for content in (b"one", b"", b"x" * 8000, b"two"):
        status_page.write(content)
        assert status_page.read() == content


def test_what_does_not_fit_is_refused_and_the_last_stays() -> None:
    status_page = StatusPage()
    status_page.write(b"fits")
    with pytest.raises(ValueError, match="9000 bytes"):
        status_page.write(b"x" * 9000)
    assert status_page.read() == b"fits"


def test_a_reader_never_sees_half_of_what_another_process_writes() -> None:
    status_page = StatusPage()
    status_page.write(b"\0" * 8000)
    writer = os.fork()
    if writer == 0:
        for number in range(10**9):
            status_page.write(bytes([number % 251]) * 8000)
    try:
        seen = set()

        def often() -> bool:
            content = status_page.read()
            assert len(content) == 8000 and len(set(content)) == 1
            seen.add(content[0])
            return len(seen) > 200

        until(often, pause=0)
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    assert len(set(status_page.read())) == 1, "the writer was killed while it wrote"
