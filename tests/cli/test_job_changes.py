"""Jobs are added on the command line and from files, and each command reports the true result."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shardclock.api.refusals.jobs import JOB_DECLARED, UNKNOWN_JOB
from tests.support.cli_asserts import BAD_INPUT, DONE, assert_code
from tests.support.job_runs import declare, is_whole, job_of
from tests.support.jobs import job_spec
from tests.support.program import Done, Shell

EU: dict[str, Any] = {"name": "eu", "function": "app:refresh", "every": "PT1H", "config": {"city": "Rome"}}


@pytest.fixture
def refresh(shell: Shell) -> Shell:
    """Declare a job that runs on request."""
    asyncio.run(declare(shell.dsn, job_spec(config='{"city": "Bonn"}')))
    return shell


def applied(shell: Shell, *entries: dict[str, Any], options: tuple[str, ...] = ()) -> Done:
    """Apply jobs from standard input."""
    text = "".join(f"{json.dumps(it)}\n" for it in entries)
    return shell("jobs", "apply", "-", *options, stdin=text.encode())


def test_a_job_is_added_with_its_own_rule_and_configuration(refresh: Shell) -> None:
    added = refresh("jobs", "add", "eu", "--of-job", "refresh", "--every", "1h", "--config", '{"city": "Rome"}')

    assert (added.code, added.out.split()) == (DONE, ["job", "state", "eu", "SCHEDULED"])
    job = asyncio.run(job_of(refresh.dsn, "eu"))
    assert (job.function, job.every_s, json.loads(job.config or "")) == ("app:refresh", 3_600.0, {"city": "Rome"})
    by_cron = ["--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--overlap", "queue", "--priority", 1, "--json"]
    assert refresh("jobs", "add", "nightly", "--of-job", "refresh", *by_cron).json == {"state": "SCHEDULED"}
    job = asyncio.run(job_of(refresh.dsn, "nightly"))
    assert (job.schedule, job.zone, job.overlap, job.priority) == ("0 3 * * *", "Europe/Berlin", "queue", 1)
    assert asyncio.run(is_whole(refresh.dsn)) == []


def test_an_added_job_can_be_removed_and_a_declared_one_can_not(refresh: Shell) -> None:
    refresh("jobs", "add", "eu", "--of-job", "refresh", "--repeat", "R/PT1H")

    assert refresh("jobs", "remove", "eu", "--json").json == {"removed": "eu"}
    assert_code(refresh("jobs", "remove", "eu", "--json"), UNKNOWN_JOB)
    assert_code(refresh("jobs", "remove", "refresh", "--json"), JOB_DECLARED)
    assert [job["name"] for job in refresh("jobs", "list", "--json").json["jobs"]] == ["refresh"]


def test_an_applied_file_reports_the_change_of_each_job(refresh: Shell, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps([EU, {"name": "gone", "function": "app:gone", "cron": "0 3 * * *"}]))

    first = refresh("jobs", "apply", file)
    second = applied(refresh, EU | {"every": "PT2H", "priority": 1}, {"name": "us", "function": "app:refresh"})

    assert first.code == DONE
    assert [line.split() for line in first.out.splitlines()[1:]] == [["eu", "created"], ["gone", "created"]]
    assert (
        "no app has the function of job 'gone': the job is stored, and starts when an app has the function" in first.err
    )
    assert [line.split(None, 1) for line in second.out.splitlines()[1:]] == [
        ["eu", "changed: every, priority"], ["us", "created"]
    ]  # fmt: skip
    assert "WITHDRAWN: no app has the job" in refresh("jobs", "list").out
    again = applied(refresh, EU | {"every": "PT2H", "priority": 1}, options=("--json",))
    assert again.json == {
        "written": True,
        "jobs": [{"name": "eu", "change": "unchanged", "fields": [], "has_code": True}],
        "refused": [],
    }


def test_a_dry_run_of_a_file_changes_nothing_and_reports_this(refresh: Shell) -> None:
    dry = applied(refresh, EU, options=("--dry-run",))

    assert (dry.code, dry.out.split()) == (DONE, ["job", "change", "eu", "created"])
    assert "nothing was changed; repeat the command without --dry-run" in dry.err
    assert [job["name"] for job in refresh("jobs", "list", "--json").json["jobs"]] == ["refresh"]
    assert applied(refresh, EU, options=("--dry-run", "--json")).json["written"] is False


def test_a_file_with_invalid_jobs_is_refused_completely_with_a_sentence_for_each_invalid_job(refresh: Shell) -> None:
    bad = (EU, {"name": "EU", "function": "app:refresh"}, EU | {"name": "us", "priority": 9})

    refused = applied(refresh, *bad)

    assert (refused.code, refused.out) == (BAD_INPUT, "")
    assert [line.partition(":")[2].split(" is refused")[0] for line in refused.err.splitlines()] == [
        " line 2: name 'EU'", " line 3: priority 9",
        " nothing was written; correct the refused entries, and apply the file again",
    ]  # fmt: skip
    said = applied(refresh, *bad, options=("--json",))
    assert (said.code, said.json["written"], [it["line"] for it in said.json["refused"]]) == (BAD_INPUT, False, [2, 3])
    many = applied(refresh, *({"name": f"j{number}"} for number in range(30)))
    assert "and 10 more: --json lists them" in many.err
    assert [job["name"] for job in refresh("jobs", "list", "--json").json["jobs"]] == ["refresh"]
