"""docs/security.md agrees with this relay: its tests, keys, fuzz targets and modes exist, and none is missing."""

from __future__ import annotations

import re

from relay.config.keys import CLIENT_KEYS, KEYS
from relay.config.values import networks, secret
from tests.docs.test_operations_doc import named_tests
from tests.fuzz.parsers import TARGETS
from tests.support import ROOT

PAGE = (ROOT / "docs/security.md").read_text()
PROMISES = (ROOT / "docs/internals/promises.md").read_text()
TESTING = (ROOT / "docs/internals/testing.md").read_text()


def section(title: str, page: str = PAGE) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(title: str, page: str = PAGE) -> list[list[str]]:
    """The cells of the section's table, without its head."""
    lines = [line for line in section(title, page).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[1:]]


def test_every_threat_but_the_search_for_a_secret_has_a_test() -> None:
    threats = [row[0] for row in rows("Threats")]
    assert len(threats) > 18
    tested = [row[0] for row in rows("Threats", PROMISES) if named_tests(row[-1])]
    assert set(threats) - set(tested) == {"A search finds the secret of a login, or of a line of `cdcusers`"}
    assert set(tested) - set(threats) == {"Local admin commands"}


def test_every_fuzz_target_is_in_the_table_and_no_other() -> None:
    native, python = set[str](), set[str]()
    for row in rows("Fuzzers", TESTING):
        native |= set(re.findall(r"`(\w+)`", row[2]))
        python |= set(re.findall(r"`(\w+)`", row[3]))
    assert native == {path.stem for path in (ROOT / "tests/fuzz").glob("*.cpp")} - {"driver"}
    assert python == set(TARGETS)
    assert not native & python, "what failed is kept by the target's name"


def test_every_secret_and_every_list_of_addresses_is_spoken_of() -> None:
    for key in (*KEYS, *CLIENT_KEYS):
        if key.read is secret:
            assert f"`{key.name}File`" in section("Secrets")
        if key.read is networks:
            assert f"`{key.name}`" in section("Threats") + section("Listeners"), key


def test_keys_of_the_page_are_there() -> None:
    names = {key.name for key in (*KEYS, *CLIENT_KEYS)} | {"NAME"}
    for name in re.findall(r"`(?:\[\w+\] )?([A-Z]\w+) = ", PAGE):
        assert name in names, name
