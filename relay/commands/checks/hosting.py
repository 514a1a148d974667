"""Who runs the source: its owner, or a managed service, where no account has SUPER and settings change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pymysql.connections import Connection

from relay.base.errors import RelayError
from relay.commands.checks.finding import Finding, ok, warning
from relay.config.tree import Config
from relay.source import facts
from relay.source.connect import query
from relay.source.failures import SourceLost

_HOURS: Final = 24
_HEARTBEATS: Final = ("rds_heartbeat2", "rds_sysinfo", "rds_monitor", "ha_health_check", "heartbeat")
"""Tables of the schema mysql that services write to by statements, whatever binlog_format is."""
_RDS_RETENTION: Final = f"CALL mysql.rds_set_configuration('binlog retention hours', {_HOURS}); as the master user"
_UNSET: Final = "without these hours the service purges binlogs as soon as it can, RDS within minutes, read or not"


class Hosting(NamedTuple):
    """How a source's settings change there. `{name}` and `{value}` stand for the setting.

    `name` is empty for a server that its owner runs. `account` may issue GRANT; `tls` is where the CA certificates are.
    """

    name: str
    variable: str
    option: str
    filters: str
    log_bin: str
    expiry: str
    gtid: str
    account: str = ""
    tls: str = ""

    def set(self, name: str, value: str) -> str:
        """Return the remedy that sets a global variable."""
        return self.variable.format(name=name, value=value)

    def start_with(self, name: str, value: str) -> str:
        """Return the remedy that sets an option of the server's start."""
        return self.option.format(name=name, value=value)

    def grant(self, statement: str) -> str:
        """Return the remedy that is a statement for accounts.

        It names the account that may issue the statement, if that is not any root.
        """
        return f"{statement} as {self.account}" if self.account else statement


def _own(variable: str) -> Hosting:
    return Hosting(
        name="",
        variable=variable,
        option="start the server with {name} = {value}",
        filters="start the server without these filters",
        log_bin="start the server with --log-bin and a server_id",
        expiry="set binlog_expire_logs_seconds (expire_logs_days before MariaDB 10.6) to a day or more",
        gtid="SET PERSIST gtid_mode = ON, step by step as in the MySQL manual",
    )


def _managed(name: str, where: str, log_bin: str, account: str, tls: str, expiry: str = "") -> Hosting:
    setting = "set {name} = {value} in " + where
    return Hosting(
        name=name,
        variable=setting,
        option=setting,
        filters=f"remove these filters from {where}",
        log_bin=log_bin,
        expiry=expiry or f"set binlog_expire_logs_seconds to 86400 or more in {where}",
        gtid=f"set enforce_gtid_consistency = ON and then gtid_mode = ON in {where}, step by step",
        account=account,
        tls=tls,
    )


OWN_MYSQL: Final = _own("SET GLOBAL {name} = {value}, or SET PERSIST to keep it after a restart")
OWN_MARIADB: Final = _own("SET GLOBAL {name} = {value}, and set it in the server's configuration file")

_RDS_CA: Final = "CA certificates: https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
RDS: Final = _managed(
    "Amazon RDS",
    "a DB parameter group of your own",
    "set the instance's backup retention period above 0: automated backups enable the binlog",
    "the master user",
    _RDS_CA,
    _RDS_RETENTION,
)
AURORA: Final = _managed(
    "Amazon Aurora",
    "a DB cluster parameter group of your own",
    "set binlog_format = ROW in a DB cluster parameter group of your own, restart the writer, and set IPAddr to the"
    " endpoint of the writer: readers have no binlog",
    "the master user",
    _RDS_CA,
    _RDS_RETENTION,
)
CLOUD_SQL: Final = _managed(
    "Google Cloud SQL",
    "the instance's database flags",
    "enable point-in-time recovery, which enables the binlog: gcloud sql instances patch INSTANCE --enable-bin-log",
    "a user with the role cloudsqlsuperuser, such as root",
    "CA certificate: the instance's server-ca.pem; verify works only if its certificate names this host",
)
AZURE: Final = _managed(
    "Azure Database",
    "the server parameters",
    "the service always enables the binlog of a flexible server: check that IPAddr names one, and no replica",
    "the server's administrator",
    "CA certificates: those of the system, with SourceCA empty",
)

