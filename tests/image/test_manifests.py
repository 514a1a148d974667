"""The manifests of conf/kubernetes: a validator accepts them, and they agree with each other and with the image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from relay.config.load import load
from tests.support import ROOT

pytestmark = pytest.mark.image

FOLDER = ROOT / "conf/kubernetes"
# The oldest one that the schemas have, and the newest.
VERSIONS = ("1.25", kubernetes_validate.latest_version())


def manifests() -> dict[str, dict[str, Any]]:
    """All manifests by kind."""
    documents = [yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")]
    return {document["kind"]: document for document in documents}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["ConfigMap", "NetworkPolicy", "Secret", "Service", "StatefulSet"])
def test_a_validator_accepts_the_manifest(kind: str, version: str) -> None:
    kubernetes_validate.validate(manifests()[kind], version, strict=True)


def test_the_validator_is_strict() -> None:
    wrong = manifests()["StatefulSet"]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_pod_has_what_the_service_and_the_probes_name() -> None:
    stateful, service = manifests()["StatefulSet"]["spec"], manifests()["Service"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert service["selector"] == stateful["selector"]["matchLabels"] == labels
    pod = stateful["template"]["spec"]
    policy = manifests()["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert {port["port"] for port in policy["ingress"][0]["ports"]} == {"classic", "http"}
    (relay,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in relay["ports"]}
    assert ports == {port["targetPort"]: port["port"] for port in service["ports"]} == {"classic": 6001, "http": 6081}
    probes = {name: relay[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {"http"}
    claims = [claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]]
    volumes = [*claims, *(volume["name"] for volume in pod["volumes"])]
    assert sorted(volumes) == sorted(mount["name"] for mount in relay["volumeMounts"])


def test_the_configuration_loads_with_the_secrets(tmp_path: Path) -> None:
    mounts = manifests()["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    (secrets,) = (mount["mountPath"] for mount in mounts if mount["name"] == "secrets")
    for name, value in manifests()["Secret"]["stringData"].items():
        (tmp_path / name).write_text(value)
        (tmp_path / name).chmod(0o440)
    conf = tmp_path / "relay.conf"
    conf.write_text(manifests()["ConfigMap"]["data"]["relay.conf"].replace(secrets, str(tmp_path)))
    config, warnings = load(str(conf), {}, {})
    assert not warnings
    assert config.server.password == "the password of the account on the source"
    assert config.relay.data_dir == "/var/lib/relay"
