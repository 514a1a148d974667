"""The programs of docs/python-client.md and docs/protocol.md print the rows of a relay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relay.client import RelayClient
from tests.support.classic_client import SECRET
from tests.support.recipe import Recipe
from tests.support.server_processes import Serving
from tests.support.waiting import until

PROGRAMS = ["printer", "worker"]  # of the page, by the name of the client


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Two servers, and a filter of each program, so that it finds rows when it starts."""
    with Serving(tmp_path) as running:
        for name in (*PROGRAMS, "plain"):
            with RelayClient("127.0.0.1", running.port, name, SECRET) as client:
                client.add_filter("shop", "orders")
        yield running


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_page_prints_each_row_once(serving: Serving, name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    replaced = {"6001": serving.port, "my-secret": SECRET}
    with closing(Recipe("../python-client", tmp_path / name, replaced, number=PROGRAMS.index(name))) as program:
        serving.insert(*((number, "x") for number in range(150)))
        program.start()
        until(lambda: len(program.printed()) >= 150, what="the rows are not printed")
        serving.update(((0, "x"), (0, "y")))
        until(lambda: len(program.printed()) >= 151, what="a later row is not printed")
    inserts = [f"{{'id': {number}, 'word': 'x'}}\n" for number in range(150)]
    assert [line.removeprefix("insert ").removeprefix("None ") for line in program.printed()[:150]] == inserts
    assert program.printed()[150].startswith("update ")


def test_the_client_of_the_protocol_page_prints_each_row(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with closing(Recipe("../protocol", tmp_path / "plain", {"6001": serving.port, "my-secret": SECRET})) as program:
        serving.insert((1, "größe"), (2, None))
        serving.update(((1, "größe"), (1, "")))
        serving.delete((2, None))
        program.start()
        until(lambda: len(program.printed()) >= 4, what="the rows are not printed")
    assert program.printed() == [
        "1 orders id:  -> 1 word:  -> größe\n",
        "1 orders id:  -> 2 word:  -> NULL\n",
        "2 orders id: 1 -> 1 word: größe -> \n",
        "4 orders id: 2 ->  word: NULL -> \n",
    ]
