"""The frames of `relay stat --watch`: the state of the relay on one screen, with rates. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from msgspec.structs import astuple

from relay.commands.text import cdc as cdc_text
from relay.commands.text.clients import dropped_rows
from relay.commands.text.columns import cut, fact, fit, moment, short, size_text, span
from relay.commands.text.stat import lag, loss, retries, source_text, stopped
from relay.monitoring.stat import CDC, Client, Process, Stat
from relay.runtime.process_status import CDCStream, Stop, TableUsage

_CELL: Final = 40  # columns for a process: two are beside each other in 80
_CLIENT: Final = 52  # columns of a client's line after its name
_TABLE: Final = 48  # columns of a table's line after its name
_STREAM: Final = 44  # columns of a CDC stream's line after its table
_LEAST_LIST: Final = 4  # a list that gets fewer lines, heading included, is left out
_MANY_SERVERS: Final = 4  # if there are more servers, they share a cell
_SOON: Final = 3600.0  # seconds to data loss below which there is an alarm


class Style(Enum):
    """The style of a line."""

    PLAIN = "plain"
    HEADING = "heading"
    ALARM = "alarm"


class Line(NamedTuple):
    """One line of a frame, not wider than the frame."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True)
class Rates:
    """Rates between two documents of the same relay; None without an earlier document."""

    now: Stat
    before: Stat | None

    @property
    def seconds(self) -> float:
        """Seconds between the two documents; 0 without an earlier one, or if the relay was restarted in between."""
        if self.before is None or self.before.started != self.now.started:
            return 0.0
        return max(0.0, self.now.at - self.before.at)

    def of(self, now: float, before: float | None) -> float | None:
        """Return the growth of a counter per second; None if it is unknown."""
        if before is None or not self.seconds:
            return None
        return max(0.0, now - before) / self.seconds

    def rows(self, kind: str) -> float | None:
        """Rows of that kind that were read per second."""
        return self.of(self.now.rows.get(kind, 0), self.before.rows.get(kind, 0) if self.before else None)


def frame(now: Stat, before: Stat | None, width: int, height: int | None, trouble: str = "") -> list[Line]:
    """Return a frame of at most `height` lines (None: no limit) of at most `width` columns.

    `before` is an earlier document, for rates. `trouble`: why there is no newer document.
    """
    rates = Rates(now, before)
    lines = _head(rates, width)
    if trouble:
        lines[1:1] = _lines(fact("NO REPLY", trouble, width), Style.ALARM)
    lines += [Line(""), *_processes(rates, width)]
    parts = (_clients(rates, width), _streams(rates, width), _tables(rates, width))
    room = None if height is None else height - len(lines)
    for part, share in zip(parts, _shares(room, [len(part) for part in parts]), strict=True):
        lines += _shortened(part, share, width)
    lines = lines if height is None else lines[:height]
    return [Line(cut(line.text, width), line.style) for line in lines]


def _lines(texts: Sequence[str], style: Style = Style.PLAIN) -> list[Line]:
    return [Line(text, style) for text in texts]


def _head(rates: Rates, width: int) -> list[Line]:
    now, source = rates.now, rates.now.source
    first = f"relay {now.version}: {now.state}, up {span(now.at - now.started)}"
    clock = f"{moment(now.at)} UTC"
    lines = [Line(first + f"{clock:>{max(len(clock) + 1, width - len(first))}}", Style.HEADING)]
    lines += _stop(now.stop, width)
    disconnected = source.state != "streaming" and now.stop is None
    at = f", at {source.file}:{source.position}" if source.file else ""
    shown = fact("source", source_text(now) + at, width) + retries(now, width)
    lines += _lines(shown, Style.ALARM if disconnected else Style.PLAIN)
    lines += _lines(fact("lag", lag(source), width))
    soon = source.loss_seconds is not None and source.loss_seconds < _SOON
    lines += _lines(fact("loss", loss(source), width), Style.ALARM if soon else Style.PLAIN)
    journal = now.journal
    text = f"{size_text(journal.bytes)} on disk, {size_text(max(0, journal.committed - journal.flushed))} not flushed"
    text += f", {size_text(journal.committed - journal.decided)} not queued"
    lines += _lines(fact("journal", text, width))
    kinds = [(kind, rates.rows(kind)) for kind in now.rows]
    known = [rate for _, rate in kinds if rate is not None]
    total = short(sum(known)) if known else "-"
    each = ", ".join(f"{kind} {short(rate)}" for kind, rate in kinds)
    read = rates.of(now.traffic.get("bytes", 0), rates.before.traffic.get("bytes", 0) if rates.before else None)
    bytes_read = "-" if read is None else size_text(read)
    lines += _lines(fact("rows/s", f"{total} ({each}), {bytes_read}/s of binlog", width))
    return lines + _outputs(rates, width)


