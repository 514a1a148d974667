"""The fixture that measures a fault, and the table of all faults at the end of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from tests.faults import table
from tests.faults.ordeal import Line, Trial, begin
from tests.support.fault_proxy import FaultProxy

DOCUMENT = Path(__file__).parents[2] / "bench" / "FAULTS.md"
Ordeal = Callable[..., AbstractContextManager[Trial]]


@pytest.fixture
def proxy(server: DatabaseServer) -> Iterator[FaultProxy]:
    """Stands between the relay and `server`."""
    with FaultProxy(server.port) as made:
        yield made


@pytest.fixture
def own(kind: str, own_server: Callable[..., DatabaseServer]) -> DatabaseServer:
    """A server of this test's own."""
    return own_server(kind)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[Line], None]:
    """Puts a line into the table at the end of the run, also from a worker's process."""
    return lambda line: request.node.user_properties.append(("fault", msgspec.to_builtins(line)))


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[list[str]], None]:
    """Has lines printed at the end of the run, also from a worker's process."""
    return lambda lines: request.node.user_properties.append(("shown", lines))


@pytest.fixture
def ordeal(tell: Callable[[Line], None]) -> Ordeal:
    """ordeal(fault, relay, server, db, allows) as tests.faults.ordeal.begin has it; its accounts go into the table."""

    @contextmanager
    def around(*arguments: Any, **more: Any) -> Iterator[Trial]:
        trial = begin(*arguments, **more)
        yield trial
        tell(trial.close())

    return around


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table; with RELAY_FAULTS_WRITE=1, and if nothing failed, put it into bench/FAULTS.md, too."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    for report in reports:
        for name, value in report.user_properties:
            if name == "shown" and report.when == "call":
                terminalreporter.section(report.nodeid.rpartition("::")[2])
                for row in value:
                    terminalreporter.write_line(row)
    lines = [
        msgspec.convert(value, Line)
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == "fault"
    ]
    if not lines:
        return
    rows = table.rows(lines)
    terminalreporter.section("faults")
    for row in table.aligned(rows):
        terminalreporter.write_line(row)
    if os.environ.get("RELAY_FAULTS_WRITE") and not terminalreporter.stats.get("failed"):
        DOCUMENT.write_text(table.written(DOCUMENT.read_text(), rows))
