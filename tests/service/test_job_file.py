"""Either all jobs of a file are written, or none of them; each refused job is named by its number."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import shardclock_server.service.job_file
from shardclock.api.codes import invalid
from shardclock.api.refusals.jobs import JOB_DECLARED, JOB_EXISTS, UNKNOWN_JOB
from shardclock_server.service.job_file import apply_file
from shardclock_server.service.jobs import add_job, find_job, remove_job
from shardclock_server.sql.jobs.apply import judge_jobs
from shardclock_server.sql.jobs.jobs import AddedJob, find_jobs
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.refusal import Refusal
from tests.support.factories import query
from tests.support.job_runs import declare, is_whole
from tests.support.jobs import job_spec
from tests.support.refusals import refusing


def entry(name: str, **said: Any) -> dict[str, Any]:
    """Describe a job that runs the app's only function."""
    return {"name": name, "function": "app:refresh", **said}


def lines(*entries: dict[str, Any]) -> bytes:
    """Write one job per line."""
    return "".join(f"{json.dumps(it)}\n" for it in entries).encode()


async def test_the_report_of_a_file_states_whether_each_job_was_added_or_changed(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec())
    first = [entry("eu", every="PT1H"), entry("us", cron="0 3 * * *"), entry("gone", function="app:gone")]

    made = await apply_file(session, lines(*first))
    again = await apply_file(session, json.dumps([entry("eu", every="PT2H", priority=1), *first[1:]]).encode())

    assert [(job.name, job.changes, job.has_code) for job in made.jobs] == [
        ("eu", ("added",), True), ("us", ("added",), True), ("gone", ("added",), False)
    ]  # fmt: skip
    assert [job.changes for job in again.jobs] == [("every_s", "priority"), (), ()]
    assert {job.name: job.state for job in await find_jobs(session)} == {
        "refresh": "SCHEDULED", "eu": "SCHEDULED", "us": "SCHEDULED", "gone": "DISABLED"
    }  # fmt: skip
    assert (await find_job(session, "eu")).every_s == 7_200
    assert await is_whole(dsn) == []


async def test_a_file_with_a_bad_job_is_not_written_and_each_bad_job_is_reported(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec())
    content = lines(entry("eu"), entry("EU"), entry("eu"), entry("refresh")) + b"\n{\n" + lines(entry("x", priority=9))

    report = await apply_file(session, content)

    assert [(it.number, it.why.partition(";")[0].partition(":")[0]) for it in report.refused] == [
        (2, "name 'EU' is refused"),
        (3, "name 'eu' is that of line 1, too"),
        (4, "name 'refresh' belongs to a job that an app declares"),
        (6, "line '{' is not JSON"),
        (7, "priority 9 is refused"),
    ]
    assert [job.name for job in await find_jobs(session)] == ["refresh"]


async def test_a_dry_run_of_a_file_gives_the_same_report_and_writes_nothing(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec())
    content = lines(entry("eu", every="PT1H"))
    before = await query(dsn, "select position from shardclock.command_log")

    dry = await apply_file(session, content, dry_run=True)

    assert [job.name for job in await find_jobs(session)] == ["refresh"]
    assert await query(dsn, "select position from shardclock.command_log") == before
    assert await apply_file(session, content) == dry


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file has no jobs; write a line for each"),
        (b" [ ]", "the file has no jobs"),
        (b'[{"name": ', "is not JSON"),
        (lines(entry("a"), entry("b"), entry("c")), "the file has more than 2 jobs; split it"),
    ],
)
async def test_a_file_without_valid_jobs_or_with_too_many_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch, content: bytes, why: str
) -> None:
    monkeypatch.setattr(shardclock_server.service.job_file, "JOBS_MAX", 2)

    with pytest.raises(Refusal, match=why):
        await apply_file(session, content)