def _outputs(rates: Rates, width: int) -> list[Line]:
    """Lake, log and CDC port."""
    now = rates.now
    lines: list[Line] = []
    if now.lake:
        export, snapshot = now.lake.export, now.lake.snapshot
        what = f"{export.state}, {span(now.lake.lag_seconds)} and {size_text(now.lake.lag_bytes)} behind"
        done = f"{snapshot.rows / max(1, snapshot.rows, snapshot.total):.0%}"
        what += f"; snapshot {snapshot.state}" + (f" {snapshot.table}, {done}" if snapshot.table else "")
        lines += _lines(fact("lake", what, width)) + _stop(export.stop, width) + _stop(snapshot.stop, width)
    if now.log:
        status = now.log.status
        what = f"{status.state}, {span(now.log.lag_seconds)} and {size_text(now.log.lag_bytes)} behind"
        lines += _lines(fact("log", what, width)) + _stop(status.stop, width)
    return lines + (_port(rates, now.cdc, width) if now.cdc else [])


def _port(rates: Rates, cdc: CDC, width: int) -> list[Line]:
    before = rates.before.cdc if rates.before else None
    earlier = cdc_text.sent(before) if before else (None, None)
    rows, size = (rates.of(now, then) for now, then in zip(cdc_text.sent(cdc), earlier, strict=True))
    text = f"{cdc_text.port_text(cdc)}; {short(rows)} rows/s, {'-' if size is None else size_text(size)}/s"
    lines = _lines(fact("cdc", text, width)) + _lines(cdc_text.troubles(cdc, width), Style.ALARM)
    return lines + [line for process in cdc.processes for line in _stop(process.stop, width)]


def _stop(stop: Stop | None, width: int) -> list[Line]:
    return _lines(stopped(stop, width), Style.ALARM)


class _Cell(NamedTuple):
    name: str
    cpu: float | None  # of one core, between the two documents
    memory: int
    restarts: int
    down: int  # number of its processes that do not run


