"""Jobs are listed, run, followed, cancelled, disabled and configured, and each answer is true."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shardclock.api.refusals.jobs import UNKNOWN_RUN
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.service.job_runs import FOLLOW_S
from shardclock_server.service.jobs import run_job
from shardclock_server.sql.jobs.runs import BegunRun, RunProgress, advance_runs, report_runs
from shardclock_server.sql.session import Session
from tests.support.cli_asserts import DONE, NOT_DONE, assert_code, assert_refused, recorded_outcomes
from tests.support.factories import BOUND_S, HolderClient, add_holder, value
from tests.support.job_runs import JobWorker, declare, fire, job_of, runs_of
from tests.support.jobs import job_spec
from tests.support.program import Shell

HOLDERS = itertools.count(1_000)
EVERY: dict[str, Any] = {"every_s": 900.0}


@pytest.fixture
def refresh(shell: Shell) -> Shell:
    """Declare three jobs: with an interval, with cron, and on request."""
    nightly = job_spec("nightly", schedule="0 3 * * *", zone="Europe/Berlin")
    asyncio.run(declare(shell.dsn, job_spec(config='{"city": "Bonn"}', **EVERY), nightly, job_spec("report")))
    return shell


@asynccontextmanager
async def hands(dsn: str) -> AsyncIterator[tuple[HolderClient, JobWorker]]:
    """Start a shard and a worker; the test runs each turn of their loops."""
    holder = next(HOLDERS)
    await add_holder(dsn, holder)
    async with HolderClient(dsn, holder=holder) as shard, JobWorker(dsn, next(HOLDERS)) as worker:
        yield shard, worker


async def begin(dsn: str) -> BegunRun:
    """Execute the only due start; its run does not end."""
    async with hands(dsn) as (shard, worker):
        await fire(shard)
        return await worker.one()


async def make_run(dsn: str, outcome: RunOutcome = RunOutcome.SUCCEEDED, **how: Any) -> BegunRun:
    """Execute the only due start, and end its run."""
    async with hands(dsn) as (shard, worker):
        await fire(shard)
        run = await worker.one()
        await worker.end(run, outcome, **how)
        return run


@contextmanager
def meanwhile(work: Callable[[], Any]) -> Iterator[None]:
    """Run `work` in a thread while a command runs; a failure of `work` fails the test."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    yield
    thread.join(BOUND_S)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


# list, show


def test_the_list_shows_each_job_s_state_and_next_start(refresh: Shell) -> None:
    asyncio.run(make_run(refresh.dsn, RunOutcome.FAILED, reason="no host", delay_s=60.0))
    refresh("jobs", "disable", "report", "--reason", "month-end close")

    listed = refresh("jobs", "list").out

    (heads, nightly, row, report, waiting) = listed.splitlines()
    assert heads.split("  ")[0] == "job"
    assert "0 3 * * * Europe/Berlin" in nightly
    assert "is being planned" in nightly
    assert "SCHEDULED" in row
    assert "every 15 min" in row
    assert "(another attempt)" in row
    assert "FAILED" in row
    assert waiting.endswith("(job:refresh has 1 waiting start)")
    assert row.endswith("1 failure")
    assert "DISABLED: month-end close" in report
    assert "on request" in report
    assert refresh("jobs").out == listed


def test_an_empty_list_of_jobs_explains_how_to_declare_a_job(shell: Shell) -> None:
    assert "@shardclock.job" in shell("jobs", "list").err
    assert shell("jobs", "--json").json["jobs"] == []
    assert_refused(
        shell("jobs", "show", "refresh"), "'refresh' is unknown", "there are none; an app declares them", code=NOT_DONE
    )


