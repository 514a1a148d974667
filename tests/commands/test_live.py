"""`relay stat --watch`: its frames fit any terminal, its rates are right, and it leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.commands.text.columns import display_width, short, size_text, span
from relay.commands.text.live import Style, frame
from relay.monitoring.stat import CDC, Client, LineLog, Process, Stat
from relay.runtime.process_status import CDCStatus, Counts, LogStatus, Stop, TableUsage, Usage
from tests.commands.test_render import client, document, lake
from tests.support.cdc_client import CdcClient
from tests.support.relay_process import RELAY, Program, RelayProcess
from tests.support.sample_stat import STREAM
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]


def busy(clients: int, tables: int, servers: int = 2, **more: object) -> Stat:
    """A relay with so many clients, tables and servers; names are wide, long and hostile."""
    names = ["\x1b[2J" * 9, "名前" * 40, "e\u0301" * 50, "plain"]
    made: list[Client] = []
    for number in range(clients):
        each = client(name=f"{names[number % 4]}{number}", waiting=number)
        made.append(msgspec.structs.replace(each, id=number))
    rows = [
        TableUsage(names[number % 4], f"t{number}", Counts(number, 1, 2), Counts(number), Counts(number), 1.7e9)
        for number in range(tables)
    ]
    processes = [Process(f"server-{number}", number + 1, "running", 0, 1.0, 2**20, 0.1) for number in range(servers)]
    found = document(*made, lake=lake(5, Stop("lake_conflict", "words " * 30, "hint " * 30)))
    log = LineLog("/var/log", LogStatus(state="following"), 0.0, 0)
    return msgspec.structs.replace(
        found, processes=found.processes + processes, usage=Usage(1.6e9, 900, rows), log=log, **more
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 60), (81, 10), (60, 24), (132, 43), (240, 5), (40, 1)])
def test_a_frame_fits_its_terminal(width: int, height: int) -> None:
    for cdc, trouble in ((None, "it does not answer " * 9), (port(5000, 7), "")):
        lines = frame(busy(30, 30, servers=9, cdc=cdc), None, width, height, trouble=trouble)
        assert len(lines) <= height
        assert max(display_width(line.text) for line in lines) <= width
        assert all(line.text.isprintable() for line in lines)


def test_both_lists_have_their_share_and_say_what_they_leave_out() -> None:
    shown = [line.text for line in frame(busy(100, 100), None, 80, 60)]
    assert len(shown) == 60
    assert sum(text.startswith("... and ") for text in shown) == 2
    clients = next(number for number, text in enumerate(shown) if text.startswith("CLIENT"))
    tables = next(number for number, text in enumerate(shown) if text.startswith("TABLE"))
    assert abs((tables - clients) - (60 - tables)) <= 2
    few = [line.text for line in frame(busy(3, 100), None, 80, 60)]
    assert sum(text.startswith("... and ") for text in few) == 1, "what the clients leave goes to the tables"
    assert len(few) == 60


def port(streams: int, left_out: int = 0) -> CDC:
    """A CDC port with so many streams; users and tables are wide, long and hostile."""
    names = ["\x1b[2J" * 9, "名前" * 40, "e\u0301" * 50, "plain"]
    made = [
        msgspec.structs.replace(STREAM, user=names[number % 4], table=names[number % 3], port=number, lag_bytes=number)
        for number in range(streams)
    ]
    return CDC("0.0.0.0", 4001, [CDCStatus(state="serving", streams=made, left_out=left_out)])


def test_three_lists_have_their_share_too() -> None:
    shown = [line.text for line in frame(busy(100, 100, cdc=port(100)), None, 80, 90)]
    assert len(shown) == 90
    places = [
        next(number for number, text in enumerate(shown) if text.startswith(head))
        for head in ("CLIENT", "CDC USER", "TABLE")
    ]
    lengths = [end - begin for begin, end in zip(places, [*places[1:], 91], strict=True)]
    assert sum(text.startswith("... and ") for text in shown) == 3 and max(lengths) - min(lengths) <= 1
    few = [line.text for line in frame(busy(2, 3, cdc=port(100)), None, 80, 60)]
    assert sum(text.startswith("... and ") for text in few) == 1, "what the others leave goes to the streams"
    assert len(few) == 60


def test_cdc_streams_have_rates_and_their_port_its_troubles() -> None:
    before = msgspec.structs.replace(document(client()), at=100.0, started=50.0, cdc=port(1))
    now = msgspec.structs.replace(before, at=102.0, cdc=port(2))
    assert now.cdc
    [status] = now.cdc.processes
    status.rows, status.bytes, status.left_out, status.trouble = 3000, 1 << 20, 9, "Permission denied"
    status.streams[0] = msgspec.structs.replace(STREAM, port=0, rows=STREAM.rows + 500, bytes=STREAM.bytes + 4096)
    assert before.cdc
    before.cdc.processes[0].streams[0] = msgspec.structs.replace(STREAM, port=0)
    lines = frame(now, before, 80, None)
    shown = [line.text for line in lines]
    said = " ".join("\n".join(shown).split())
    assert "cdc serving, 11 connections, the slowest 50 B behind; 1,500 rows/s, 512.0 KiB/s" in said
    [trouble] = [line for line in lines if line.text.startswith("users")]
    assert trouble.style is Style.ALARM and "Permission denied" in trouble.text
    place = next(number for number, text in enumerate(shown) if text.startswith("CDC USER"))
    assert shown[place].split() == ["CDC", "USER", "TABLE", "STATE", "ROWS/S", "BYTES/S", "BEHIND"]
    assert shown[place + 1].split() == ["maxuser", "shop.orders", "streaming", "250", "2.0", "KiB", "50", "B"]
    assert shown[place + 2].split()[-5:] == ["streaming", "-", "-", "1", "B"], "it has just come"
    assert shown[place + 3] == "9 more connections"
    stopped = msgspec.structs.replace(status, state="stopped", stop=Stop("unexpected", "a defect", "report it"))
    alarms = [line.text for line in frame(msgspec.structs.replace(now, cdc=CDC("::", 1, [stopped])), None, 80, None)
              if line.style is Style.ALARM]  # fmt: skip
    assert any("unexpected: a defect" in text for text in alarms) and any("report it" in text for text in alarms)
    assert not [line for line in frame(document(client()), None, 80, None) if line.text.startswith("cdc")]


def test_without_a_height_everything_is_shown() -> None:
    shown = frame(busy(100, 100), None, 80, None)
    assert not [line for line in shown if line.text.startswith("... and ")]
    assert len(shown) > 200


def test_rates_come_from_two_documents() -> None:
    usage = Usage(1.6e9, 900, [TableUsage("shop", "orders", Counts(70, 0, 0), Counts(70), Counts(70), 1.7e9)])
    before = msgspec.structs.replace(document(client(), reader_pid=11), at=100.0, started=50.0, usage=usage)
    now = msgspec.structs.replace(
        before,
        at=102.0,
        rows={"insert": before.rows["insert"] + 3000, "update": 12, "delete": 0},
        traffic=before.traffic | {"bytes": before.traffic["bytes"] + 4096},
        processes=[Process("reader", 11, "running", 0, before.processes[0].cpu_seconds + 1.0, 2**20, 0.1)],
        clients=[msgspec.structs.replace(client(), confirmed=client().confirmed + 500)],
        usage=Usage(1.6e9, 900, [TableUsage("shop", "orders", Counts(270, 0, 0), Counts(270), Counts(270), 1.7e9)]),
    )
    shown = [line.text for line in frame(now, before, 80, None)]
    assert "rows/s     1,505 (insert 1,500, update 5, delete 0), 2.0 KiB/s of binlog" in shown
    assert any(text.split()[:2] == ["reader", "50.0"] for text in shown)
    [line] = [text for text in shown if text.startswith("cache")]
    assert line.split() == ["cache", "connected", "0", "0", "250", "597", "3"]
    [line] = [text for text in shown if text.startswith("shop.orders")]
    assert line.split() == ["shop.orders", "100", "270", "0", "0", "270", "270"]


@pytest.mark.parametrize("change", [{"started": 60.0}, {"at": 100.0}])
def test_nothing_is_made_up_where_there_is_nothing_to_compare(change: dict[str, float]) -> None:
    before = msgspec.structs.replace(document(client()), at=100.0, started=50.0)
    now = msgspec.structs.replace(before, **{"at": 101.0, **change})
    for earlier in (before, None):
        shown = [line.text for line in frame(now, earlier, 80, None)]
        if earlier is None or change:
            assert "rows/s     - (insert -, update -, delete -), -/s of binlog" in shown


def test_what_needs_somebody_stands_out() -> None:
    def alarms(now: Stat, before: Stat | None = None, trouble: str = "") -> str:
        return "\n".join(line.text for line in frame(now, before, 80, None, trouble) if line.style is Style.ALARM)

    calm = msgspec.structs.replace(document(client()), processes=[Process("reader", 11, "running", 0, 1.0, 1, 0.1)])
    assert alarms(calm) == ""
    assert "stop       gtid_gap: a gap" in alarms(document(stop=Stop("gtid_gap", "a gap", "mend it")))
    assert "hint       mend it" in alarms(document(stop=Stop("gtid_gap", "a gap", "mend it")))
    assert "unreachable" in alarms(
        msgspec.structs.replace(calm, source=msgspec.structs.replace(calm.source, state="unreachable"))
    )
    assert "in 10 min" in alarms(
        msgspec.structs.replace(calm, source=msgspec.structs.replace(calm.source, loss_seconds=600.0))
    )
    assert "broker" in alarms(document())
    assert "NO REPLY   it is away" in alarms(calm, trouble="it is away")
    worse = msgspec.structs.replace(client(), dropped=msgspec.structs.replace(client().dropped, cut=9))
    assert "cache" in alarms(msgspec.structs.replace(calm, clients=[worse]), calm)


def test_numbers_sizes_and_times_are_for_people() -> None:
    assert [short(number) for number in (None, 0, 99_999, 100_000, 1_234_567, 99_950_000_000, 5e15)] == [
        "-", "0", "99,999", "100 k", "1.23 M", "100 G", "5,000 T",
    ]  # fmt: skip
    assert all(len(short(10**exponent * factor)) <= 7 for exponent in range(16) for factor in (1, 5, 9.99, 9.996))
    assert [size_text(count) for count in (0, 1023, 1024, 3 * 2**30, 2**50)] == [
        "0 B", "1023 B", "1.0 KiB", "3.0 GiB", "1024.0 TiB",
    ]  # fmt: skip
    assert [span(seconds) for seconds in (0.04, 9.9, 59.9, 60, 310, 3600, 7265, 90000, 864000)] == [
        "0.0 s", "9.9 s", "59 s", "1 min", "5 min 10 s", "1 h", "2 h 1 min", "1 d 1 h", "10 d",
    ]  # fmt: skip


class Terminal:
    """A pseudo terminal with a program in it."""

    def __init__(self, command: list[str], columns: int, lines: int) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.written = b""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, done: Callable[[list[str]], object]) -> list[str]:
        """The lines of the first frame that is `done`."""

        def shown() -> list[str] | None:
            # A whole frame lies between the two marks; what its lines hold beside escapes is the screen's text.
            *whole, _ = self.written.split(b"\x1b[?2026l")
            frames = [part.rpartition(b"\x1b[?2026h\x1b[H")[2] for part in whole]
            for each in frames:
                text = each.decode()
                for escape in ("\x1b[0m", "\x1b[1m", "\x1b[1;31m"):
                    text = text.replace(escape, "")
                if done(lines := text.replace("\r", "").split("\n")):
                    return lines
            self.written = self.written.rpartition(b"\x1b[?2026l")[2] if whole else self.written
            if select.select([self._master], [], [], 0.5)[0]:
                self.written += os.read(self._master, 65536)
            return None

        lines: list[str] = until(shown, what=lambda: self.written, pause=0)
        return lines

    def rest(self) -> bytes:
        """Everything until the program has closed the terminal."""
        while True:
            try:
                self.written += os.read(self._master, 65536)
            except OSError:
                return self.written

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def watched(relay: RelayProcess, columns: int, lines: int) -> Iterator[Terminal]:
    terminal = Terminal([*RELAY, "stat", "--watch", "-c", str(relay.conf)], columns, lines)
    try:
        yield terminal
    finally:
        terminal.close()


def test_a_real_terminal_shows_it_follows_its_size_and_gets_its_screen_back(
    mariadb1011: DatabaseServer, start_relay: Start
) -> None:
    port = free_port()
    relay = start_relay(mariadb1011, {"CDC.Enabled": "yes", "CDC.Address": "127.0.0.1", "CDC.Port": port})
    with watched(relay, 80, 24) as terminal:
        shown = terminal.until(lambda lines: any("rows/s     0 (" in line for line in lines))
        assert {len(line) for line in shown} == {80}, "written to the edge: nothing of the frame before is left"
        assert len(shown) == 24
        with CdcClient(port) as stream:  # only now: the port waits some seconds for a login
            stream.login(USER, PASSWORD).register().request("shop.not_there")
            asked = [USER, "shop.not_there", "registered"]
            port_line = "cdc        serving, 1 connection, "
            shown = terminal.until(
                lambda lines: (
                    any(line.split()[:3] == asked for line in lines)
                    and any(line.startswith(port_line) for line in lines)
                )
            )
        assert any(line.startswith("CDC USER") for line in shown)
        terminal.resize(100, 30)
        assert len(terminal.until(lambda lines: len(lines[0]) == 100)) == 30
        relay.stop()
        terminal.until(lambda lines: lines[1].startswith("NO REPLY"))
        relay.start()
        terminal.until(lambda lines: not lines[1].startswith("NO REPLY"))
        terminal.process.send_signal(signal.SIGINT)
        ending = terminal.rest()
        assert terminal.process.wait(patience(10)) == 128 + signal.SIGINT
        assert ending.rstrip().endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l"), "the shell has its screen back"


def test_what_is_no_terminal_gets_plain_frames(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    with Program("stat", "--watch", "-c", relay.conf) as process:
        heads = 0
        while heads < 2:
            line = process.stdout.readline()
            assert "\x1b" not in line and len(line) <= 81
            heads += line.startswith("relay ")
        process.stdout.close()  # as `head` does
        assert process.wait(10) == 0
        assert process.stderr.read() == ""
