"""Throwaway database servers for the demo, the tests and the benchmark, without installation and without root.

The servers are Debian's own packages (examples/debian.py). The cache also has an initialised data folder, which is
copied for each server, so a new server takes a second or two.

    with DatabaseServer("mariadb118") as server:
        connection = server.connect()            # root, over the socket
        address = "127.0.0.1", server.port       # user relay, password relaypw, every right

`python -m examples.dbserver KIND` fills the cache beforehand.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql

from examples.debian import DebianError, Unpacked, cache_folder

USER, PASSWORD = "relay", "relaypw"
START_SECONDS, STOP_SECONDS = 90.0, 60.0
_PORTS, _BLOCK = range(10_000, 65_000), 100
_FOLDER = "relay-dbserver-"


class ServerError(DebianError):
    """A database server could not be started or stopped. The text says which, why, and what to do."""


@dataclass(frozen=True)
class Kind:
    """A kind of server: where Debian puts it and how it is run."""

    title: str
    suite: str
    packages: tuple[str, ...]
    mysql: bool


KINDS = {
    "mysql97": Kind("MySQL 9.7", "sid", ("mysql-server-core",), mysql=True),
    "mariadb118": Kind("MariaDB 11.8", "trixie", ("mariadb-server-core",), mysql=False),
    "mariadb1011": Kind("MariaDB 10.11", "bookworm", ("mariadb-server-core",), mysql=False),
}


def say(line: str) -> None:
    """Reports progress, one line at a time, on standard error."""
    end = "\033[K\n" if sys.stderr.isatty() else "\n"  # over the progress of another program
    print(f"dbserver: {line}", end=end, file=sys.stderr, flush=True)


def existing_folder(*folders: Path, holding: str) -> Path:
    """The first folder that exists and has the file. Its path differs between distributions and releases."""
    for folder in folders:
        if (folder / holding).exists():
            return folder
    raise ServerError(f"none of {', '.join(map(str, folders))} has {holding}: remove {cache_folder()}, try again")


class Packages(Unpacked):
    """The unpacked packages of one kind of server, and the template of its data folder, both in the cache."""

    def __init__(self, name: str) -> None:
        if name not in KINDS:
            raise ServerError(f"no server {name!r}; there are {', '.join(KINDS)}")
        self.kind = KINDS[name]
        super().__init__(name, self.kind.title, self.kind.suite, self.kind.packages, say)
        self.template = self.folder / "template"

    def command(self, data: Path, *options: str) -> list[str]:
        """The command line of the server on a data folder, with its own linker, libraries and messages."""
        usr = self.root / "usr"
        messages = existing_folder(usr / "share/mysql", usr / "share/mariadb", holding="english/errmsg.sys")
        line = self.program("usr/sbin/" + ("mysqld" if self.kind.mysql else "mariadbd"))
        line += ["--no-defaults", f"--datadir={data}", f"--basedir={usr}"]
        line += [f"--lc-messages-dir={messages}", f"--plugin-dir={usr / 'lib/mysql/plugin'}"]
        if os.getuid() == 0:
            line += ["--user=root"]
        return [*line, *options]

    def prepare(self) -> None:
        """Fills the cache, unless it is filled."""
        with self.lock():
            self.fetch()
            self.make_template()

    def make_template(self) -> None:
        """Initialises a data folder with the user of the relay, once; later servers get copies of it."""
        if self.template.is_dir():
            return
        self.progress(f"{self.kind.title}: preparing an empty data folder")
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="init-") as scratch:
            data = Path(scratch) / "data"
            if self.kind.mysql:
                self.run(self.command(data, "--initialize-insecure", "--innodb-redo-log-capacity=64M"))
            else:
                (data / "mysql").mkdir(parents=True)
                options = ("--bootstrap", "--enforce-storage-engine=", "--max-allowed-packet=64M", "--log-warnings=0")
                self.run(self.command(data, *options), input=self._system_tables())
            # Each copy needs an identity of its own: auto.cnf, which MySQL creates here, is removed.
            with DatabaseServer(self.name, options=("--skip-log-bin",), data=data) as server:
                server.execute(
                    f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
                    f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION",
                    "CREATE DATABASE IF NOT EXISTS test",
                )
                server.stop()
            (data / "auto.cnf").unlink(missing_ok=True)
            data.rename(self.template)

    def _system_tables(self) -> bytes:
        usr = self.root / "usr"
        share = existing_folder(usr / "share/mariadb", usr / "share/mysql", holding="fill_help_tables.sql")
        prefix = "mariadb" if (share / "mariadb_system_tables.sql").exists() else "mysql"
        names = [f"{prefix}_system_tables", f"{prefix}_performance_tables", f"{prefix}_system_tables_data"]
        names += ["fill_help_tables", "maria_add_gis_sp_bootstrap", f"{prefix}_sys_schema"]
        scripts = b"".join((share / f"{name}.sql").read_bytes() + b"\n" for name in names)
        return b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n" + scripts.replace(b"@auth_root_socket", b"NULL")


def _blocks() -> list[range]:
    """Blocks of ports outside of the kernel's range for outgoing connections.

    A port of theirs that is free is still free when somebody listens later.
    """
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    blocks = [range(start, start + _BLOCK) for start in _PORTS[::_BLOCK]]
    return [block for block in blocks if block[-1] < low or high < block[0]] or blocks


def _reserved_ports() -> Iterator[int]:
    """Ports that no other process gets from here: a socket reserves each block as long as this process lives.

    Its abstract name belongs to the network namespace, as the ports do, and ends with the process.
    """
    blocks = _blocks()
    first = os.getpid() % len(blocks)
    for block in blocks[first:] + blocks[:first]:
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0relay-ports-{block[0]}")
        except OSError:  # of another process
            holder.close()
            continue
        _reservations.append(holder)
        yield from block


_reservations: list[socket.socket] = []
_ports = _reserved_ports()


def free_port() -> int:
    """A TCP port that nobody listens on now. No other call gives it, neither here nor in another process."""
    for port in _ports:
        try:
            socket.create_server(("", port)).close()
        except OSError:
            continue
        return port
    raise ServerError("no TCP port is free: other processes have taken or reserved all")


def _own_folder(parent: Path | None) -> tuple[Path, ExitStack]:
    """A new folder, locked as long as this process lives. It has its name from the moment on when it is locked."""
    made = Path(tempfile.mkdtemp(prefix=f"new-{_FOLDER}", dir=parent))
    lock = _locked(made)
    return made.rename(made.with_name(made.name.removeprefix("new-"))), lock


def _locked(folder: Path) -> ExitStack:
    """Locks a folder until the result is closed. Raises BlockingIOError if another process has locked it."""
    with ExitStack() as undo:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        undo.callback(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return undo.pop_all()


def remove_abandoned(parent: Path) -> None:
    """Removes the folders of servers whose process was killed, and leaves those of living ones."""
    for folder in parent.glob(f"{_FOLDER}*"):
        with suppress(OSError), _locked(folder):  # fails for one that lives, is gone, or belongs to another user
            shutil.rmtree(folder, ignore_errors=True)


class DatabaseServer:
    """A running server in its own temporary folder: binary log on, row format, metadata as by the server's default.

    `options` are passed to the server. `stop` and `kill` leave the data in place for `start`; `close`, or the end of
    the `with` block, removes everything. The server dies with the process that started it.
    `scratch` is the parent of the temporary folder; None: the system's.
    """

    def __init__(
        self,
        kind: str,
        port: int = 0,
        options: Sequence[str] = (),
        *,
        data: Path | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.packages = Packages(kind)
        self.name, self.kind = kind, self.packages.kind
        self.port = port or free_port()
        self.options = tuple(options)
        self.folder, self._lock = _own_folder(scratch)
        self.data = data or self.folder / "data"
        self.socket = str(self.folder / "sock")
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise ServerError(f"{self.kind.title} is not running")
        return self._process.pid

    def start(self) -> Self:
        """Starts the server, on its data folder or on a new one, and waits until it accepts connections."""
        if self._process is not None:
            raise ServerError(f"{self.kind.title} on port {self.port} is already running")
        if not self.data.exists():
            self.packages.prepare()
            copy = ["cp", "-r", "--reflink=auto", "--sparse=always", str(self.packages.template), str(self.data)]
            self.packages.run(copy)
        common = (
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'pid'}",
            f"--tmpdir={self.folder}",  # MariaDB deletes all temporary tables in this folder at its start
            f"--server-id={self.port}",
            "--log-bin=binlog",
            "--binlog-format=ROW",
            "--innodb-flush-log-at-trx-commit=2",  # a commit survives the server's death, but not the host's
            "--sync-binlog=0",
            "--innodb-buffer-pool-size=128M",
            "--max-allowed-packet=256M",
        )
        mysql = (
            "--mysqlx=OFF",
            "--performance-schema=OFF",  # as MariaDB's is: it costs a third of a start
            "--secure-file-priv=NULL",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--innodb-redo-log-capacity=64M",
        )
        line = self.packages.command(self.data, *common, *(mysql if self.kind.mysql else ()), *self.options)
        line = ["setpriv", "--pdeathsig", "KILL", *line]
        with open(self.log, "ab") as output:
            # A new session: Ctrl-C in a terminal is for the program that uses the server.
            self._process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._wait_ready()
        return self

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError as error:
                assert self._process is not None
                status = self._process.poll()
                if status is None and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                reason = f"exited with {status}" if status is not None else f"does not answer: {error.args[-1]}"
                self.kill()
                raise ServerError(self._failure_text(reason)) from error

    def _failure_text(self, reason: str, lines: int = 8) -> str:
        tail = "\n  ".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return f"{self.kind.title} on port {self.port} {reason}:\n  {tail}"

    def unexpected_exit(self) -> str | None:
        """The server's last messages if it ended unexpectedly, else None; `start` starts it again."""
        status = self._process.poll() if self._process is not None else None
        if status is None:
            return None
        self._process = None
        return self._failure_text(f"died with {status}", 80)

    def stop(self) -> None:
        """Shuts down in an orderly way, and waits."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServerError(
                f"{self.kind.title} on port {self.port} did not stop in {STOP_SECONDS:g} s; it was killed"
            ) from error
        self._process = None

    def kill(self) -> None:
        """Sends SIGKILL. The next start begins with recovery, as after a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stops in an orderly way and starts again on the same data and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kills the server and removes its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self, **options: Any) -> pymysql.connections.Connection[Any]:
        """A connection as root over the socket, with autocommit; `options` are PyMySQL's."""
        settings: dict[str, Any] = {
            "unix_socket": self.socket,
            "user": "root",
            "autocommit": True,
            "charset": "utf8mb4",
        } | options
        if settings["unix_socket"]:
            # The socket needs no encryption, and loading the host's certificates takes a hundred times as long as
            # everything else.
            settings.setdefault("ssl_disabled", True)
        return pymysql.connect(**settings)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements one after the other as root; returns the rows of the last one.

        A transaction that they prepared (XA PREPARE) can be ended by any session afterwards.
        """
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()
            if any(statement.startswith("XA PREPARE") for statement in statements):
                self.await_end_of_session(connection)

    def await_end_of_session(self, connection: pymysql.connections.Connection[Any]) -> None:
        """Waits until the session of a closed connection has ended. Until then it owns what it prepared."""
        deadline = time.monotonic() + STOP_SECONDS
        session: int = connection.thread_id()  # type: ignore[no-untyped-call]
        while self.execute(f"SELECT id FROM information_schema.processlist WHERE id = {session}"):
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name}: session {session} was closed and is not gone after {STOP_SECONDS:g} s")
            time.sleep(0.005)


if __name__ == "__main__":
    try:
        Packages(sys.argv[1]).prepare()
    except DebianError as error:
        sys.exit(f"dbserver: {error}")
