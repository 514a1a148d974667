"""The table of log events. A test compares docs/log-events.md with it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Level(StrEnum):
    """Severity: for the record; needs attention; something stopped or was lost."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Event(NamedTuple):
    """A log event: its level, the names of its fields in order, and its meaning."""

    level: Level
    fields: str
    meaning: str


_I, _W, _E = Level.INFO, Level.WARNING, Level.ERROR

EVENTS: Final[Mapping[str, Event]] = {
    # the supervisor
    "port_exposed": Event(_W, "cause hint", "other machines can reach the client port without TLS"),
    "ready": Event(
        _I,
        "classic http cdc source state workers pid config",
        "all processes run; same content as the ready line, which stands alone at a terminal",
    ),
    "command": Event(_I, "command", "the supervisor received an admin command"),
    "reloaded": Event(
        _I,
        "number changed restarted waiting missing",
        "the configuration was reloaded: changed keys, keys that need a start, processes that do not use it yet",
    ),
    "reload_refused": Event(_W, "code error hint", "a new configuration is not valid: nothing changed"),
    "died": Event(_W, "process code restart_in", "a process ended; it restarts in `restart_in` seconds"),
    "held": Event(
        _W, "process code text hint", "a process ended with a fatal error or after a drain; resume starts it"
    ),
    "renewed": Event(_E, "cause", "all processes restart from the files on disk, as after a failure of the host"),
    "journal_renewed": Event(
        _W, "", "a process died within a sync of the journal: the relay rewrote that part; all processes restart"
    ),
    "state_renewed": Event(
        _W, "file", "a sync of the file failed, or may have failed: the relay rewrote it before using it"
    ),
    "hung": Event(_E, "process silent", "a process was silent for `silent` seconds; the supervisor kills it"),
    "killed": Event(_W, "process", "a process did not end in time when the relay stopped"),
    "stopping": Event(_I, "", "the relay stops and accepts no connections"),
    "stopped": Event(_I, "", "the relay stopped"),
    "notify_failed": Event(_W, "error", "the service manager could not be notified"),
    # any process
    "failed": Event(_E, "code error hint", "an error ends this process; docs/exit-codes.md lists `code`"),
    "crashed": Event(_E, "code error traceback", "a defect ends this process; please report it with the traceback"),
    "config_not_applied": Event(
        _E, "number code error hint", "this process cannot use a new configuration; it retries"
    ),
    # the reader
    "streaming": Event(_I, "host source position", "the relay reads the binlog from this position on"),
    "source_unproven": Event(
        _W, "host hint",
        "the login works only while the source caches the password; it fails after a restart of the source"
    ),
    "source_lost": Event(_W, "cause hint retry_in", "the source is not reachable; next attempt in `retry_in` seconds"),
    "password_failed": Event(
        _W, "cause retry_in", "PasswordCommand gave no password for the source; next attempt in `retry_in` seconds"
    ),
    "failed_over": Event(_W, "host source before", "the relay failed over to another server by GTID"),
    "gap_accepted": Event(_E, "cause before after", "events between two positions are lost (`--accept-gap`)"),
    "state_lost": Event(_E, "file cause", "`relay start --accept-gap` accepted an older or new state.db"),
    "reading_again": Event(_I, "position until reason", "the relay reads a file again up to the end of the journal"),
    "event_skipped": Event(_E, "code position cause", "an event was skipped and counted (`OnUnknown = skip`)"),
    "table_skipped": Event(_E, "table position cause", "a table is skipped and counted (`OnUnknown = skip`)"),
    "statement_passed_over": Event(
        _I, "table position",
        "a statement changed rows of a table that nobody can get; later statements about it are only counted"
    ),
    "charset_assumed": Event(
        _I, "schema charset position",
        "the character set of a schema is assumed from here on; without `charset_contradicted` it was right",
    ),
    "charset_contradicted": Event(
        _W, "table charset rows first last cause",
        "rows from `first` to `last` were read with an assumed character set that was wrong, or may have been; "
        "later ones of the table are only counted",
    ),
    "labels_uncertain": Event(_W, "table position cause", "the source cannot distinguish labels of an ENUM or SET"),
    "schema_account_unusable": Event(
        _W, "account cause", "the account of [MySQL] does not work; the relay reads definitions with that of [Server]"
    ),
    "schema_reading": Event(_I, "tables of", "progress of reading all definitions from the source at the first start"),
    "schema_read": Event(_I, "tables seconds", "all definitions were read from the source"),
    "schema_contradicted": Event(_W, "table position cause", "rows do not match the table in the schema history"),
    "schema_damaged": Event(
        _E, "table file cause", "the schema history of a table, or of all (`*`), is damaged; the relay creates it again"
    ),
    "schema_unproven": Event(
        _W, "table position cause", "the names of columns, or their UUID and INET types, are unproven"
    ),
    "journal_retired": Event(_I, "before", "the relay deleted journal files before this position"),
    "journal_cap_near": Event(_W, "cap hint", "rows that are still needed nearly reach JournalMaxBytes"),
    "journal_cap_reached": Event(_E, "cut needed exported", "JournalMaxBytes is reached: rows before `cut` are lost"),
    # the monitor
    "usage_failed": Event(_E, "error", "table usage cannot be counted; the relay retries"),
    "row_repeated": Event(
        _W, "client repeats", "a client fetches the same row repeatedly and never confirms it: `relay client skip`"
    ),
    # the broker
    "deciding_stopped": Event(
        _E, "code error hint", "a fatal error stops the queueing of rows; clients are still served"
    ),
    "client_new": Event(_I, "client id", "a client logged in for the first time"),
    "client_gap": Event(_E, "client code cause", "rows waiting for this client were lost with the journal"),
    "client_flushed": Event(_W, "client rows", "an operator dropped the waiting rows of a client"),
    "client_forgotten": Event(_I, "client id", "an operator removed a client"),
    "row_skipped": Event(_W, "client sequence", "an operator skipped the next row of a client"),
    "client_moved": Event(_W, "client position", "an operator moved a client to a journal position"),
    "client_expired": Event(
        _W, "client away lost_rows", "the relay forgot a client that was away for `away` seconds (ClientExpiry)"
    ),
    "filter_withdrawn": Event(
        _W, "client schema table", "a client lost a filter on tables that its section no longer allows"
    ),
    "queues_cut": Event(_E, "position", "queues lost their rows before this journal position (JournalMaxBytes)"),
    "checkpoint_failed": Event(_E, "error", "the positions of clients cannot be saved; the relay retries"),
    "reply_dropped": Event(_W, "request", "a reply to a server process did not fit; the process asks again"),
    # the server processes
    "rows_unreadable": Event(
        _E, "code error hint", "a damaged journal blocks rows for some clients; others are served"
    ),
    "accept_failed": Event(_E, "error", "the relay temporarily cannot accept connections"),
    "tls_failed": Event(_W, "reason", "a TLS connection failed"),
    "address_refused": Event(
        _W, "client peer rule", "`rule` does not allow this address, or this client from this address"
    ),
    "auth_failed": Event(_W, "client peer", "a login was rejected"),
    "logins_slowed": Event(
        _W, "client peer failed",
        "many logins of a client, of an address, or in total failed: the login throttle delays more"
    ),
    "logins_slowed_end": Event(
        _I, "client peer failed waited", "the login throttle ended; numbers of failed and delayed logins"
    ),
    "refusals_left_out": Event(_W, "of count", "number of omitted log lines of this event since the last such line"),
    "filter_denied": Event(_W, "client schema table", "a client requested a table that its section does not allow"),
    "client_taken_over": Event(_I, "client peer former", "a client logged in again: its previous connection is closed"),
    "client_kicked": Event(_I, "client peer reason", "a client's connection was closed"),
    "client_stalled": Event(_W, "client peer unsent", "a client does not read its replies; its connection is closed"),
    "connection_failed": Event(_W, "client peer error", "a connection broke"),
    "connection_refused": Event(_W, "client peer reason", "the relay rejected a connection; `reason` names the limit"),
    "login_late": Event(_W, "peer", "a connection did not log in within 30 s: it is closed"),
    "hand_over_failed": Event(
        _W, "client peer server error", "a connection could not be passed to the process that owns its client"
    ),
    "admin": Event(_I, "command peer arguments client outcome", "an admin command and its outcome"),
    "admin_refused": Event(_W, "command peer reason client", "an admin command was refused"),
    # the monitor
    "request_failed": Event(_E, "path error at", "the reply to a request to the page was 500; please report it"),
    "http_trouble": Event(_W, "text error", "a message of the HTTP server about a connection"),
    # the CDC port
    "cdc_users_unreadable": Event(_E, "error", "the file of CDC users cannot be read: nobody can log in"),
    "cdc_stream_failed": Event(_W, "client peer code error", "a stream cannot continue; its client got an error"),
    "cdc_gap": Event(_E, "table cause", "a stream continues after an accepted loss of events"),
    # the logger
    "log_cut": Event(
        _I, "file bytes", "the log removed lines that were not committed when a process died, and writes them again"
    ),
    "log_file_gone": Event(_W, "file", "a file of the log was moved or deleted; the log continues in a new one"),
    "log_file_deleted": Event(_I, "file", "the relay deleted a log file older than KeepFor"),
    "log_gap": Event(_E, "cause", "lines are missing in the log; a line in the log marks the gap"),
    # the lake
    "left_out": Event(_W, "tables hint", "the configuration no longer names these tables of the lake"),
    "open_table_stopped": Event(_E, "table code error hint", "the open table is no longer merged; the others are"),
    "snapshot_begins": Event(_I, "table rows", "the snapshot of a table starts; `rows` were already read"),
    "snapshot_begins_again": Event(
        _W, "table reason", "the rows read of a table are no longer valid; its snapshot starts again"
    ),
    "snapshot_done": Event(_I, "table", "a table is complete when the export has passed this position"),
    "snapshot_failed": Event(
        _E, "table code error hint again_in", "a snapshot failed; next attempt in `again_in` seconds"
    ),
    "snapshot_interrupted": Event(_W, "table error again_in", "the connection to the source broke during a snapshot"),
}  # fmt: skip
"""Log events by name. Names, meanings and fields are stable."""
