"""Test the rules without a cluster: promtool accepts the rules, and each alert fires exactly in its cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardclock_server.sql.cluster.holders import ROLES
from tests.support import ROOT
from tests.support.alert_cases import CASES as OF_CLUSTERS
from tests.support.alert_cases import Case
from tests.support.gateway_alert_cases import CASES as OF_GATEWAYS
from tests.support.process_alert_cases import CASES as OF_PROCESSES
from tests.support.prometheus import promtool
from tests.support.rules import RUNBOOKS, alerts, rule_file, rule_test, rule_tests, rules, sped_up

ALERTS = alerts()
CASES = [*OF_CLUSTERS, *OF_PROCESSES, *OF_GATEWAYS]
HALF_AN_HOUR = "30m"  # promtool takes a third of a second for a case with this much data


def _parameter(case: Case) -> Any:
    return pytest.param(case, id=case.title, marks=[] if case.at == HALF_AN_HOUR else [pytest.mark.exhaustive])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "rules.yaml").write_text(rule_file())
    return tmp_path


def test_promtool_accepts_the_rules(place: Path) -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", "rules.yaml", cwd=place)


@pytest.fixture(scope="module")
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run promtool once with the cases of all selected tests, and return its output for each failed case."""
    place = tmp_path_factory.mktemp("rules")
    (place / "rules.yaml").write_text(rule_file())
    asked = _asked(request.session)
    tests = [rule_test(case.title, case.series, at=case.at, firing=case.firing) for case in asked]
    (place / "cases.json").write_text(rule_tests(*tests))
    said = promtool("test", "rules", "cases.json", cwd=place, may_fail=True)
    each = said.split("    expr: ")
    found = {case.title: failure for failure in each for case in asked if f'# {case.title}"' in failure}
    assert found or "SUCCESS" in said, said
    return found


def _asked(session: pytest.Session) -> list[Case]:
    here = [item for item in session.items if item.path == Path(__file__) and isinstance(item, pytest.Function)]
    asked: list[Any] = [item.callspec.params["case"] for item in here if "case" in item.fixturenames]
    return asked


@pytest.mark.parametrize("case", [_parameter(case) for case in [Case("a healthy cluster", "all"), *CASES]])
def test_exactly_the_expected_alerts_fire(failures: dict[str, str], case: Case) -> None:
    assert case.title not in failures, failures[case.title]


def test_each_case_has_a_unique_name() -> None:
    assert len({case.title for case in CASES}) == len(CASES)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_case_that_fires_it_and_a_case_that_does_not_fire_it(name: str) -> None:
    about = [case for case in CASES if case.about == name]
    assert any(name in case.fires for case in about)
    assert any(name not in case.fires for case in about)


def test_each_case_tests_an_existing_alert() -> None:
    assert {case.about for case in CASES} | {name for case in CASES for name in case.fires} == ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)
def test_each_alert_has_a_severity_and_a_runbook(alert: dict[str, Any]) -> None:
    said = alert["annotations"]
    assert alert["labels"]["severity"] in ("page", "ticket", "info")
    words = said["summary"] + said["description"]
    assert "$labels.job" in words
    assert "$value" in words
    assert said["runbook_url"] == f"{RUNBOOKS}{alert['alert']}.md"
    assert (ROOT / said["runbook_url"]).is_file()


@pytest.mark.parametrize("role", ROLES)
def test_repeated_deaths_of_keepers_set_off_an_alert_for_each_role(role: str) -> None:
    counted = f'job_role:shardclock_takeovers:sum{{role="{role}"}}'
    (name,) = (name for name, alert in ALERTS.items() if name.endswith("Flapping") and counted in alert["expr"])
    assert any(case.about == name and name in case.fires for case in CASES)


def test_each_runbook_belongs_to_an_alert_and_has_its_severity() -> None:
    pages = {page.stem: page.read_text() for page in (ROOT / RUNBOOKS).glob("*.md")}
    assert pages.keys() == ALERTS.keys()
    for name, text in pages.items():
        assert text.startswith(f"# {name}\n\nSeverity: {ALERTS[name]['labels']['severity']}.\n")
        parts = ["**Meaning.**", "**Effect on users.**", "## Look first", "## Repair", "## Prevent"]
        assert [text.count(part) for part in parts] == [1] * len(parts), name


def test_each_recording_rule_has_level_metric_and_operation_in_its_name() -> None:
    for rule in rules():
        if "record" in rule:
            level, metric, operation = rule["record"].split(":")
            assert level.startswith("job")
            assert metric.startswith("shardclock_")
            assert operation


def test_accelerated_rules_divide_only_waits_windows_and_ages() -> None:
    given = """
- alert: Some
  expr: max by (job) (count_over_time(x:rate5m[1h:1m] offset 1d)) > 5 * 60
    and rate(y[5m]) > 14.4 * 0.01 and z >= 10 and w > 30
  for: 15m
  interval: 30s
  summary: for 15m it was so, * 60
"""
    assert (
        sped_up(given, 30)
        == """
- alert: Some
  expr: max by (job) (count_over_time(x:rate5m[120000ms:2000ms] offset 2880000ms)) > 5 * 60 / 30
    and rate(y[10000ms]) > 14.4 * 0.01 and z >= 10 and w > 30
  for: 30000ms
  interval: 1000ms
  summary: for 15m it was so, * 60
"""
    )


def test_the_windows_of_an_alert_may_be_longer() -> None:
    given = """
  - alert: Slow
    expr: count_over_time(x[15m:1m]) + increase(y[10m]) > 3
    for: 5m
  - alert: SlowToo
    expr: increase(y[10m]) > 3
"""
    assert (
        sped_up(given, 30, longer={"Slow": 2})
        == """
  - alert: Slow
    expr: count_over_time(x[60000ms:2000ms]) + increase(y[40000ms]) > 3
    for: 10000ms
  - alert: SlowToo
    expr: increase(y[20000ms]) > 3
"""
    )
    with pytest.raises(AssertionError, match="there is no alert Other"):
        sped_up(given, 30, longer={"Other": 2})


def test_accelerated_rules_are_valid_and_complete(place: Path) -> None:
    fast = sped_up(rule_file(), 30)
    (place / "rules.yaml").write_text(fast)
    assert f"{len(rules())} rules found" in promtool("check", "rules", "rules.yaml", cwd=place)
    assert all(f"for: {wait}\n" not in fast for wait in ("1m", "2m", "5m", "15m", "30m"))
    assert fast.count(" * 60 / 30\n") == rule_file().count(" * 60\n") == 8