def _processes(rates: Rates, width: int) -> list[Line]:
    earlier = {process.name: process for process in rates.before.processes} if rates.before else {}
    cells = [_cell(rates, process, earlier.get(process.name)) for process in rates.now.processes]
    servers = [cell for cell in cells if cell.name.startswith("server-")]
    if len(servers) > _MANY_SERVERS:
        together = _Cell(
            f"{len(servers)} servers",
            sum(cell.cpu for cell in servers if cell.cpu is not None) if rates.seconds else None,
            sum(cell.memory for cell in servers),
            sum(cell.restarts for cell in servers),
            sum(cell.down for cell in servers),
        )
        cells = [cell for cell in cells if cell not in servers] + [together]
    abreast = max(1, (width + 1) // _CELL)
    head = f"{'PROCESS':<13}{'CPU %':>6}{'MEMORY':>11}{'RESTART':>7}"
    lines = [Line("   ".join([head] * min(abreast, len(cells))), Style.HEADING)]
    for first in range(0, len(cells), abreast):
        row = cells[first : first + abreast]
        style = Style.ALARM if any(cell.down for cell in row) else Style.PLAIN
        lines.append(Line("   ".join(map(_cell_text, row)), style))
    return lines


def _cell(rates: Rates, process: Process, before: Process | None) -> _Cell:
    used = None
    if before is not None and before.pid == process.pid:
        used = rates.of(process.cpu_seconds, before.cpu_seconds)
    return _Cell(process.name, used, process.rss_bytes, process.restarts, int(process.state == "down"))


def _cell_text(cell: _Cell) -> str:
    cpu = "down" if cell.down else "-" if cell.cpu is None else f"{100 * cell.cpu:.1f}"
    return f"{fit(cell.name, 13)}{cpu:>6}{size_text(cell.memory):>11}{short(cell.restarts):>7}"


def _clients(rates: Rates, width: int) -> list[Line]:
    """Return a heading, then the clients, the longest queues first."""
    earlier = {client.id: client for client in rates.before.clients} if rates.before else {}
    shown = [(client, earlier.get(client.id)) for client in rates.now.clients]
    shown.sort(key=lambda pair: (-pair[0].waiting, -(_confirmed(rates, *pair) or 0.0), pair[0].name))
    name = max(8, width - _CLIENT)
    online = sum(client.connected for client in rates.now.clients)
    head = f"{fit(f'CLIENT ({online} of {len(shown)} connected)', name)}{'STATUS':<9}{'WAITING':>9}{'FLIGHT':>8}"
    head += f"{'ROWS/S':>8}{'CONFIRMED':>10}{'DROPPED':>8}"
    lines = [Line(head, Style.HEADING)]
    for client, before in shown:
        text = f"{fit(client.name, name - 1)} {fit(client.status, 9)}{short(client.waiting):>9}"
        text += f"{short(client.in_flight):>8}{short(_confirmed(rates, client, before)):>8}"
        text += f"{short(client.confirmed):>10}{short(dropped_rows(client)):>8}"
        dropping = before is not None and dropped_rows(client) > dropped_rows(before)
        lines.append(Line(text, Style.ALARM if dropping else Style.PLAIN))
    return lines


def _confirmed(rates: Rates, client: Client, before: Client | None) -> float | None:
    return rates.of(client.confirmed, before.confirmed if before else None)


def _streams(rates: Rates, width: int) -> list[Line]:
    """Return a heading, then the CDC streams, the largest lag first."""
    cdc, before = rates.now.cdc, rates.before.cdc if rates.before else None
    if cdc is None or not cdc_text.connections(cdc):
        return []
    earlier = {_key(stream): stream for stream in cdc_text.streams(before)} if before else {}
    room = width - cdc_text.USER - _STREAM
    head = f"{'CDC USER':<{cdc_text.USER}}{fit('TABLE', room)}{'STATE':<13}{'ROWS/S':>8}{'BYTES/S':>12}{'BEHIND':>11}"
    lines = [Line(head, Style.HEADING)]
    for stream in cdc_text.slowest_first(cdc):
        last = earlier.get(_key(stream))
        rows = rates.of(stream.rows, last.rows if last else None)
        sent = rates.of(stream.bytes, last.bytes if last else None)
        text = f"{cdc_text.name(stream)}{fit(cdc_text.table_text(stream), room - 1)} {stream.state:<13}{short(rows):>8}"
        text += f"{'-' if sent is None else size_text(sent):>12}{cdc_text.behind(stream):>11}"
        lines.append(Line(text))
    left_out = sum(process.left_out for process in cdc.processes)
    return lines + ([Line(f"{left_out:,} more connections")] if left_out else [])


def _key(stream: CDCStream) -> tuple[str, int, float]:
    """Return the key of a connection."""
    return stream.address, stream.port, stream.since


def _tables(rates: Rates, width: int) -> list[Line]:
    """Return a heading, then the tables, the most rows in the last hour first."""
    usage = rates.now.usage
    if not usage.tables:
        return []
    earlier = {(table.schema, table.table): table for table in rates.before.usage.tables} if rates.before else {}

    def rate(table: TableUsage) -> float | None:
        before = earlier.get((table.schema, table.table))
        return rates.of(table.total.rows, before.total.rows if before else None)

    name = max(8, width - _TABLE)
    titles = ("ROWS/S", "INSERT", "UPDATE", "DELETE", "IN 24 H", "TOTAL")
    head = fit("TABLE (kinds: last hour)", name) + "".join(f"{title:>8}" for title in titles)
    lines = [Line(head, Style.HEADING)]
    for table in sorted(usage.tables, key=lambda each: (-each.hour.rows, -each.day.rows, each.schema, each.table)):
        numbers = (rate(table), *astuple(table.hour), table.day.rows, table.total.rows)
        text = "".join(f"{short(number):>8}" for number in numbers)
        lines.append(Line(fit(f"{table.schema}.{table.table}", name - 1) + " " + text))
    return lines


def _shares(room: int | None, lengths: list[int]) -> list[int]:
    """Return the lines for each list, with a blank line before it.

    These are equal shares, plus the lines that short lists leave.
    """
    wanted = [length + 1 if length else 0 for length in lengths]
    if room is None:
        return wanted
    shares = [0] * len(wanted)
    shortest_first = sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, part in enumerate(shortest_first):
        shares[part] = min(wanted[part], max(0, room) // (len(wanted) - done))
        room -= shares[part]
    return shares


def _shortened(part: list[Line], share: int, width: int) -> list[Line]:
    """Return a blank line and the list, in `share` lines; the last line counts the omitted ones."""
    if not part or (share < _LEAST_LIST and share <= len(part)):
        return []
    if len(part) + 1 <= share:
        return [Line(""), *part]
    kept = part[: share - 2]
    return [Line(""), *kept, Line(cut(f"... and {len(part) - len(kept):,} more", width))]
