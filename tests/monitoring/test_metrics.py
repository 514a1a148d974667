"""The metrics are valid for Prometheus, and agree with documentation, dashboard and alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.monitoring import metrics
from relay.monitoring.stat import Stat
from relay.runtime.process_status import CDCStatus, Stop
from tests.support import ROOT
from tests.support.prometheus import Prometheus, promtool
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.sample_stat import HOSTILE, STREAM, client, document

NAMES = {family.sample_name for family in metrics.FAMILIES}
ALERTS = ROOT / "conf" / "prometheus-alerts.yml"
RULES = ROOT / "tests" / "monitoring" / "prometheus_alerts.yml"


def expressions() -> list[str]:
    """Every query of the dashboard, for a relay of its own."""

    def walk(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["expr"]] if "expr" in part else []
            return own + [found for value in part.values() for found in walk(value)]
        return [found for value in part for found in walk(value)] if isinstance(part, list) else []

    found = walk(json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text()))
    variables = {"$job": "relay", "$instance": ".*", "$client": ".*", "$__rate_interval": "10s"}
    for name, value in variables.items():
        found = [expression.replace(name, value) for expression in found]
    return [expression.replace('instance="', 'instance=~"') for expression in found]


def samples(of: Stat) -> dict[tuple[str, ...], float]:
    """By name and values of labels."""
    families = parse(metrics.text(of).decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_promtool_finds_nothing_to_say_of_the_metrics() -> None:
    assert promtool("check", "metrics", text=metrics.text(document(client(), client(2, HOSTILE)))) == ""


def test_every_metric_has_samples_help_and_a_line_in_the_documentation() -> None:
    assert metrics.documentation() in (ROOT / "docs" / "metrics.md").read_text()
    families = {family.name: family for family in parse(metrics.text(document(client())).decode())}
    assert families.keys() == {family.name for family in metrics.FAMILIES}, "the document has something for each"
    assert all(family.documentation.endswith(".") and family.samples for family in families.values())


def test_names_are_data_in_labels() -> None:
    named = samples(document(client(1, HOSTILE)))
    assert named["relay_client_waiting_rows", HOSTILE] == 20
    assert named["relay_client_dropped_rows_total", HOSTILE, "cut"] == 3
    assert (named["relay_clients", "connected"], named["relay_clients", "away"]) == (1, 0)
    assert not [name for name, *_ in named if name not in NAMES]


def test_what_is_not_known_has_no_sample() -> None:
    made = document()
    made.source.lag_seconds = made.source.lag_bytes = made.source.loss_seconds = None
    shown = {name for name, *_ in samples(made)}
    unknown = {"relay_source_lag_seconds", "relay_source_lag_bytes", "relay_source_time_to_loss_seconds"}
    assert unknown <= NAMES and not unknown & shown
    assert not {name for name, *_ in samples(document(lake=None, log=None)) if re.search("export|snapshot|_log_", name)}


def test_a_stop_is_told_with_its_part_and_code() -> None:
    made = document(stop=Stop("binlog_purged", "gone", "begin anew"))
    assert made.log
    made.log.status.stop = Stop("disk_full", "no space", "make some")
    told = samples(made)
    assert {key: value for key, value in told.items() if key[0] == "relay_stopped"} == {
        ("relay_stopped", "binlog_purged", "source"): 1,
        ("relay_stopped", "", "export"): 0,
        ("relay_stopped", "", "snapshot"): 0,
        ("relay_stopped", "", "merge"): 0,
        ("relay_stopped", "disk_full", "log"): 1,
        ("relay_stopped", "", "cdc-0"): 0,
    }
    assert (told["relay_state", "stopped"], told["relay_state", "running"]) == (1, 0)
    assert told["relay_source_state", "streaming"] == 0
    assert samples(document())["relay_source_state", "streaming"] == 1


def test_each_process_of_the_cdc_port_has_samples_of_its_own() -> None:
    made = document()
    assert made.cdc
    slow = msgspec.structs.replace(STREAM, lag_bytes=5000)
    again = CDCStatus(
        state="serving", refused=1, rows=3, bytes=70, trouble="denied", streams=[STREAM, slow], left_out=5
    )
    made.cdc.processes.append(again)
    told = {key: value for key, value in samples(made).items() if key[0].startswith("relay_cdc_")}
    assert {key: value for key, value in told.items() if key[1:] == ("cdc-1",)} == {
        ("relay_cdc_connections", "cdc-1"): 7,
        ("relay_cdc_lag_bytes", "cdc-1"): 5000,
        ("relay_cdc_users_unreadable", "cdc-1"): 1,
        ("relay_cdc_refused_logins_total", "cdc-1"): 1,
        ("relay_cdc_rows_total", "cdc-1"): 3,
        ("relay_cdc_bytes_total", "cdc-1"): 70,
    }
    assert (told["relay_cdc_lag_bytes", "cdc-0"], told["relay_cdc_connections", "cdc-0"]) == (50, 1)
    assert len(told) == 12
    assert not [name for name, *_ in samples(document(cdc=None)) if "_cdc_" in name]


def test_alerts_fire_when_they_should_and_not_before() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint-fatal", ALERTS)
    assert "SUCCESS" in promtool("test", "rules", RULES)
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    tested = set(re.findall(r'alertname(?:: |=")(\w+)', (RULES).read_text()))
    assert alerts == tested


def test_every_panel_of_the_dashboard_stands_alone_and_says_what_it_shows() -> None:
    panels = json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]


@pytest.mark.parametrize("text", [ALERTS.read_text(), *expressions()])
def test_every_metric_of_alerts_and_dashboard_exists(text: str) -> None:
    named = set(re.findall(r"\brelay_\w+", text))
    assert named and named <= NAMES


def test_a_prometheus_scrapes_it_and_understands_every_query_of_the_dashboard(
    mariadb1011: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Callable[..., RelayProcess],
    tmp_path: Path,
) -> None:
    port = {"CDC.Enabled": "yes", "CDC.Address": "127.0.0.1", "CDC.Port": 0, "CDC.Workers": 2}
    db, relay = make_db(mariadb1011), start_relay(mariadb1011, port)
    mariadb1011.execute(f"CREATE TABLE {db}.t (a INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2), (3)")
    with (
        RelayClient("127.0.0.1", relay.port, HOSTILE, SECRET),
        Prometheus(tmp_path, f"127.0.0.1:{relay.http_port}") as prometheus,
    ):
        (sample,) = prometheus.await_samples("relay_client_connected")
        assert sample["metric"]["client"] == HOSTILE
        assert sample["value"][1] == "1"
        prometheus.await_samples(f'relay_table_rows_total{{schema="{db}", table="t", kind="insert"}} == 3')
        for expression in expressions():
            prometheus.query(expression)
        prometheus.await_samples("count(rate(relay_process_cpu_seconds_total[10s]))")
        prometheus.await_samples('relay_cdc_connections{process="cdc-1"} == 0')
        (history,) = [each for each in expressions() if each.startswith("relay_journal_position_bytes") and "-" in each]
        assert len(prometheus.await_samples(history)) == 1
