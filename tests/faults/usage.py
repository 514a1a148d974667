"""The resource use of processes over time, and whether it grows."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from relay.runtime.shm import find
from tests.support.relay_process import RelayProcess

MIB = 1 << 20
GROWTH_BYTES, GROWTH_SHARE = 6 * MIB, 0.1  # of memory, that is none: allocators and rings that fill
GROWTH_DESCRIPTORS = 3
HEAD = ("process", "memory at first", "in the end", "shared", "mapped files", "descriptors", "threads", "CPU")


@dataclass
class Sample:
    """Of one process: memory of its own, shared memory and mapped files in bytes, and counts."""

    own: int
    shared: int
    files: int
    descriptors: int
    threads: int
    cpu: float


def sample(pid: int) -> Sample:
    """Of a process that runs."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kib = {name: int(status[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem", "RssFile")}
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return Sample(
        kib["RssAnon"],
        kib["RssShmem"],
        kib["RssFile"],
        len(os.listdir(f"/proc/{pid}/fd")),
        int(status["Threads"]),
        (int(user) + int(system)) / os.sysconf("SC_CLK_TCK"),
    )


@dataclass
class Usage:
    """Samples of a relay that nothing happens to, in the order of time."""

    relay: RelayProcess
    data: Path
    processes: dict[str, list[Sample]] = field(default_factory=dict)
    journal: list[int] = field(default_factory=list)  # bytes
    block: list[int] = field(default_factory=list)  # bytes of /dev/shm
    state: list[int] = field(default_factory=list)  # bytes of the SQLite files

    def look(self) -> None:
        """Take a sample of everything."""
        for name, pid in {"supervisor": self.relay.pid, **self.relay.pids()}.items():
            self.processes.setdefault(name, []).append(sample(pid))
        self.journal.append(sum(path.stat().st_size for path in (self.data / "journal").glob("*.seg")))
        self.state.append(sum(path.stat().st_size for path in self.data.glob("*.db*")))
        block = find(self.data)
        assert block is not None
        self.block.append(Path(f"/dev/shm/{block.name}").stat().st_blocks * 512)

    def check(self, journal_bound: int) -> None:
        """Nothing grows from the second third of the time to the last one."""
        for name, samples in self.processes.items():
            own = [each.own for each in samples]
            middle, last = _thirds(own)
            grown = statistics.median(last) - statistics.median(middle)
            assert grown <= max(GROWTH_BYTES, GROWTH_SHARE * statistics.median(middle)), f"{name} grows: {own}"
            descriptors = [each.descriptors for each in samples]
            middle, last = _thirds(descriptors)
            assert max(last) <= max(middle) + GROWTH_DESCRIPTORS, f"{name} opens more and more: {descriptors}"
            threads = [each.threads for each in samples]
            middle, last = _thirds(threads)
            assert max(last) <= max(middle) + 1, f"{name} has more and more threads: {threads}"
        assert max(self.journal) <= journal_bound, self.journal
        middle, last = _thirds(self.block)
        assert max(last) <= max(middle) * 1.01, self.block

    def table(self, seconds: float) -> list[str]:
        """Lines for people."""
        rows = [HEAD]
        for name, samples in self.processes.items():
            middle, last = _thirds([each.own for each in samples])
            rows.append(
                (
                    name,
                    f"{statistics.median(middle) / MIB:.1f} MiB",
                    f"{statistics.median(last) / MIB:.1f} MiB",
                    f"{samples[-1].shared / MIB:.1f} MiB",
                    f"{samples[-1].files / MIB:.1f} MiB",
                    f"{samples[len(samples) // 3].descriptors} to {samples[-1].descriptors}",
                    str(samples[-1].threads),
                    f"{(samples[-1].cpu - samples[0].cpu) / seconds * 100:.1f} %",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return [
            *lines,
            f"journal at most {max(self.journal) / MIB:.1f} MiB, shared memory {self.block[-1] / MIB:.1f} MiB,"
            f" state files {self.state[-1] / MIB:.1f} MiB, after {seconds:.0f} s",
        ]


def _thirds(values: list[int]) -> tuple[list[int], list[int]]:
    third = len(values) // 3
    return values[third : 2 * third], values[2 * third :]
