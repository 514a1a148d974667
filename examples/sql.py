"""Runs a statement on the demo's server, if no client is installed: python -m examples.sql PORT STATEMENT"""

from __future__ import annotations

import sys

import pymysql

from examples.dbserver import PASSWORD, USER


def main(port: str, statement: str) -> None:
    """Prints the result rows, tab-separated, or the number of changed rows."""
    connection = pymysql.connect(host="127.0.0.1", port=int(port), user=USER, password=PASSWORD, autocommit=True)
    with connection, connection.cursor() as cursor:
        changed = cursor.execute(statement)
        if cursor.description is None:
            print(f"{changed} rows changed")
        for row in cursor.fetchall():
            print(*row, sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