# What a connection shows of a service. The facts are from manuals, and from published dumps and lists of variables.
# Amazon: the folder of the server, such as `/rdsdbbin/mysql-5.7.18/`; Aurora: the variable `aurora_version`. Cloud SQL:
# the version, such as `8.0.26-google`; its hosts are addresses. Azure: the version, such as `8.0.42-azure`, without the
# suffix up to 8.0.35. A host name shows the service even if the login fails.
_HOSTS: Final = (
    (".rds.amazonaws.com", RDS),
    (".rds.amazonaws.com.cn", RDS),
    (".mysql.database.azure.com", AZURE),
    (".mysql.database.chinacloudapi.cn", AZURE),
)


def detect(host: str, variables: Mapping[str, str]) -> Hosting:
    """Who runs the source, by its host name and its global variables (empty before a login)."""
    name, version = host.lower().rstrip("."), variables.get("version", "").lower()
    if "aurora_version" in variables:
        return AURORA
    if facts.is_rds(variables):
        return RDS
    if "-google" in version:
        return CLOUD_SQL
    if "-azure" in version:
        return AZURE
    own = OWN_MARIADB if "mariadb" in version else OWN_MYSQL
    return next((hosting for suffix, hosting in _HOSTS if name.endswith(suffix)), own)


def service(hosting: Hosting, config: Config, host: str, proof: str) -> Iterator[Finding]:
    """Report the managed service, and whether something proves that the source is there.

    `proof` is the remedy that proves it, empty if the source is on this machine, as with a tunnel.
    """
    if not hosting.name:
        return
    yield ok("managed service", f"{hosting.name}; no account has SUPER, and SET GLOBAL is not allowed")
    server = config.server
    if proof and server.source_tls != "verify" and not server.source_key:
        text = f"SourceTLS = {server.source_tls}: nothing proves that {host} is the source"
        yield warning("TLS to the source", text, f"{proof} ({hosting.tls})")


def heartbeats(hosting: Hosting, connection: Connection[Any]) -> Iterator[Finding]:
    """Report the tables about which a managed service writes statements into the binlog."""
    if not hosting.name:
        return
    names = ", ".join(f"'{name}'" for name in _HEARTBEATS)
    sql = f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME IN ({names})"
    found = sorted(f"mysql.{name}" for (name,) in query(connection, sql, "look for the service's own tables"))
    seen = ", ".join(found) or "the account sees none of those that are known"
    yield ok("heartbeats", f"{seen}; the relay passes over statements about tables of the schema mysql and counts them")


def expiry(hosting: Hosting, connection: Connection[Any], variables: Mapping[str, str]) -> Finding:
    """Check when the source purges its binlogs."""
    if hosting in (RDS, AURORA):
        return _rds_retention(connection)
    seconds = facts.expiry(variables)
    if seconds == 0:
        return ok("binlog expiry", "never")
    text = f"after {seconds / 3600:g} h"
    if seconds < _HOURS * 3600:
        return warning("binlog expiry", f"{text}; a relay that is down longer loses events", hosting.expiry)
    return ok("binlog expiry", text)


def _rds_retention(connection: Connection[Any]) -> Finding:
    try:
        hours = facts.rds_retention(connection)
    except (RelayError, SourceLost) as error:
        remedy = f"let the account SELECT from mysql.rds_configuration; {_RDS_RETENTION}"
        return warning("binlog expiry", f"{error}; {_UNSET}", remedy)
    if not hours:
        return warning("binlog expiry", f"binlog retention hours is not set; {_UNSET}", _RDS_RETENTION)
    text = f"after {hours} h (binlog retention hours)"
    if hours < _HOURS:
        return warning("binlog expiry", f"{text}; a relay that is down longer loses events", _RDS_RETENTION)
    return ok("binlog expiry", text)
