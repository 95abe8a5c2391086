"""Read the alert and recording rules as Prometheus gets them, and make them run faster for tests."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.manifests import LOADER

RULES = ROOT / "k8s/monitoring/prometheusrule.yaml"
RUNBOOKS = "docs/operate/runbooks/"  # the beginning of every runbook_url

UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
DURATION = r"(\d+)(ms|s|m|h|d|w)"
WINDOW = re.compile(rf"\[{DURATION}(?::{DURATION})?\]")
WAIT = re.compile(rf"^( *(?:- )?(?:for|interval): ){DURATION}$", re.MULTILINE)
OFFSET = re.compile(rf"\boffset {DURATION}")
MINUTES = re.compile(r"\b(\d+) \* 60$", re.MULTILINE)


def rule_file() -> str:
    """Extract the plain rule file from the PrometheusRule, as docs/operate/monitoring.md does."""
    return textwrap.dedent(RULES.read_text(encoding="utf-8").partition("\nspec:\n")[2])


@cache
def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.load(rule_file(), Loader=LOADER)["groups"] for rule in group["rules"]]


@cache
def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def of_group(name: str) -> frozenset[str]:
    groups = yaml.load(rule_file(), Loader=LOADER)["groups"]
    return frozenset(rule["alert"] for group in groups if group["name"] == name for rule in group["rules"])


def sped_up(text: str, factor: int, *, longer: Mapping[str, int] = MappingProxyType({})) -> str:
    """Divide every wait, window, offset and age in minutes by a factor; keep counts, ratios and seconds unchanged.

    shape:   `longer` maps an alert's name to a factor for its windows, if a test can't make the counted events faster
    """
    for alert, times in longer.items():
        of_alert = re.compile(rf"- alert: {alert}\n.*?(?=\n *- (?:alert|record): |\Z)", re.DOTALL)
        text, found = of_alert.subn(partial(_with_longer_windows, times=times), text)
        assert found, f"there is no alert {alert}"
    text = WINDOW.sub(lambda found: f"[{_shorter(found[1], found[2], factor)}{_step(found, factor)}]", text)
    text = WAIT.sub(lambda found: found[1] + _shorter(found[2], found[3], factor), text)
    text = OFFSET.sub(lambda found: f"offset {_shorter(found[1], found[2], factor)}", text)
    return MINUTES.sub(lambda found: f"{found[1]} * 60 / {factor}", text)


def rule_tests(*tests: dict[str, Any]) -> str:
    return json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})


def rule_test(title: str, series: dict[str, str], *, at: str, firing: dict[str, int]) -> dict[str, Any]:
    """Make one test of promtool: the alerts that these series (a sample every 30 s) set off by a moment."""
    return {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                # promtool names a failed test only by its expression.
                "expr": f'count by (alertname) (ALERTS{{alertstate="firing"}}) # {title}',
                "eval_time": at,
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": count} for name, count in firing.items()
                ],
            }
        ],
    }


def _step(found: re.Match[str], factor: int) -> str:
    return f":{_shorter(found[3], found[4], factor)}" if found[3] else ""


def _with_longer_windows(rule: re.Match[str], times: int) -> str:
    return re.sub(rf"\[{DURATION}", lambda found: f"[{int(found[1]) * times}{found[2]}", rule[0])


def _shorter(number: str, unit: str, factor: int) -> str:
    return f"{round(int(number) * UNITS_S[unit] * 1000 / factor)}ms"
