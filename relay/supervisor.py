"""The supervisor: forks the processes, watches and restarts them, and ends them in order.

Single-threaded, and imports nothing that starts threads: a fork copies only the thread that calls it. What the children
use was made before the first fork (relay/family.py), so a successor carries on where its predecessor died.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path

from relay import children, family, health, memory, privileges, process
from relay._native import settle_syncs, sync_failed, sync_unknown
from relay.children import Child
from relay.config import EXPOSURE_HINT, Config
from relay.context import AsideContext
from relay.errors import ErrorCode, ExitCode, RelayError, StopCode
from relay.lockfile import held
from relay.log import Log, logger
from relay.notify import Notifier
from relay.reload import Reloads, usable
from relay.settings import Settings

TICK = 0.25  # seconds between looks at the children
STARTING_TICK = 0.01  # until all of them are up
STANDSTILL = 5.0  # a look that comes so many seconds late: the host stood still, and the children with it
STOP_WITHIN = 9.0  # seconds for all of a stop: what the others leave of it is the broker's, for its checkpoint
STOP_PATIENCE = 3.0  # seconds for children to finish what is in hand
EXPORT_PATIENCE = 5.0  # seconds for the exporter and the logger to keep what they have
READY_PATIENCE = 15.0  # seconds the ready line waits for the source
BACKOFF = (0.0, 0.05, 0.2, 1.0, 5.0)  # seconds before a restart, by number of quick deaths in a row
NOBODY = 2**64 - 1  # as `Arena.exported` and `Arena.logged`: retention waits for nobody
INSIST = 1.0  # seconds after which a process that has not ended is told so again
QUICK = 2.0  # a child that lived for less seconds died quickly


def run(load: Callable[[], Config], accept_gap: bool) -> int:
    """`relay start`: serves until SIGTERM, SIGINT or the admin command stop; returns the command's exit code.

    `load` reads the configuration, now and at each reload.
    """
    privileges.without_core_dumps()
    config = load()
    data_dir = Path(config.relay.data_dir)
    rights = privileges.Privileges(config.relay.user)
    rights.lend(data_dir)
    with _locked(data_dir):
        with rights.regained():
            doors = family.listen(config)
        rights.drop()
        usable(config)
        return Supervisor(config, doors, load, accept_gap, logger("supervisor", config.relay.log_format)).serve()


def _locked(data_dir: Path) -> AbstractContextManager[None]:
    """Holds DataDir for this process, whose pid the lock file tells to `relay stop`."""
    return held(
        data_dir / "lock",
        lambda pid: RelayError(
            ErrorCode.ALREADY_RUNNING, "lock DataDir", f"process {pid} holds it", position=str(data_dir)
        ),
    )


class Supervisor:
    """The loop over signals, commands, deaths and heartbeats."""

    def __init__(
        self, config: Config, doors: family.Doors, load: Callable[[], Config], accept_gap: bool, log: Log
    ) -> None:
        self._data_dir = Path(config.relay.data_dir)
        self._log = log
        self._family = family.assemble(config, doors, self._data_dir)
        self._config = self._family.with_bound_ports(config)
        self._arena = self._family.arena
        self._begin()
        self._children = children.make(self._family, self._config, self._data_dir, accept_gap)
        self._settings = Settings(self._config, len(self._children))
        for child in self._children:
            child.context.settings, child.context.number = self._settings, self._settings.number
        self._reloads = Reloads(config, load, self, self._family.boards.supervisor, log)
        self._ending = False
        self._end_by = math.inf  # then whatever is left is killed
        self._looked = self._awake = time.monotonic()
        self._notifier = Notifier(os.environ, log)

    def _begin(self) -> None:
        self._arena.paused = self._arena.draining = False
        self._arena.clear_stop()
        self._arena.exported = 0 if self._config.lake.path else NOBODY
        self._arena.logged = 0 if self._config.logger.schema else NOBODY

    def serve(self) -> int:
        """Runs until told to stop; the second signal ends everything at once."""
        signals, wakeup = socket.socketpair()
        signals.setblocking(False)
        wakeup.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(caught, lambda *_: None)  # the wakeup socket carries its number into the loop
        orders = self._family.orders[0]
        ready_by = time.monotonic() + READY_PATIENCE
        announced = False
        while not self._ending:
            self._start_due()
            select.select([signals, orders], [], [], TICK if announced else STARTING_TICK)
            for number in _drained(signals):  # first: a whole process group may be told to stop
                self._ending |= number in (signal.SIGTERM, signal.SIGINT)
                if number == signal.SIGHUP:
                    self._reloads.ask("")
            self._reap()
            self._check_heartbeats()
            self._notifier.alive(self._status())
            if not announced and (self._all_up() or time.monotonic() > ready_by):
                announced = self._announce()
            self._obey(orders)
            if announced:  # until then the service manager takes nothing for an end of a reload
                self._reloads.step(time.monotonic())
            self._insist()
        return self._end(signals)

    def _start_due(self) -> None:
        now = time.monotonic()
        reader = self._children[0]
        if not reader.pid and not reader.held and reader.due <= now:
            self._settle_syncs()
        for child in self._children:
            if not child.pid and not child.held and child.due <= now:
                self._fork(child, now)

    def _settle_syncs(self) -> None:
        """Before a reader opens the journal. Nobody may stand behind where it cuts it after a failed sync, nor
        read what is written anew after a sync whose end nobody saw.
        """
        journal = self._data_dir / "journal"
        if sync_unknown(journal):
            self._kill_all()
            try:
                settle_syncs(journal)
            except RelayError as error:
                self._log("failed", code=error.code, error=error, hint=error.hint)
        if self._arena.committed and sync_failed(journal):
            self._log("renewed", cause="a sync of the journal failed: what was written since is read again")
            self._kill_all()
            paused = self._arena.paused
            family.renew(self._family, self._config)
            self._begin()
            self._arena.paused = paused

    def _kill_all(self) -> None:
        for child in self._children:
            if child.pid:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                child.pid = 0
            if not child.held:
                self._make_due(child)

    def _fork(self, child: Child, now: float) -> None:
        supervisor = os.getpid()
        self._arena.beat(child.context.slot, 0)
        self._settings.acknowledge(child.context.slot, 0)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os._exit(process.become(child.context, supervisor, child.run))
        child.pid, child.started = pid, now

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid:
                    self._bury(child, os.waitstatus_to_exitcode(status))

    def _bury(self, child: Child, code: int) -> None:
        now = time.monotonic()
        child.pid = 0
        child.ended_well = code == ExitCode.OK
        if self._ending:
            return
        if child.told:
            if code == ExitCode.STOPPED:  # it had found a reason of its own, which its successor is to look at anew
                self._arena.clear_stop()
            self._make_due(child)
            return
        stop = None if isinstance(child.context, AsideContext) else self._arena.stop()
        once = stop is not None and stop["code"] == StopCode.SYNC_FAILED and now - child.started > QUICK
        if (code in (ExitCode.STOPPED, ExitCode.SOURCE) and not once) or (code == 0 and self._arena.draining):
            child.held = True
            self._log("held", process=child.context.name, **(stop or {}))
            return
        # SIGKILL comes from outside and says nothing about the next life; a defect that kills at once would come again.
        defect = code != -signal.SIGKILL and now - child.started < QUICK
        child.quick_deaths = child.quick_deaths + 1 if defect else 0
        child.restarts += 1
        self._arena.count_restart(child.context.slot)
        child.due = now + BACKOFF[min(child.quick_deaths, len(BACKOFF) - 1)]
        self._log("died", process=child.context.name, code=code, restart_in=round(child.due - now, 2))

    def _check_heartbeats(self) -> None:
        """Ends a child whose work loop stands still: first so that it tells where, then for certain."""
        now = time.monotonic()
        if now - self._looked > STANDSTILL:
            self._awake = now
        self._looked = now
        for child in self._children:
            freeze = health.freeze(child.context.name)
            if not child.pid or now - child.started < freeze:
                continue
            silent = now - max(self._arena.heartbeat(child.context.slot), self._awake)
            if silent > freeze:
                hard = silent > freeze + 5
                self._log("hung", process=child.context.name, silent=round(silent))
                os.kill(child.pid, signal.SIGKILL if hard else signal.SIGABRT)

    def _all_up(self) -> bool:
        # The broker and the CDC port wait for the journal's beginning, as long as the reader finds no source.
        excused = () if self._arena.committed else ("broker", "cdc-")
        return all(
            c.held or self._arena.running(c.context.slot) or c.context.name.startswith(excused) for c in self._children
        )

    def _announce(self) -> bool:
        server_config, stop = self._config.server, self._arena.stop()
        state = f"stopped:{stop['code']}" if stop else self._arena.source_state
        facts = {
            "classic": f"{server_config.bind_address}:{server_config.server_port}",
            "http": f"http://{server_config.http_address}:{server_config.http_port}/",
            **({"cdc": f"{self._config.cdc.address}:{self._config.cdc.port}"} if self._config.cdc.enabled else {}),
            "source": f"{server_config.ip_addr[0]}:{server_config.port}",
            "state": state,
            "workers": self._family.workers,
            "pid": os.getpid(),
        }
        # In one piece, also where output is not buffered: whoever waits for it reads a whole line.
        sys.stdout.write(" ".join(["ready", *(f"{key}={value}" for key, value in facts.items())]) + "\n")
        sys.stdout.flush()
        self._log("ready", **facts)
        self._notifier.ready()
        if server_config.exposure:
            self._log("port_exposed", cause=server_config.exposure, hint=EXPOSURE_HINT)
        if stop:
            print(f"relay: {stop['text']} (hint: {stop['hint']})", file=sys.stderr, flush=True)
        return True

    def _status(self) -> str:
        """What the service manager shows beside the service."""
        stop = self._arena.stop()
        return f"stopped: {stop['code']}: {stop['text']} ({stop['hint']})" if stop else self._arena.source_state

    def _obey(self, orders: socket.socket) -> None:
        while True:
            try:
                command = orders.recv(64).decode()
            except BlockingIOError:
                return
            self._log("command", command=command)
            if command == "stop":
                self._ending = True
            elif command == "drain":
                self._arena.draining = True
            elif command == "pause":
                self._arena.paused = True
            elif command == "resume":
                self._resume()
            elif command.startswith("reload "):
                self._reloads.ask(command.removeprefix("reload "))

    def _resume(self) -> None:
        """Ends a pause, and tries again what stopped by name: the operator has mended the cause."""
        self._arena.paused = False
        self._arena.clear_stop()
        for child in self._children:
            if child.held:
                self._make_due(child)

    def _make_due(self, child: Child) -> None:
        """Have the process started at once, whatever its predecessor died of."""
        child.held, child.due, child.quick_deaths, child.told = False, 0.0, 0, 0.0

    # -- what a reload needs --

    @property
    def processes(self) -> list[str]:
        """Names of all that are kept alive."""
        return [child.context.name for child in self._children]

    def publish(self, config: Config) -> int:
        """Have all processes, and those to be forked, work with this configuration, and return its number."""
        config = self._family.with_bound_ports(config)
        number = self._settings.publish(config)
        self._config = config
        for child in self._children:
            child.context.config, child.context.number = config, number
        self._wake_all()
        return number

    def _wake_all(self) -> None:
        """Broker and servers need not wait for their next beat."""
        for wake in (self._family.broker_wake, *self._family.server_wakes):
            os.eventfd_write(wake, 1)

    def restart(self, names: Collection[str]) -> None:
        """Have these processes end, so that their successors begin with the configuration that was published."""
        for child in self._children:
            if child.context.name not in names or (child.held and self._arena.draining):
                continue
            if child.pid:
                child.told = time.monotonic()
                os.kill(child.pid, signal.SIGTERM)
                continue
            if child.held and child.context.name == "reader":
                self._arena.clear_stop()
            self._make_due(child)

    def lagging(self, number: int) -> list[str]:
        """Names of processes that do not work with configuration `number` yet; one that is held will, if ever."""
        return [
            child.context.name
            for child in self._children
            if not child.held and (child.told or self._settings.acknowledged(child.context.slot) != number)
        ]

    def reloading(self) -> None:
        """The service manager is told that a reload begins."""
        self._notifier.reloading()

    def reloaded(self) -> None:
        """And that it has ended, as are the servers, one of which was asked for it."""
        self._notifier.ready()
        self._wake_all()

    def _insist(self) -> None:
        """A signal that comes before a process is ready for it is lost."""
        now = time.monotonic()
        for child in self._children:
            if child.pid and child.told and now - child.told > INSIST:
                child.told = now
                os.kill(child.pid, signal.SIGTERM)

    def _end(self, signals: socket.socket) -> int:
        """Reader and servers first, so that the export, the log and the broker's last checkpoint see what they did."""
        self._log("stopping")
        self._notifier.stopping()
        self._end_by = time.monotonic() + STOP_WITHIN
        followers = [c for c in self._children if c.context.name in ("exporter", "logger")]
        last = [c for c in self._children if c.context.name == "broker"]
        self._terminate([c for c in self._children if c not in followers + last], STOP_PATIENCE, signals)
        self._terminate(followers, EXPORT_PATIENCE, signals)
        if self._terminate(last, STOP_WITHIN, signals):
            memory.discard(self._data_dir, self._family.block)
        # Without the broker's checkpoint the queues live on in shared memory, for the next start to find.
        self._log("stopped")
        return ExitCode.OK

    def _terminate(self, group: list[Child], patience: float, signals: socket.socket) -> bool:
        """Ends the processes; True if all of them ended by themselves and well."""
        deadline = time.monotonic() + patience
        for child in group:
            if child.pid:
                os.kill(child.pid, signal.SIGTERM)
        while any(child.pid for child in group) and time.monotonic() < min(deadline, self._end_by):
            select.select([signals], [], [], 0.05)
            if any(number in (signal.SIGTERM, signal.SIGINT) for number in _drained(signals)):
                self._end_by = time.monotonic()
            self._reap()
        for child in group:
            if child.pid:
                self._log("killed", process=child.context.name)
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                child.pid = 0
                child.ended_well = False
        return all(child.ended_well for child in group)


def _drained(signals: socket.socket) -> bytes:
    """The numbers of the signals that came, one a byte."""
    try:
        return signals.recv(4096)
    except BlockingIOError:
        return b""
