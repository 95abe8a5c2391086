"""Test that a job's rule, its policy and its description in a file are read, or refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

import shardclock
from shardclock import JobPolicy, describe_jobs
from shardclock import jobs as declared
from shardclock_server.jobs.entry import FIELDS, read_entry
from shardclock_server.jobs.policy import read_policy
from shardclock_server.jobs.spec import InvalidJob, JobSpec, check_rule
from tests.support.jobs import job_policy, job_spec

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone"), [(None, "UTC"), ("0 3 * * *", "Europe/Berlin"), ("R/PT1H", "UTC"), ("@daily", "Asia/Tokyo")]
)
def test_a_rule_that_never_ends_is_accepted(schedule: str | None, zone: str) -> None:
    check_rule(job_spec(schedule=schedule, zone=zone), now=NOW)


@pytest.mark.parametrize(
    ("schedule", "zone", "why"),
    [
        ("0 3 * *", "UTC", "job refresh (app:refresh) has a rule that is refused"),
        ("R/P1X", "UTC", "is refused"),
        ("0 3 * * *", "Europe/Atlantis", "Europe/Atlantis"),
        ("R3/PT1H", "UTC", "which ends after 3; a job has no end"),
        ("R/PT1H/2020-01-31T08:00Z", "UTC", "which ends on 2020-01-31; a job has no end"),
        ("0 0 * * FRI-TUE", "UTC", "which runs backwards; write the lower bound first"),
        ("0 0 30 2 *", "UTC", "schedule '0 0 30 2 *' never occurs after 2026-01-31T08:00:00Z; choose one with a date"),
        ("R/P9000Y", "UTC", "never occurs after 2026-01-31T08:00:00Z"),
    ],
)
def test_a_rule_that_is_invalid_or_has_an_end_or_never_occurs_is_refused(schedule: str, zone: str, why: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        check_rule(job_spec(schedule=schedule, zone=zone), now=NOW)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_spec_reads_back_from_json() -> None:
    spec = job_spec(every_s=900.0, config='{"city": "Berlin"}', num_gpus=1.0)

    assert JobSpec.of(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_policy_reads_back_and_its_missing_fields_have_defaults() -> None:
    policy = job_policy(max_runtime_s=5.0, max_retries=0, num_gpus=0.5)

    assert read_policy(json.dumps(asdict(policy))) == policy
    assert read_policy("{}") == JobPolicy(
        max_runtime_s=3_600.0,
        grace_s=10.0,
        max_retries=3,
        retry_period_s=30.0,
        retry_max_s=3_600.0,
        num_cpus=None,
        num_gpus=None,
        memory_mib=None,
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "must be an object of max_runtime_s"),
        ('{"max_run": 1}', "must be an object of max_runtime_s"),
        ("{", "it is no JSON"),
        ('{"max_runtime_s": "long"}', "max_runtime_s 'long' is refused"),
        ('{"max_runtime_s": null}', "max_runtime_s None is refused"),
        ('{"max_retries": 1.5}', "max_retries 1.5 is refused"),
        ('{"retry_period_s": 20, "retry_max_s": 10}', "is longer than retry_max"),
    ],
)
def test_an_invalid_policy_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        read_policy(text)

    assert why in str(refused.value)


LEAST = {"name": "refresh", "function": "app:refresh"}


def refresh(run: shardclock.Run) -> None: ...


def test_missing_fields_have_the_defaults_of_the_decorator() -> None:
    assert read_entry(LEAST, now=NOW).spec == job_spec()
    assert read_entry(LEAST, now=NOW).disabled is None
    assert read_entry(LEAST | {"config": None, "every": None, "disabled": None}, now=NOW) == read_entry(LEAST, now=NOW)


def test_each_field_has_its_meaning_from_the_decorator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "_jobs", {})
    words: dict[str, Any] = {
        "cron": "0 3 * * *", "zone": "Europe/Berlin", "missed": "skip", "overlap": "queue", "priority": 1,
        "max_runtime": "PT5M", "grace": "PT1S", "max_retries": 5, "retry_period": "PT1S", "retry_max": "PT1M",
        "num_cpus": 2, "num_gpus": 0.5, "memory_mib": 512, "config": {"city": "Rome"},
    }  # fmt: skip
    shardclock.job("nightly", **words)(refresh)
    (described,) = describe_jobs(declared.declared_jobs())

    entry = read_entry({"name": "nightly", "function": described["reference"], "disabled": True, **words}, now=NOW)

    assert entry.spec.to_json() | {"config": None} == described | {"config": None}
    assert (entry.spec.config, entry.disabled) == ('{"city":"Rome"}', True)
    assert set(FIELDS) == {"name", "function", "disabled", "every", "repeat", *words}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "[…] is not a JSON object; write one such as {"),
        (LEAST | {"evry": "PT1H"}, "'evry' is not a field of a job; the fields are name, function, every, cron"),
        ({"function": "app:refresh"}, "name null is refused: it must be 1 to 100 characters of a-z"),
        (LEAST | {"name": "Refresh"}, "name 'Refresh' is refused"),
        (LEAST | {"function": "refresh"}, "function 'refresh' is refused: it must be package.module:function"),
        (LEAST | {"function": "a:" + "b" * 300}, "function 'a:bbb"),
        (LEAST | {"every": "PT0S"}, "every 'PT0S' is refused: it must be a duration from PT0.1S to P365D"),
        (LEAST | {"every": 900}, "every 900 is neither an ISO 8601 duration"),
        (LEAST | {"every": "PT1H", "cron": "0 3 * * *"}, "has one of every, cron and repeat"),
        (LEAST | {"cron": "0 0 30 2 *"}, "schedule '0 0 30 2 *' never occurs after 2026-01-31T08:00:00Z"),
        (LEAST | {"every": "PT1H", "zone": "Mars"}, "zone 'Mars' is refused: it belongs to cron and repeat"),
        (LEAST | {"cron": "0 3 * * *", "zone": "Mars"}, "zone 'Mars' is not an IANA time zone"),
        (LEAST | {"missed": "all"}, "missed 'all' is refused: it must be one of fire_once, fire_all, skip"),
        (LEAST | {"overlap": "allow"}, "overlap 'allow' is refused"),
        (LEAST | {"priority": 9}, "priority 9 is refused: it must be a whole number from 1 to 4"),
        (LEAST | {"retry_period": "PT2H"}, "is longer than retry_max"),
        (LEAST | {"config": "x" * 70_000}, "is longer than 65,536 bytes; keep the document elsewhere"),
        (LEAST | {"config": "a\0b"}, "contains a NUL character"),
        (LEAST | {"disabled": "yes"}, "disabled 'yes' is refused: it must be true or false"),
    ],
    ids=lambda it: str(it)[:40],
)
def test_an_invalid_job_is_refused_with_the_value_and_the_rule(said: object, why: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        read_entry(said, now=NOW)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