def test_a_job_is_shown_with_its_last_runs_and_their_failures(refresh: Shell) -> None:
    asyncio.run(make_run(refresh.dsn, RunOutcome.FAILED, reason="no host"))

    shown = refresh("jobs", "show", "refresh")
    said = refresh("jobs", "show", "refresh", "--json").json

    assert "app:refresh" in shown.out
    assert ["max_retries", "3"] in [line.split() for line in shown.out.splitlines()]
    assert "last runs" in shown.out
    assert shown.out.count("no host") == 2, "as the job's last reason, and as the run's"
    assert (said["job"]["consecutive_failures"], said["job"]["last_reason"]) == (1, "no host")
    assert [(run["outcome"], run["reason"]) for run in said["runs"]] == [("FAILED", "no host")]


async def report(dsn: str, run: BegunRun, progress: float, message: str) -> None:
    """Let a run report its progress."""
    async with JobWorker(dsn, next(HOLDERS)) as hand:
        holder = await value(dsn, "select run_holder from shardclock.jobs where run_timer_key = $1", run.timer_key)
        await advance_runs(hand.session, holder, [(run, "RUNNING", None)])
        await report_runs(hand.session, [RunProgress(run, progress, message, None)])


# run


def test_a_followed_run_prints_its_progress_and_its_success(refresh: Shell) -> None:
    with meanwhile(lambda: asyncio.run(play(refresh.dsn, "report", result='{"rows": 3}'))):
        done = refresh("jobs", "run", "report", "--wait", "--within", BOUND_S)

    assert (done.code, done.out.splitlines()[-1].split()[1]) == (DONE, "SUCCEEDED")
    assert "RUNNING 50 %  half" in done.err
    assert len(set(done.err.splitlines())) == len(done.err.splitlines()), "each line is told once"


def test_a_failed_run_ends_the_wait_with_a_failing_exit_code(refresh: Shell) -> None:
    with meanwhile(lambda: asyncio.run(play(refresh.dsn, "report", RunOutcome.FAILED, reason="no host"))):
        done = refresh("jobs", "run", "report", "--wait", "--within", BOUND_S, "--json")

    assert done.code == NOT_DONE
    assert (done.json["run"]["outcome"], done.json["run"]["reason"]) == ("FAILED", "no host")
    assert done.json["run"]["run_id"].startswith(f"{done.json['timer_key']}.")
    assert recorded_outcomes(refresh) == ["done"]


def test_a_run_continues_after_the_end_of_the_wait_for_the_run(refresh: Shell) -> None:
    done = refresh("jobs", "run", "report", "--wait", "--within", "0.5")

    assert (done.code, done.out) == (NOT_DONE, "")
    assert done.err == (
        "shardclock: job 'report' is not done within 500 ms; the start waits, because no shard is running: start a"
        " cluster with `shardclock up`\n"
    )
    assert refresh.sql("select count(*) from shardclock.timers where target = 'job:report'")[0][0] == 1
    assert recorded_outcomes(refresh) == ["done"]


