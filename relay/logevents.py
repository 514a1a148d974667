"""The table of log events: what may stand in a log line, and how grave it is. docs/log-events.md is held to it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Level(StrEnum):
    """How grave: for the record; something to look at; something stands still or was lost."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Event(NamedTuple):
    """A kind of log line: its level, the names of its fields in their order, and what it means."""

    level: Level
    fields: str
    meaning: str


_I, _W, _E = Level.INFO, Level.WARNING, Level.ERROR

EVENTS: Final[Mapping[str, Event]] = {
    # the supervisor
    "port_exposed": Event(_W, "cause hint", "other machines reach the clients' port, which speaks no TLS"),
    "ready": Event(_I, "classic http cdc source state workers pid", "all processes are up: what the ready line says"),
    "command": Event(_I, "command", "an admin command reached the supervisor"),
    "reloaded": Event(
        _I,
        "number changed restarted waiting missing",
        "the configuration was read anew: what has changed, what waits for a start, who does not work with it yet",
    ),
    "reload_refused": Event(_W, "code error hint", "a new configuration is not valid: nothing has changed"),
    "died": Event(_W, "process code restart_in", "a process ended; another takes its place in `restart_in` seconds"),
    "held": Event(_W, "process code text hint", "a process ended at a named stop or a drain's end; resume starts it"),
    "renewed": Event(_E, "cause", "all processes begin anew with what is on disk, as after a loss of the host"),
    "hung": Event(_E, "process silent", "a process gave no sign of life for `silent` seconds and is killed"),
    "killed": Event(_W, "process", "a process did not end in time when the relay stopped"),
    "stopping": Event(_I, "", "the relay ends: nothing is accepted any more"),
    "stopped": Event(_I, "", "the relay has ended"),
    "notify_failed": Event(_W, "error", "the service manager could not be told"),
    # any process
    "failed": Event(_E, "code error hint", "an error ends this process; `code` as in docs/exit-codes.md"),
    "crashed": Event(_E, "code error traceback", "a defect ends this process; please report it with the traceback"),
    "config_not_applied": Event(
        _E, "number code error hint", "a new configuration does not work here; it is tried again"
    ),
    # the reader
    "streaming": Event(_I, "host source position", "the binlog is read from here on"),
    "source_unproven": Event(
        _W, "host hint", "the login needed what the source has cached; a restarted source would be refused the password"
    ),
    "source_lost": Event(_W, "cause retry_in", "the source is not to be reached; next attempt in `retry_in` seconds"),
    "failed_over": Event(_W, "host source before", "another server took the source's place, by GTID"),
    "gap_accepted": Event(_E, "cause before after", "events between two places are lost (`--accept-gap`)"),
    "reading_again": Event(_I, "position until reason", "a file is read again up to where the journal ends"),
    "event_skipped": Event(_E, "code position cause", "an event was left out (`OnUnknown = skip`), and counted"),
    "table_skipped": Event(_E, "table position cause", "a table is left out (`OnUnknown = skip`), and counted"),
    "labels_uncertain": Event(_W, "table position cause", "labels of ENUM or SET that the source cannot tell apart"),
    "schema_account_unusable": Event(
        _W, "account cause", "the account of [MySQL] does not serve; that of [Server] asks for definitions instead"
    ),
    "schema_reading": Event(_I, "tables of", "at the first start the source is asked for all tables: so many by now"),
    "schema_read": Event(_I, "tables seconds", "the source was asked for all tables"),
    "schema_contradicted": Event(_W, "table position cause", "rows are not of the table that the history knows"),
    "schema_damaged": Event(
        _E, "table file cause", "the history of a table, or of all (`*`), is damaged; it is made anew"
    ),
    "schema_unproven": Event(_W, "table position cause", "names of columns that nothing proves"),
    "journal_retired": Event(_I, "before", "the journal's files before this position were deleted"),
    "journal_cap_near": Event(_W, "cap hint", "JournalMaxBytes is nearly reached by what somebody still needs"),
    "journal_cap_reached": Event(_E, "cut needed exported", "JournalMaxBytes is reached: rows before `cut` are lost"),
    # the monitor
    "usage_failed": Event(_E, "error", "table usage is not counted any further; it is tried again"
    ),
    "row_repeated": Event(
        _W, "client repeats", "a client takes the same row again and again, and never confirms it: `relay client skip`"
    ),
    # the broker
    "deciding_stopped": Event(_E, "code error hint", "a named stop keeps rows from the queues; clients are served"),
    "client_new": Event(_I, "client id", "a client logged in for the first time"),
    "client_gap": Event(_E, "client code cause", "what waited for this client was lost with the journal"),
    "client_flushed": Event(_W, "client rows", "an operator dropped what waited for a client"),
    "client_forgotten": Event(_I, "client id", "an operator removed a client"),
    "row_skipped": Event(_W, "client sequence", "an operator left out the row that a client was to be handed out next"),
    "client_moved": Event(_W, "client position", "an operator had a client continue at a journal position"),
    "client_expired": Event(_W, "client away lost_rows", "a client was away for `away` seconds (ClientExpiry)"),
    "filter_withdrawn": Event(
        _W, "client schema table", "a client has a filter no more whose tables its section does not allow any more"
    ),
    "queues_cut": Event(_E, "position", "rows before this journal position were dropped from queues (the cap)"),
    "checkpoint_failed": Event(_E, "error", "where clients stand cannot be written down; it is tried again"
    ),
    "reply_dropped": Event(_W, "request", "an answer to a server process did not fit; it asks again"),
    # the server processes
    "rows_unreadable": Event(_E, "code error hint", "a damaged journal keeps rows from clients; others are served"),
    "accept_failed": Event(_E, "error", "connections cannot be accepted for the moment"),
    "tls_failed": Event(_W, "reason", "a TLS connection failed"),
    "address_refused": Event(_W, "client peer rule", "nobody, or not this client, may come from there; `rule` says so"),
    "auth_failed": Event(_W, "client peer", "a login was refused"),
    "logins_slowed": Event(
        _W, "client peer failed", "logins of a client, of an address, or all, fail often: they wait for their turn"
    ),
    "logins_slowed_end": Event(_I, "client peer failed waited", "they do not any more; how many failed, and waited"),
    "refusals_left_out": Event(_W, "of count", "of this event there were so many more, since the last such line"),
    "filter_denied": Event(_W, "client schema table", "a client asked for a table that its section does not allow"),
    "client_taken_over": Event(_I, "client peer former", "a client logged in again: its former connection is closed"),
    "client_kicked": Event(_I, "client peer reason", "a client's connection was closed"),
    "client_stalled": Event(_W, "client peer unsent", "a client does not read its replies; its connection is closed"),
    "connection_failed": Event(_W, "client peer error", "a connection broke"),
    "connection_refused": Event(_W, "client peer reason", "there is no room for a connection; `reason` says of what"),
    "login_late": Event(_W, "peer", "a connection did not log in within 30 s: it is closed"),
    "hand_over_failed": Event(_W, "client peer server error", "a connection could not be given to its client's owner"),
    "admin": Event(_I, "command peer arguments client outcome", "an admin command was carried out, or why it was not"),
    "admin_refused": Event(_W, "command peer reason client", "an admin command was refused"),
    # the monitor
    "request_failed": Event(_E, "path error at", "a request to the page was answered with 500; please report it"),
    "http_trouble": Event(_W, "text error", "what the HTTP server has to say of a connection"),
    # the CDC port
    "cdc_users_unreadable": Event(_E, "error", "nobody can log in at the CDC port"),
    "cdc_stream_failed": Event(_W, "client peer code error", "a stream cannot go on, and its client was told"),
    "cdc_gap": Event(_E, "table cause", "a stream goes on behind events that are lost, which was accepted"),
    # the logger
    "log_cut": Event(_I, "file bytes", "lines written and not yet accounted for when a process died; made again"),
    "log_file_gone": Event(_W, "file", "a file of the log was moved or deleted; the log goes on in a new one"),
    "log_file_deleted": Event(_I, "file", "a file of the log has reached the age of KeepFor"),
    "log_gap": Event(_E, "cause", "lines are missing in the log; a line there says so"),
    # the lake
    "left_out": Event(_W, "tables hint", "tables of the lake that the configuration does not name any more"),
    "snapshot_begins": Event(_I, "table rows", "a table's rows from before are read; `rows` are there already"),
    "snapshot_begins_again": Event(_W, "table reason", "what was read of a table does not hold any more"),
    "snapshot_done": Event(_I, "table", "a table is complete once the export has passed this point"),
    "snapshot_failed": Event(_E, "table code error hint again_in", "a snapshot failed; again in `again_in` seconds"),
    "snapshot_interrupted": Event(_W, "table error again_in", "the source went away under a snapshot"),
}  # fmt: skip
"""By name; a name, once given, keeps its meaning and its fields."""
