"""`relay start`: takes the lock on DataDir, listens, drops the rights of root, and runs the supervisor."""

from __future__ import annotations

from pathlib import Path

from relay.base.errors import ErrorCode, RelayError
from relay.base.log import logger
from relay.commands.loader import Loader
from relay.datadir.lockfile import locked
from relay.runtime import privileges, shared_state
from relay.runtime.reload import check_usable
from relay.supervisor import Supervisor


def run(load: Loader, accept_gap: bool) -> int:
    """Serve until SIGTERM, SIGINT or the admin command stop. Return the exit code.

    `load` reads the configuration, now and at each reload.
    """
    privileges.disable_core_dumps()
    config = load()
    data_dir = Path(config.relay.data_dir)

    def locked_by(pid: str) -> RelayError:
        cause = f"process {pid} holds the lock"
        return RelayError(ErrorCode.ALREADY_RUNNING, "lock DataDir", cause, position=str(data_dir))

    rights = privileges.Privileges(config.relay.user)
    rights.use_for_files(data_dir)
    with locked(data_dir / "lock", locked_by):  # `relay stop` reads the pid from the file
        with rights.as_root():
            listeners = shared_state.listen(config)
        rights.drop()
        check_usable(config)
        log = logger("supervisor", config.relay.log_format)
        return Supervisor(config, listeners, load, load.file or "", accept_gap, log).serve()