async def test_if_a_job_changes_between_the_check_and_the_write_the_whole_file_is_refused(
    dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare(dsn, job_spec())
    judge = judge_jobs

    async def judge_and_wait(*args: Any) -> Any:
        judged = await judge(*args)
        await declare(dsn, job_spec(), job_spec("us"))
        return judged

    monkeypatch.setattr(shardclock_server.service.job_file, "judge_jobs", judge_and_wait)

    with refusing(invalid("job"), match="name 'us' belongs to a job that an app declares"):
        await apply_file(session, lines(entry("eu"), entry("us")))

    assert [job.name for job in await find_jobs(session)] == ["refresh", "us"]


async def test_a_job_can_be_added_and_removed_while_another_job_is_declared(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec(config='{"city": "Rome"}'))

    assert await add_job(session, AddedJob("eu", "refresh", schedule="R/PT1H", priority=1)) == "SCHEDULED"

    job = await find_job(session, "eu")
    assert (job.function, job.schedule, job.priority, job.config) == ("app:refresh", "R/PT1H", 1, '{"city": "Rome"}')
    with refusing(JOB_EXISTS):
        await add_job(session, AddedJob("eu", "refresh"))
    with refusing(UNKNOWN_JOB, match="is refresh meant"):
        await add_job(session, AddedJob("b", "refrsh"))
    with refusing(JOB_DECLARED):
        await remove_job(session, "refresh")
    await remove_job(session, "eu")
    with refusing(UNKNOWN_JOB):
        await remove_job(session, "eu")


async def test_a_job_whose_rule_is_invalid_ends_or_never_occurs_is_not_added(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec())
    for rule, why in (
        ("0 0 30 2 *", "schedule '0 0 30 2 *' never occurs after"),
        ("R3/PT1H", "ends, and a job has no end"),
    ):
        with pytest.raises((Refusal, StatementRefused), match=re.escape(why)):
            await add_job(session, AddedJob("eu", "refresh", schedule=rule))
    assert [job.name for job in await find_jobs(session)] == ["refresh"]


async def test_a_stored_job_whose_rule_never_occurs_is_read_and_can_get_another_rule(
    dsn: str, session: Session
) -> None:
    # Given a job with a rule that Shardclock would refuse from a client
    await declare(dsn, job_spec())
    await query(dsn, "select shardclock.add_job('eu', 'refresh', schedule => '0 0 28 2 *')")
    await query(dsn, "update shardclock.jobs set schedule = '0 0 30 2 *' where name = 'eu'")
    await query(dsn, "update shardclock.timers set schedule = '0 0 30 2 *' where name = 'job:eu'")

    # When the job is read, and then described again
    standing = await find_job(session, "eu")
    report = await apply_file(session, lines(entry("eu", cron="0 0 28 2 *")))

    # Then the job is read with the old rule, and gets the new rule
    assert (standing.schedule, standing.next_start) == ("0 0 30 2 *", None)
    assert [job.changes for job in report.jobs] == [("schedule",)]


async def test_a_config_that_does_not_fit_its_function_is_refused_with_its_line(dsn: str, session: Session) -> None:
    city = {"type": "typed-dict", "fields": {"city": {"type": "typed-dict-field", "schema": {"type": "str"}}}}
    await declare(dsn, job_spec(config='{"city": "Rome"}', config_outline=json.dumps(city)))
    file = lines(
        entry("refresh-eu", config={"city": "Bonn"}),
        entry("refresh-us", config={"town": "Boston"}),
        entry("refresh-asia"),
        entry("refresh-new", config=5) | {"function": "app:of_tomorrow"},
    )

    report = await apply_file(session, file)

    assert [(it.number, it.why) for it in report.refused] == [
        (2, "config does not fit the argument of 'app:refresh': city: Field required")
    ]
    assert [job.name for job in await find_jobs(session)] == ["refresh"], "nothing was written"
    assert not (await apply_file(session, b"".join(file.splitlines(keepends=True)[::2]))).refused
