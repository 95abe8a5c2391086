"""Test that the monitoring component builds, and that the examples in the docs work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.manifests import build, of_kind
from tests.support.rules import RUNBOOKS, alerts, rule_file

DASHBOARDS = ("overview", "shards", "jobs", "database")
DOCS = (ROOT / "docs/operate/monitoring.md").read_text()


def _overlay(place: Path, **fields: Any) -> list[dict[str, Any]]:
    # kubectl reads files outside the overlay only through relative paths, so copy the component beside it.
    shutil.copytree(ROOT / "k8s/monitoring", place / "monitoring")
    (place / "overlay").mkdir()
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "components": ["../monitoring"]}
    (place / "overlay/kustomization.yaml").write_text(json.dumps(head | fields))
    return build(str(place / "overlay"))


def _of_docs(word: str) -> Any:
    (found,) = [text for text in re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL) if word in text]
    return yaml.safe_load(found)


def test_the_component_contains_a_monitor_rules_and_dashboards(tmp_path: Path) -> None:
    objects = _overlay(tmp_path)
    assert {o["kind"] for o in objects} == {"PodMonitor", "PrometheusRule", "ConfigMap"}
    (rule,) = of_kind(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(rule_file())
    boards = of_kind(objects, "ConfigMap")
    assert {json.dumps(board["metadata"]["labels"]) for board in boards} == {'{"grafana_dashboard": "1"}'}
    uids = {board["metadata"]["name"]: [json.loads(it)["uid"] for it in board["data"].values()] for board in boards}
    assert uids == {f"shardclock-dashboard-{it}": [f"shardclock-{it}"] for it in DASHBOARDS}


def test_the_overlay_in_the_docs_puts_an_address_before_each_runbook(tmp_path: Path) -> None:
    (rule,) = of_kind(_overlay(tmp_path, **_of_docs("replacements:")), "PrometheusRule")
    named = [r for group in rule["spec"]["groups"] for r in group["rules"] if "alert" in r]
    assert len(named) == len(alerts())
    for alert in named:
        address = f"https://wiki.example.org/shardclock/{RUNBOOKS}{alert['alert']}.md"
        assert alert["annotations"]["runbook_url"] == address


def test_the_overlay_in_the_docs_adds_the_label_that_prometheus_selects(tmp_path: Path) -> None:
    objects = _overlay(tmp_path, **_of_docs("kube-prometheus-stack"))
    for kind in ("PodMonitor", "PrometheusRule"):
        (found,) = of_kind(objects, kind)
        assert found["metadata"]["labels"]["release"] == "kube-prometheus-stack"


def test_the_command_in_the_docs_extracts_the_rule_file() -> None:
    (line,) = re.findall(r"^\$ (sed .*) \| grep -c \S+$", DOCS, re.MULTILINE)
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == rule_file()


@pytest.mark.parametrize("word", ["scrape_configs:"])
def test_the_prometheus_config_in_the_docs_is_valid(word: str) -> None:
    config = _of_docs(word)
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "shardclock"
    assert config["global"]["scrape_interval"] == "15s"
