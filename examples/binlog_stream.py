"""Reads a server's binlog from its oldest file to its end: python -m examples.binlog_stream HOST PORT USER PASSWORD

It prints a line for each event as the server sent it. With Flag.SKIP_HEARTBEAT instead of Flag.NON_BLOCK, and an id by
which the server knows this replica, it continues with every change as it happens.
"""

from __future__ import annotations

import sys

import pymysql

from relay.binlog import BinlogError, Flag, Replication, Stream


def work_on(packet: bytes) -> None:
    """The packet begins with an OK byte; after it, the event has its type at offset 4 and its length at offset 9."""
    print(f"type {packet[5]:>3}, {int.from_bytes(packet[10:14], 'little')} bytes")


def main(host: str, port: str, user: str, password: str) -> int:
    """Returns 0, or 1 if the server refuses."""
    # 1. Connect to the server, and find its oldest binary log file.
    connection = pymysql.connect(host=host, port=int(port), user=user, password=password)
    with connection:
        with connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            oldest, *_ = cursor.fetchone() or ("",)
        # 2. Say what to read, from which position, and to stop at the end of the binlog.
        replication = Replication(file_name=oldest, start_position=4, flags=Flag.NON_BLOCK)
        stream = Stream(connection, replication)
        try:
            # 3. Open the replication stream, and fetch events one by one.
            stream.open()
            while stream.fetch() == 0 and replication.size:
                work_on(replication.buffer)
            stream.close()
        except BinlogError as error:
            # 4. Every error says what went wrong, where, why, and what to do; `errno` is the server's number.
            print(error.line(), file=sys.stderr)
            return 1
    # 5. The description has the position where to continue: pass it to a new stream.
    print(f"read up to {replication.file_name}:{replication.start_position}, GTIDs {replication.gtid_set or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
