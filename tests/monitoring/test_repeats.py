"""A client that takes a row and never confirms it: counted, narrowed down to that row, skipped if configured."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from relay.commands.admin_client import AdminClient
from relay.errors import RelayError
from relay.monitoring.repeats import Repeats
from relay.protocol.classic import Result
from tests.commands.test_render import client
from tests.support.classic_client import Client, many
from tests.support.server_processes import ADMIN_SECRET, Serving
from tests.support.waiting import until


def again(serving: Serving, name: str = "a") -> Client:
    """The client comes back on another connection."""
    client = serving.connect()
    assert client.authenticate(name).result == Result.OK
    return client


def test_a_row_that_is_taken_and_not_confirmed_is_counted_until_it_is(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1) as serving:
        owner = serving.client("a", "shop.orders")
        serving.insert((1, "x"), (2, "y"))
        until(lambda: serving.stats(owner)["waiting"] == 2)
        for repeats in range(4):
            assert again(serving).poll()["id"] == 1
            until(lambda repeats=repeats: serving.stats(owner)["repeats"] == repeats)  # type: ignore[misc]
        last = again(serving)
        assert last.poll()["id"] == 1
        assert last.poll()["id"] == 2, "which confirms the first"
        facts = serving.stats(owner)
        assert (facts["repeats"], facts["confirmed"], facts["dropped"]["skipped"]) == (0, 1, 0)


def test_a_connection_that_is_gone_before_its_reply_is_no_repeat(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1) as serving:
        owner = serving.client("a", "shop.essays")
        serving.insert_long((1, "x" * 8_000_000))
        until(lambda: serving.stats(owner)["waiting"] == 1)
        for _ in range(3):
            cut = again(serving)
            cut.send(*many(1))
            until(lambda: serving.stats(owner)["in_flight"] == 1)
            cut.close()
            until(lambda: not serving.stats(owner)["connected"])
        assert serving.stats(owner)["repeats"] == 0
        assert len(again(serving).poll()["after"]["word"]) == 8_000_000


@pytest.mark.parametrize("rows", [1, 10])
def test_after_so_many_repeats_the_row_is_skipped_and_those_behind_it_come(tmp_path: Path, rows: int) -> None:
    with Serving(tmp_path, workers=1, Relay__MaxRepeats="5") as serving:
        owner = serving.client("a", "shop.orders")
        serving.insert(*[(number, "x") for number in range(rows)])
        until(lambda: serving.stats(owner)["waiting"] == rows)
        wanted = [1, 1, 1, 1, 1, 0] if rows == 1 else [10, 10, 10, 5, 2, 1, 9]
        assert [len(again(serving).poll_many(100, wait=0)) for _ in wanted] == wanted, "that row alone in the end"
        facts = serving.stats(owner)
        assert facts["dropped"]["skipped"] == 1 and facts["repeats"] == 0
        assert facts["matched"] == facts["confirmed"] + facts["in_flight"] + facts["waiting"] + 1


def test_an_operator_skips_the_row_that_is_next_whether_in_flight_or_not(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=2) as serving:
        owner = serving.client("a", "shop.orders")
        serving.insert(*[(number, "x") for number in range(4)])
        until(lambda: serving.stats(owner)["waiting"] == 4)
        with AdminClient("127.0.0.1", serving.port, ADMIN_SECRET) as admin:
            assert admin.skip("a") == {"sequence": 1}
            until(lambda: serving.stats(owner)["waiting"] == 3)
            assert again(serving).poll()["id"] == 1
            assert admin.skip("a") == {"sequence": 2}
            until(lambda: serving.stats(owner)["in_flight"] == 0)
            assert again(serving).poll()["id"] == 2
            with pytest.raises(RelayError, match="no client is called 'b'"):
                admin.skip("b")
            facts = serving.stats(owner)
            assert facts["dropped"]["skipped"] == 2
            assert facts["matched"] == facts["confirmed"] + facts["in_flight"] + facts["waiting"] + 2
            serving.client("c")
            assert admin.skip("c") == {"sequence": 0}


def test_the_log_names_who_takes_a_row_again_and_again_now_and_then() -> None:
    logged: list[int] = []
    repeats = Repeats(lambda event, **fields: logged.append(int(str(fields["repeats"]))))
    made = client("a")
    for count in [*range(45), *range(12)]:
        repeats.check([msgspec.structs.replace(made, repeats=count)])
    assert logged == [10, 20, 40, 10]
