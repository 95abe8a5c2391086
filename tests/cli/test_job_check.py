"""`jobs list` shows a paused start of a job, and `jobs check` reports each job that does not do its work."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.support.cli_asserts import DONE, NOT_DONE, assert_refused
from tests.support.factories import sql
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.program import Shell

PAUSE = ("operate", "pause", "--name", "job:nightly", "--reason", "the source moves")


@pytest.fixture
def nightly(shell: Shell) -> Shell:
    """Declare a job that starts each night, and a job that runs on request."""
    asyncio.run(declare(shell.dsn, job_spec("nightly", schedule="0 3 * * *"), job_spec("report")))
    return shell


def let_days_pass(dsn: str, days: int = 2) -> None:
    """Move the records of the job nightly into the past."""
    past = f"interval '{days} d'"
    text = f"update shardclock.jobs set declared_at = declared_at - {past}, changed_at = changed_at - {past}"
    sql(dsn, text)


# a paused start


def test_the_list_shows_a_paused_start_with_its_reason_and_its_date(nightly: Shell) -> None:
    (before,) = [job for job in nightly("jobs", "list", "--json").json["jobs"] if job["name"] == "nightly"]
    due = nightly.sql("select due_date from shardclock.timers")[0][0]
    nightly(*PAUSE)

    (after,) = [job for job in nightly("jobs", "list", "--json").json["jobs"] if job["name"] == "nightly"]
    line = nightly("jobs", "list").out.splitlines()[1]

    assert before["paused_start"] is None
    assert (after["next_start"], datetime.fromisoformat(after["paused_start"])) == (None, due)
    assert (after["paused_why"], after["paused_by"]) == ("the source moves", "test_shard")
    assert "PAUSED: the source moves" in line
    assert "paused, was for 20" in line


# check


def test_a_check_of_a_working_job_prints_nothing(nightly: Shell) -> None:
    checked = nightly("jobs", "check", "nightly")

    assert (checked.code, checked.out, checked.err) == (DONE, "", "")
    found = nightly("jobs", "check", "nightly", "--json").json
    assert (found["why_not"], found["max_runtime_s"]) == (None, 3_600)
    assert found["success_overdue_s"] < 60, "no shard has worked out its first date yet"
    assert nightly("jobs", "check", "report").code == DONE, "it runs on request alone"


def test_a_success_is_overdue_after_the_time_of_one_run_and_its_attempts(nightly: Shell) -> None:
    due = "update shardclock.timers set due_date = now() - interval '{}' where name = 'job:nightly'"
    let_days_pass(nightly.dsn)

    nightly.sql(due.format("74 min"))
    assert nightly("jobs", "check", "nightly").code == DONE
    nightly.sql(due.format("3 h"))

    said = ("job 'nightly' should have succeeded 3 h", "ago: the job has not run yet")
    assert_refused(nightly("jobs", "check", "nightly"), *said, code=NOT_DONE)
    machine = nightly("jobs", "check", "nightly", "--json")
    assert machine.code == NOT_DONE
    assert all(words in machine.json["why_not"] for words in said)


def test_a_check_of_a_stopped_job_fails_with_its_reason(nightly: Shell) -> None:
    nightly(*PAUSE)
    paused = nightly("jobs", "check", "nightly")
    nightly("jobs", "disable", "nightly", "--reason", "month-end close")
    disabled = nightly("jobs", "check", "nightly")
    asyncio.run(declare(nightly.dsn, job_spec("report")))
    withdrawn = nightly("jobs", "check", "nightly")

    assert_refused(paused, "job 'nightly' is paused since 20", ": the source moves", code=NOT_DONE)
    assert_refused(disabled, "job 'nightly' is disabled since 20", ": month-end close", code=NOT_DONE)
    assert_refused(withdrawn, "job 'nightly' is withdrawn since 20", ": no app has it", code=NOT_DONE)
