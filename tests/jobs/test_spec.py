"""Test the check of a job's rule at the start of its app: a wrong rule is refused in one sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from shardclock_server.jobs.spec import InvalidJob, JobSpec, check_rule
from tests.support.jobs import job_spec

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone"), [(None, "UTC"), ("0 3 * * *", "Europe/Berlin"), ("R/PT1H", "UTC"), ("@daily", "Asia/Tokyo")]
)
def test_a_rule_without_end_is_accepted(schedule: str | None, zone: str) -> None:
    check_rule(job_spec(schedule=schedule, zone=zone), now=NOW)


@pytest.mark.parametrize(
    ("schedule", "zone", "why"),
    [
        ("0 3 * *", "UTC", "job refresh (app:refresh) has a rule that is refused"),
        ("R/P1X", "UTC", "is refused"),
        ("0 3 * * *", "Europe/Atlantis", "Europe/Atlantis"),
        ("R3/PT1H", "UTC", "which ends after 3; a job goes on"),
        ("R/PT1H/2020-01-31T08:00Z", "UTC", "which ends on 2020-01-31; a job goes on"),
        ("0 0 * * FRI-TUE", "UTC", "which runs backwards; write the lower bound first"),
        ("0 0 30 2 *", "UTC", "schedule '0 0 30 2 *' never occurs after 2026-01-31T08:00:00Z; choose one with a date"),
        ("R/P9000Y", "UTC", "never occurs after 2026-01-31T08:00:00Z"),
    ],
)
def test_a_rule_that_is_invalid_or_ends_or_never_occurs_is_refused(schedule: str, zone: str, why: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        check_rule(job_spec(schedule=schedule, zone=zone), now=NOW)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_spec_reads_back_from_json() -> None:
    spec = job_spec(every_s=900.0, config='{"city": "Berlin"}', num_gpus=1.0)

    assert JobSpec.of(json.loads(json.dumps(spec.to_json()))) == spec
