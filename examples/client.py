"""A client of the relay, step by step: `python examples/client.py [CONF]` prints rows as they change, until Ctrl-C.

CONF is examples/client.conf by default.
"""

from __future__ import annotations

import sys
from configparser import ConfigParser
from pathlib import Path

from relay.client import RelayClient, Row
from relay.errors import RelayError


def describe(row: Row) -> str:
    """One line for a row: the values of an insert or delete; for an update the first column and what changed.

    The row before an insert and the row after a delete do not exist: they are None.
    """
    what = f"{row.kind:<6}  {row.schema + '.' + row.table:<15}"
    if row.before is None or row.after is None:
        values = row.after or row.before or {}
        return f"{what}  " + ", ".join(f"{name}={value}" for name, value in values.items())
    first, *_ = row.after  # most tables begin with their key
    changed = [f"{n}: {row.before.get(n)} -> {value}" for n, value in row.after.items() if row.before.get(n) != value]
    return f"{what}  {first}={row.after[first]}, " + ", ".join(changed)


def main() -> int:
    """Run until Ctrl-C; 1 if the relay cannot be reached or refuses."""
    # 1. Read the configuration.
    conf = ConfigParser(interpolation=None)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("client.conf")
    if not conf.read(path):
        print(f"cannot read {path}", file=sys.stderr)
        return 1
    relay, me, wanted = conf["Relay"], conf["Client"], conf["Filter"]
    try:
        # 2. Connect. The `with` block closes the connection, and confirms the received rows if there was no error.
        with RelayClient(relay["Host"], int(relay["Port"]), me["Name"], me["Secret"]) as client:
            # 3. Say which rows to queue. The relay remembers it: repeating it after a restart changes nothing.
            client.add_filter(wanted["Schema"], wanted["Table"], kinds=wanted["Kinds"], limit=int(wanted["Limit"]))
            print(f"{me['Name']} waits for {wanted['Kinds']} of {wanted['Schema']}.{wanted['Table']}", flush=True)
            # 4. Take the rows as they arrive. A request for the next rows confirms the rows before. If this program
            # fails here, its next start begins with the unconfirmed rows. The client reconnects if the connection is
            # lost.
            for row in client:
                print(describe(row), flush=True)
    except KeyboardInterrupt:
        return 0
    except RelayError as error:
        # 5. Every failure says what went wrong, where, why, and what to do.
        print(error.line(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
