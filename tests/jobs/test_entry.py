"""Test that a file describes a job with the decorator's arguments; a wrong argument is refused in one sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import shardclock
from shardclock import describe_jobs
from shardclock import jobs as declared
from shardclock_server.jobs.entry import FIELDS, read_entry
from shardclock_server.jobs.spec import InvalidJob
from tests.support.jobs import job_spec

LEAST = {"name": "refresh", "function": "app:refresh"}
NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)


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
        ([], "an array is not a JSON object; write one such as {"),
        (LEAST | {"evry": "PT1H"}, "'evry' is not a field of a job; the fields are name, function, every, cron"),
        ({"function": "app:refresh"}, "name null is refused: it must be 1 to 100 characters of a-z"),
        (LEAST | {"name": "Refresh"}, "name 'Refresh' is refused"),
        (LEAST | {"function": "refresh"}, "function 'refresh' is refused: it must be package.module:function"),
        (LEAST | {"function": "a:" + "b" * 300}, "function 'a:bbb"),
        (LEAST | {"every": "PT0S"}, "every 'PT0S' is refused: it must be a duration from PT0.1S to P365D"),
        (LEAST | {"every": 900}, "every 900 is neither an ISO 8601 duration"),
        (LEAST | {"every": "PT1H", "cron": "0 3 * * *"}, "has one of every, cron and repeat"),
        (LEAST | {"cron": "0 25 * * *"}, "has a rule that is refused"),
        (LEAST | {"cron": "0 0 30 2 *"}, "schedule '0 0 30 2 *' never occurs after 2026-01-31T08:00:00Z"),
        (LEAST | {"repeat": "R5/PT1H"}, "which ends after 5; a job goes on"),
        (LEAST | {"every": "PT1H", "zone": "Mars"}, "zone 'Mars' is not an IANA time zone"),
        (LEAST | {"missed": "all"}, "missed 'all' is refused: it must be one of fire_once, fire_all, skip"),
        (LEAST | {"overlap": "allow"}, "overlap 'allow' is refused"),
        (LEAST | {"priority": 9}, "priority 9 is refused: it must be a whole number from 1 to 4"),
        (LEAST | {"max_retries": True}, "max_retries True is refused"),
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
