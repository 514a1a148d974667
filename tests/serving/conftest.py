"""Fixtures for tests of the servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server_processes import Serving


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two servers for all tests that do them no harm; a client and a schema of its own name belong to each test."""
    with Serving(tmp_path_factory.mktemp("serving")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)
