"""The table of configuration keys: section, name, attribute, how to read it, default, meaning.

relay/config/load.py reads this table, with the readers of relay/config/values.py. Tests compare conf/relay.conf and
docs/config.md with it. A new key also needs an attribute in the section's struct in relay/config/tree.py: without it no
configuration loads.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.base.errors import ErrorCode, RelayError
from relay.config.values import (
    MAX_U32,
    Parser,
    Value,
    address,
    boolean,
    choice,
    columns,
    duration,
    integer,
    lake_path,
    listing,
    log_time_zone,
    milliseconds,
    networks,
    secret,
    size,
    source_keys,
    start_position,
    tables,
    text,
    time_zone,
)  # fmt: skip

LIVE: Final = "reload"
"""A reload applies the key: every process uses the new value without a restart."""

START: Final = "start"
"""A start of the relay applies the key. A reload keeps the old value, and reports that."""


def restarts(*processes: str) -> str:
    """Say that a reload applies the key and restarts these processes. They have no client connections."""
    return f"{LIVE}: {', '.join(processes)}"


class Key(NamedTuple):
    """One key of the file. `default` is text in the file's own notation.

    `forms` are other ways to give the value: "File" allows `NAMEFile = PATH`, "Command" `NAMECommand = PROGRAM ...`.
    `applies` is `LIVE`, `START`, or the text of `restarts`.
    """

    section: str
    name: str
    attribute: str
    read: Parser
    default: str
    doc: str
    aliases: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    applies: str = START

    @property
    def processes(self) -> list[str]:
        """The processes that a reload restarts if the key changed."""
        _, _, names = self.applies.partition(": ")
        return names.split(", ") if names else []

    def value(self, content: str, position: str) -> Value:
        """Read `content`, found at `position`. Raises `RelayError` (config).

        An empty value means the default, except for keys that accept an empty text.
        """
        if not content and self.read not in (text, secret, lake_path, listing, networks, tables, columns, source_keys):
            content = self.default
        try:
            return self.read(content)
        except ValueError as error:
            raise RelayError(
                ErrorCode.CONFIG,
                "read config",
                f"[{self.section}] {self.name}: {error}",
                position=position,
                hint=self.doc,
            ) from None


_PORT: Final = integer(0, 65535)
_READER: Final = restarts("reader")
_ACCOUNT: Final = restarts("reader", "snapshotter")
_RULES: Final = restarts("reader", "snapshotter")
_UNPROVEN: Final = restarts("exporter", "logger")
_FILE: Final = ("File",)
_FILE_OR_COMMAND: Final = ("File", "Command")

KEYS: Final[tuple[Key, ...]] = (
    Key("Server", "IPAddr", "ip_addr", listing, "127.0.0.1",
        "host of the source; with a comma-separated list, the relay fails over by GTID", applies=_ACCOUNT),
    Key("Server", "Port", "port", integer(1, 65535), "3306", "port of the source", applies=_ACCOUNT),
    Key("Server", "Login", "login", text, "", "account on the source; required", applies=_ACCOUNT),
    Key("Server", "Password", "password", secret, "",
        "password of that account, or where it comes from; set at most one of the three",
        forms=_FILE_OR_COMMAND, applies=_ACCOUNT),
    Key("Server", "LoginCert", "login_cert", text, "",
        "certificate chain that the relay shows to the source, PEM; empty: none", applies=_ACCOUNT),
    Key("Server", "LoginKey", "login_key", text, "", "private key of LoginCert, PEM", applies=_ACCOUNT),
    Key("Server", "Database", "database", text, "", "accepted for compatibility, has no effect",
        aliases=("DatabaseName",), applies=LIVE),
    Key("Server", "SourceTLS", "source_tls", choice("off", "prefer", "required", "verify"), "prefer",
        "TLS to the source: off, prefer, required, or verify (also checks the certificate)", applies=_ACCOUNT),
    Key("Server", "SourceCA", "source_ca", text, "", "file of CA certificates for verify; empty: those of the system",
        applies=_ACCOUNT),
    Key("Server", "SourceKey", "source_key", source_keys, "",
        "accepted public keys of the source: sha256:HEX, ..., or first-use, which pins the first key; empty: any",
        applies=_ACCOUNT),
    Key("Server", "PasswordToUnverifiedSource", "password_to_unverified_source", choice("refuse", "send"), "refuse",
        "if an unverified source on another machine requests the password in readable form: refuse, or send",
        applies=_ACCOUNT),
    Key("Server", "AuthSecret", "auth_secret", secret, "", "secret shared by all clients; required", forms=_FILE,
        applies=LIVE),
    Key("Server", "AdminSecret", "admin_secret", secret, "", "secret of admin commands over TCP; empty: none over TCP",
        forms=_FILE, applies=LIVE),
    Key("Server", "AdminFrom", "admin_from", networks, "",
        "addresses and networks that may send admin commands over TCP, besides loopback", applies=LIVE),
    Key("Server", "ClientsFrom", "clients_from", networks, "",
        "addresses and networks from which clients may log in; includes loopback only if listed; empty: all",
        applies=LIVE),
    Key("Server", "BindAddress", "bind_address", address, "0.0.0.0", "listen address of the client port, or localhost"),
    Key("Server", "ServerPort", "server_port", _PORT, "6001",
        "client port; 0 picks a free port, which the ready line reports"),
    Key("Server", "HTTPAddress", "http_address", address, "127.0.0.1",
        "listen address of the monitoring page, or localhost"),
    Key("Server", "HTTPPort", "http_port", _PORT, "6081",
        "port of the monitoring page; 0 picks a free port, which the ready line reports"),
    Key("Server", "HTTPFrom", "http_from", networks, "",
        "addresses and networks that may access the monitoring page, besides loopback; empty: all", applies=LIVE),
    Key("Server", "HTTPHosts", "http_hosts", listing, "",
        "host names that requests to the monitoring page may use, besides localhost and addresses; *: any",
        applies=LIVE),
    Key("Server", "TLS", "tls", choice("off", "optional", "required"), "off",
        "TLS for clients: off, optional or required", applies=LIVE),
    Key("Server", "TLSCert", "tls_cert", text, "", "certificate chain of the relay, PEM", applies=LIVE),
    Key("Server", "TLSKey", "tls_key", text, "", "private key of the certificate, PEM", applies=LIVE),
    Key("Server", "LegacyKeys", "legacy_keys", boolean, "yes",
        "accept the three other hashes of AuthSecret that clients of the original send", applies=LIVE),
    Key("Server", "UnlistedClients", "unlisted_clients", choice("allow", "deny"), "allow",
        "whether clients without a [Client NAME] section may log in", applies=LIVE),
    Key("Server", "MaxConnections", "max_connections", integer(1, 1_000_000), "10000",
        "largest number of client connections; the relay rejects more", applies=LIVE),
    Key("Server", "AuthAttempts", "auth_attempts", integer(1, 1_000_000), "10",
        "failed logins of a name from an address before the login throttle delays more", applies=LIVE),
    Key("MySQL", "Host", "host", text, "", "host for schema queries; empty: that of [Server]", aliases=("IPAddr",),
        applies=_ACCOUNT),
    Key("MySQL", "Port", "port", _PORT, "0", "port for schema queries; 0: that of [Server]", applies=_ACCOUNT),
    Key("MySQL", "Login", "login", text, "", "account for schema queries; empty: account and password of [Server]",
        applies=_ACCOUNT),
    Key("MySQL", "Password", "password", secret, "", "password of that account", forms=_FILE_OR_COMMAND,
        applies=_ACCOUNT),
    Key("Logger", "Path", "path", text, "/var/log/replicaterelay/", "folder of the log", applies=restarts("logger")),
    Key("Logger", "Schema", "schema", listing, "", "schemas to log, names or patterns; *: all; empty: no log",
        applies=restarts("logger")),
    Key("Logger", "Excludes", "excludes", listing, "",
        "tables to exclude from the log, names or patterns: table or schema.table", applies=restarts("logger")),
    Key("Logger", "Format", "format", choice("csv", "json"), "csv",
        "csv: lines as the original writes them; json: JSON objects", applies=restarts("logger")),
    Key("Logger", "TimeZone", "time_zone", log_time_zone, "local",
        "time zone of times in lines and dates in file names: local (of the machine), UTC, +02:00, Europe/Brussels",
        applies=restarts("logger")),
    Key("Logger", "RotateBytes", "rotate_bytes", size(0), "0",
        "size at which the log starts a new file on the same day; 0: a new file per day only",
        applies=restarts("logger")),
    Key("Logger", "KeepFor", "keep_for", duration(0), "never", "age at which the relay deletes log files",
        applies=restarts("logger")),
    Key("Source", "Tables", "tables", tables, "*.*", "tables to read, patterns schema.table", applies=_RULES),
    Key("Source", "ExcludeTables", "exclude_tables", tables, "", "tables to exclude, patterns schema.table",
        applies=_RULES),
    Key("Source", "ExcludeColumns", "exclude_columns", columns, "",
        "columns never to store, patterns schema.table.column", applies=_RULES),
    Key("Source", "StartPosition", "start_position", start_position, "newest",
        "where the first start begins to read: newest, oldest, FILE:POS or a GTID set", applies=_READER),
    Key("Source", "ServerId", "server_id", integer(0, MAX_U32), "0",
        "server id of the relay as a replica; 0 picks a random one and keeps it", applies=_READER),
    Key("Source", "Heartbeat", "heartbeat_seconds", duration(1, 3600), "10s",
        "interval of heartbeats from an idle source", applies=_READER),
    Key("Relay", "DataDir", "data_dir", text, "/var/lib/relay", "folder of the journal and of all state"),
    Key("Relay", "User", "user", text, "",
        "user that a relay started as root changes to after it has bound its ports; empty: no change"),
    Key("Relay", "Workers", "workers", integer(0, 256), "0", "number of server processes; 0: by number of cores"),
    Key("Relay", "Delivery", "delivery", choice("at-least-once", "at-most-once"), "at-least-once",
        "rows in flight when a connection breaks: at-least-once sends them again; at-most-once drops them (original)"),
    Key("Relay", "MaxRepeats", "max_repeats", integer(0, 1_000_000), "0",
        "repeats of an unconfirmed row before the relay skips and counts it; 0: no limit"),
    Key("Relay", "EventPosition", "event_position", choice("position", "timestamped", "sequence"), "position",
        "content of EventPosition: position in the binlog file, position with time (original), or row sequence"),
    Key("Relay", "NullText", "null_text", text, "NULL", "text of SQL NULL in Poll and PollV2"),
    Key("Relay", "TimeZone", "time_zone", time_zone, "UTC",
        "time zone of TIMESTAMP values: UTC, +02:00, Europe/Brussels"),
    Key("Relay", "OnUnknown", "on_unknown", choice("stop", "skip"), "stop",
        "unknown event or column: stop with a fatal error, or skip and count it", applies=_READER),
    Key("Relay", "OnPartialImage", "on_partial_image", choice("stop", "send"), "stop",
        "row that lacks columns: stop with a fatal error, or send the columns present", applies=_READER),
    Key("Relay", "OnAssumedCharset", "on_assumed_charset", choice("send", "stop"), "send",
        "row whose character set is assumed: send it, and count it if the assumption was wrong; or stop with a fatal "
        "error", applies=_READER),
    Key("Relay", "OnUnproven", "on_unproven", choice("stop", "positional"), "stop",
        "row with unproven column names: stop with a fatal error, or send it with names @1, @2, ...",
        applies=_UNPROVEN),
    Key("Relay", "JournalKeepBytes", "journal_keep_bytes", size(0), "1GiB", "least history to keep, by size",
        applies=LIVE),
    Key("Relay", "JournalKeepAge", "journal_keep_age", duration(0), "24h", "least history to keep, by age",
        applies=LIVE),
    Key("Relay", "JournalMaxBytes", "journal_max_bytes", size(2**20), "20GiB",
        "largest size of the journal; beyond it the relay drops history even if clients need it", applies=LIVE),
    Key("Relay", "SegmentBytes", "segment_bytes", size(2**16, 2**40), "256MiB", "size of a journal file",
        applies=_READER),
    Key("Relay", "ClientExpiry", "client_expiry", duration(0), "never",
        "time of absence after which the relay forgets a client", applies=LIVE),
    Key("Relay", "MaxClients", "max_clients", integer(1, 100_000), "1000", "largest number of known clients"),
    Key("Relay", "MaxFilters", "max_filters", integer(1, 100_000), "1000",
        "largest number of filters per client", applies=LIVE),
    Key("Relay", "MaxRequestBytes", "max_request_bytes", size(1024, MAX_U32), "64MiB", "largest request payload",
        applies=LIVE),
    Key("Relay", "MaxBufferedBytes", "max_buffered_bytes", size(2**16), "256MiB",
        "largest size of unsent replies per connection", applies=LIVE),
    Key("Relay", "QueueMemory", "queue_memory", size(2**20), "64MiB", "memory for the queues of clients with limits"),
    Key("Relay", "LogFormat", "log_format", choice("text", "json"), "text",
        "format of log lines on standard error: text or json"),
    Key("Relay", "DrainTimeout", "drain_timeout", duration(1), "60s", "time limit for a drain to empty the queues",
        applies=LIVE),
    Key("Lake", "Path", "path", lake_path, "",
        "folder or URL (s3://bucket/prefix) of the lake for the Parquet export; empty: no export"),
    Key("Lake", "Tables", "tables", tables, "*.*", "tables to export, patterns schema.table",
        applies=restarts("exporter", "snapshotter")),
    Key("Lake", "RollSeconds", "roll_seconds", duration(1, 86400), "10s",
        "longest time before pending changes are written to files", applies=restarts("exporter")),
    Key("Lake", "RollBytes", "roll_bytes", size(2**20, 2**34), "128MiB",
        "size of pending columns in memory, of all tables together, at which files are written sooner",
        applies=restarts("exporter")),
    Key("Lake", "Snapshot", "snapshot", choice("auto", "manual"), "auto",
        "rows older than the export: auto copies them for incomplete tables, manual waits for `relay snapshot`",
        applies=restarts("snapshotter")),
    Key("Lake", "OpenTables", "open_tables", choice("none", "delta"), "none",
        "keep the current state of all exported tables under Path for other engines: none, or as Delta tables"),
    Key("Lake", "MergeSeconds", "merge_seconds", duration(1, 86400), "10s",
        "longest time before changes are merged into the open tables; files are then written as often",
        applies=restarts("exporter")),
    Key("CDC", "Enabled", "enabled", boolean, "no", "serve MaxScale's CDC protocol"),
    Key("CDC", "Address", "address", address, "0.0.0.0", "listen address"),
    Key("CDC", "Port", "port", _PORT, "4001", "listen port; 0: any free port"),
    Key("CDC", "From", "allowed_from", networks, "",
        "addresses and networks from which CDC clients may connect; empty: all", applies=LIVE),
    Key("CDC", "Users", "users", text, "", "file of users; empty: cdcusers in DataDir",
        applies=LIVE),
    Key("CDC", "ServiceUser", "service_user", choice("when-no-users", "always", "never"), "when-no-users",
        "when Login and Password of [Server] may also log in", applies=LIVE),
    Key("CDC", "Tables", "tables", tables, "*.*",
        "tables that clients may request, patterns schema.table", applies=LIVE),
    Key("CDC", "Values", "values", choice("exact", "maxscale"), "exact",
        "exact values, or MaxScale's forms, which lose some values"),
    Key("CDC", "Codec", "codec", choice("null", "deflate"), "null", "compression of AVRO streams"),
    Key("CDC", "Workers", "workers", integer(1, 64), "1", "number of processes that serve the port"),
    Key("CDC", "MaxStreams", "max_streams", integer(1, 1_000_000), "10000", "largest number of connections per process",
        applies=LIVE),
    Key("CDC", "AuthAttempts", "auth_attempts", integer(1, 1_000_000), "10",
        "failed logins of a user from an address before the login throttle delays more", applies=LIVE),
    Key("CDC", "TLS", "tls", choice("off", "optional", "required"), "off",
        "TLS for CDC clients, with TLSCert and TLSKey of [Server]", applies=LIVE),
    Key("CDC", "CommandGap", "command_gap", milliseconds(1, 10_000), "60ms",
        "pause that ends a command without a line end", applies=LIVE),
)  # fmt: skip

CLIENT_KEYS: Final[tuple[Key, ...]] = (
    Key("Client NAME", "Secret", "secret", secret, "", "the only secret that this name may use; required", forms=_FILE,
        applies=LIVE),
    Key("Client NAME", "Tables", "tables", tables, "*.*", "tables that this name may request, patterns schema.table",
        applies=LIVE),
    Key("Client NAME", "From", "allowed_from", networks, "",
        "addresses and networks from which this name may log in; empty: those of ClientsFrom", applies=LIVE),
)  # fmt: skip

ORIGINAL_ONLY: Final = frozenset({("mysql", "database"), ("module", "loglevel")})
"""Keys, lower case, that files of the original may have and that have no effect here."""
