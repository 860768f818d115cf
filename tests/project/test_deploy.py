"""The files for containers, Kubernetes, Prometheus, Grafana, the bundle, the registry and the plugin."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from duetime.http.metrics import StoreCollector
from duetime.kinds import load_specs
from duetime.mcp.catalog import catalog_of
from packages.__main__ import manifest, registry_entry
from tests.support.cli import ROOT

DEPLOY = ROOT / "deploy"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
PLUGIN = ROOT / "packages" / "claude-code"
USER = 10001


def document(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.process
def test_the_dockerfile_passes_hadolint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"USER {USER}" in text and "HEALTHCHECK" in text and "--require-hashes" in text
    sent = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert {name for line in copied for name in line.split()} == sent, "what is copied is sent, and nothing else"


def test_the_containers_of_compose_are_two_nodes_that_cannot_write_to_their_image() -> None:
    services = document(ROOT / "compose.yaml")["services"]
    assert set(services) == {"database", "node-a", "node-b"}
    for name in ("node-a", "node-b"):
        node = services[name]
        assert node["read_only"] and node["cap_drop"] == ["ALL"] and node["tmpfs"] == ["/tmp"]
        assert node["depends_on"]["database"]["condition"] == "service_healthy"
        assert all(port.startswith("127.0.0.1:") for port in node["ports"]), "it speaks plain HTTP"
        assert node["environment"]["DUETIME_DB"].startswith("postgresql://duetime:${POSTGRES_PASSWORD:?")


def test_the_nodes_of_the_compose_file_with_a_standby_know_both_servers() -> None:
    parts = document(DEPLOY / "compose.standby.yaml")
    services = parts["services"]
    assert set(services) == {"primary", "standby", "node-a", "node-b"}
    for name in ("node-a", "node-b"):
        node = services[name]
        assert node["read_only"] and node["cap_drop"] == ["ALL"] and node["tmpfs"] == ["/tmp"]
        assert all(port.startswith("127.0.0.1:") for port in node["ports"]), "it speaks plain HTTP"
        assert node["environment"]["DUETIME_DB"].endswith("@primary,standby/duetime")
    assert "application_name=standby" in services["standby"]["command"][-1]
    assert "synchronous_standby_names = 'standby'" in parts["configs"]["replication"]["content"]
    assert services["standby"]["command"][-1].endswith("exec postgres -c synchronous_standby_names=\n")


@pytest.mark.parametrize("file", ["compose.yaml", "deploy/compose.standby.yaml", "deploy/dask/compose.yaml"])
def test_the_services_of_compose_can_start(file: str) -> None:
    """`make containers` starts them, which needs a Docker engine. Compose copies configs that a file contains, which it
    cannot do into a read-only container, and the health check of our image asks for the server of Duetime."""
    for service in document(ROOT / file)["services"].values():
        assert not (service.get("read_only") and (service.keys() & {"configs", "secrets"}))
        assert "entrypoint" not in service or "healthcheck" in service
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (ROOT / file).parent.joinpath(source).exists(), source


def test_the_manifests_for_kubernetes_are_valid() -> None:
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "duetime.yaml").read_text("utf-8")))
    for part in parts:
        kubernetes_validate.validate(part, kubernetes_validate.latest_version(), strict=True)
    found = {part["kind"]: part for part in parts}
    assert set(found) == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsUser"] == USER and container["securityContext"]["readOnlyRootFilesystem"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/healthz"
    settings = tomllib.loads(found["ConfigMap"]["data"]["duetime.toml"])
    assert pod["terminationGracePeriodSeconds"] > settings["drain"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["minAvailable"] < found["Deployment"]["spec"]["replicas"]


def _promtool(*arguments: str, folder: Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool here; Debian's package prometheus brings it")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CASES = {
    "DuetimeNoWorker": ['duetime_workers{instance="a",session="0"}', "0x30"],
    "DuetimeLate": ['duetime_due_lag_seconds{instance="a"}', "120x20"],
    "DuetimeWorkerStuck": ['duetime_exchange_age_seconds{instance="a"}', "90x20"],
    "DuetimeLost": ['duetime_runs_ended_total{instance="a",kind="job",status="lost"}', "0x10 1x10"],
    "DuetimeFailures": [
        'duetime_runs_ended_total{instance="a",kind="job",status="failed"}', "0+1x120",
        'duetime_runs_ended_total{instance="a",kind="job",status="completed"}', "0+1x120",
    ],
    "DuetimeMissed": [
        'duetime_runs_ended_total{instance="a",kind="job",status="missed"}', "0+1x120",
        'duetime_workers{instance="a",session="0"}', "1x120",
    ],
}  # fmt: skip
QUIET = [
    'up{job="duetime",instance="a"}', "1x120",
    'duetime_workers{instance="a",session="0"}', "1x120",
    'duetime_due_lag_seconds{instance="a"}', "0x120",
    'duetime_exchange_age_seconds{instance="a"}', "1x120",
    'duetime_runs_ended_total{instance="a",kind="job",status="completed"}', "0+10x120",
    'duetime_runs_ended_total{instance="a",kind="job",status="failed"}', "0x120",
]  # fmt: skip


def _series(flat: list[str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in zip(flat[::2], flat[1::2], strict=True)]


@pytest.mark.process
def test_each_alert_fires_for_its_cause_and_none_on_a_healthy_installation(tmp_path: Path) -> None:
    _promtool("check", "rules", str(ALERTS), folder=ROOT)
    _promtool("check", "config", "--syntax-only", str(DEPLOY / "prometheus" / "scrape.yaml"), folder=ROOT)
    names = [rule["alert"] for group in document(ALERTS)["groups"] for rule in group["rules"]]
    assert set(CASES) <= set(names)
    # Labels and texts of an alert that fires would have to be repeated here, so only its being active is asked for.
    active = [
        {
            "interval": "1m",
            "input_series": _series(flat),
            "promql_expr_test": [
                {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > 0', "eval_time": "20m",
                 "exp_samples": [{"labels": "{}", "value": 1}]}
            ],
        }
        for name, flat in CASES.items()
    ]  # fmt: skip
    healthy = {
        "interval": "1m",
        "input_series": _series(QUIET),
        "alert_rule_test": [{"eval_time": "90m", "alertname": name, "exp_alerts": []} for name in names],
    }
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [*active, healthy]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    _promtool("test", "rules", "tests.yaml", folder=tmp_path)


def test_alerts_and_dashboard_use_metrics_that_are_exported() -> None:
    source = Path(str(sys.modules[StoreCollector.__module__].__file__)).read_text("utf-8")
    exported = set(re.findall(r'"(duetime_[a-z_]+)"', source))
    assert "duetime_workers" in exported
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text("utf-8"))
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = [rule["expr"] for group in document(ALERTS)["groups"] for rule in group["rules"]]
    used = set(re.findall(r"duetime_[a-z_]+", " ".join([*targets, *rules])))
    suffix = re.compile(r"_(total|bucket|sum|count)$")
    assert {suffix.sub("", name) for name in used} == exported
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids) and all(panel["description"] for panel in board["panels"])
    statuses = set(re.findall(r'status=~?"([a-z|]+)"', " ".join([*targets, *rules])))
    assert {one for each in statuses for one in each.split("|")} <= {"completed", "failed", "missed", "lost"}


def test_the_bundle_and_the_registry_entry_say_what_pyproject_says() -> None:
    made = manifest(PROJECT)
    assert made["manifest_version"] == "0.4" and made["server"]["type"] == "uv"
    assert (made["name"], made["version"]) == ("duetime", PROJECT["version"])
    assert {"description", "author", "server"} <= set(made) and set(made["author"]) <= {"name", "email", "url"}
    used = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(made)))
    assert used == set(made["user_config"])
    entry = registry_entry(PROJECT)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"]) and len(entry["description"]) <= 100
    assert entry["version"] == entry["packages"][0]["version"] == PROJECT["version"]
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text("utf-8"), "the registry asks for it"


def test_the_plugin_has_a_skill_that_names_tools_that_exist() -> None:
    told = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    market = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())
    [listed] = market["plugins"]
    assert (ROOT / listed["source"]).resolve() == PLUGIN and listed["name"] == told["name"] == "duetime"
    server = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"]["duetime"]
    assert (server["command"], server["args"]) == ("duetime", ["mcp"])
    _, head, text = (PLUGIN / "skills" / "schedule" / "SKILL.md").read_text("utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["name"] == "schedule" and len(fields["description"]) <= 1024
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+|schedule|status|history)`", text))
    arguments = {"max_runs"}
    assert named - arguments <= {tool.name for tool in catalog_of(load_specs().values()).tools}