def test_a_fired_start_without_a_worker_is_reported(refresh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_and_fire(session: Session, name: str, *, config: str | None) -> int:
        timer_key = await run_job(session, name, config=config)
        holder = next(HOLDERS)
        await add_holder(refresh.dsn, holder)
        async with HolderClient(refresh.dsn, holder=holder) as shard:
            await fire(shard)
        return timer_key

    monkeypatch.setattr("shardclock_server.cli.jobs.run_job", run_and_fire)
    done = refresh("jobs", "run", "report", "--wait", "--within", "0.1")

    assert "; the start waits, because no running worker has the app of these targets: start one" in done.err
    assert "(job:report has 1 waiting start)" in done.err


def test_a_started_job_is_reported_with_a_note_if_no_shard_runs(refresh: Shell) -> None:
    assert refresh("jobs", "run", "report").err == "no shard is running: start a cluster with `shardclock up`\n"
    assert refresh("jobs", "run", "report", "--json").err == ""


async def play(dsn: str, name: str, outcome: RunOutcome = RunOutcome.SUCCEEDED, **how: Any) -> None:
    """Wait until a job is started, and execute its run as a worker does."""
    async with hands(dsn) as (shard, worker):
        run = await asked_for(shard, worker, name)
        await advance_runs(worker.session, worker.holder, [(run, "RUNNING", None)])
        # First the run reports its progress, then it logs a line, which does not change the progress.
        for said in (RunProgress(run, 0.5, "half", None), RunProgress(run, None, None, "a line")):
            await report_runs(worker.session, [said])
            await asyncio.sleep(3 * FOLLOW_S)  # no event shows that the follower has polled meanwhile
        await worker.end(run, outcome, **how)


async def asked_for(shard: HolderClient, worker: JobWorker, name: str) -> BegunRun:
    """Execute due starts until a run of this job is in progress."""
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        await fire(shard)
        for run in (await worker.begin()).runs:
            if run.job == name:
                return run
            await worker.end(run)
        await asyncio.sleep(0.02)
    raise AssertionError("nobody asked for a run")


# cancel, disable, enable, configure


def test_a_new_configuration_is_for_the_next_run_and_the_previous_one_is_printed(
    refresh: Shell, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"city": "Rome"}\n')

    first = refresh("jobs", "configure", "refresh", f"@{tmp_path / 'config.json'}", "--json")
    second = refresh("jobs", "configure", "refresh", "-", stdin=b'{"city": "Oslo"}')

    assert first.json == {"before": {"city": "Bonn"}, "config": {"city": "Rome"}}
    assert second.out.splitlines()[-1].split("  ") == ["refresh", '{"city": "Rome"}', '{"city":"Oslo"}']
    assert json.loads(asyncio.run(begin(refresh.dsn)).config or "") == {"city": "Oslo"}


# history, logs


def test_the_history_lists_the_newest_run_first_with_its_delay(refresh: Shell) -> None:
    asyncio.run(make_run(refresh.dsn, RunOutcome.FAILED, reason="no host", delay_s=0.0))
    asyncio.run(make_run(refresh.dsn))

    said = refresh("jobs", "history", "refresh", "--json").json["runs"]
    lines = refresh("jobs", "history", "refresh").out.splitlines()

    assert [(run["outcome"], run["attempt"]) for run in said] == [("SUCCEEDED", 2), ("FAILED", 1)]
    assert lines[0].split() == ["run", "outcome", "attempt", "scheduled", "late", "took", "why"]
    assert lines[2].endswith("no host")
    assert len(refresh("jobs", "history", "refresh", "-n", 1, "--json").json["runs"]) == 1
    assert "has not run yet" in refresh("jobs", "history", "report").err


def test_a_run_s_log_is_printed_with_its_traceback(refresh: Shell) -> None:
    failed = asyncio.run(
        make_run(refresh.dsn, RunOutcome.FAILED, delay_s=0.0, reason="no", traceback="in fetch, line 3", log="a\n[b]")
    )
    asyncio.run(make_run(refresh.dsn, log="all is well"))

    assert "all is well" in refresh("jobs", "logs", "refresh").out
    old = refresh("jobs", "logs", "refresh", failed.run_id).out
    assert old.endswith("\na\n[b]\n\nin fetch, line 3\n")
    assert refresh("jobs", "logs", "refresh", failed.run_id, "--json").json["log"] == "a\n[b]"


# refusals


def test_a_misspelled_job_is_refused_with_the_nearest_names_and_changes_nothing(refresh: Shell) -> None:
    before = asyncio.run(runs_of(refresh.dsn)), asyncio.run(job_of(refresh.dsn))
    for command in ("show", "check", "run", "cancel", "disable", "enable", "configure", "history", "logs"):
        refused = refresh("jobs", command, "refrsh", *(["{}"] if command == "configure" else []))
        assert_refused(refused, "job 'refrsh' is unknown: is refresh meant?", code=NOT_DONE)
    for run in ("newest", "7.1"):
        assert_code(refresh("jobs", "logs", "report", run, "--json"), UNKNOWN_RUN)
    assert (asyncio.run(runs_of(refresh.dsn)), asyncio.run(job_of(refresh.dsn))) == before
    assert "the jobs are nightly, refresh, report" in refresh("jobs", "show", "zzz").err
