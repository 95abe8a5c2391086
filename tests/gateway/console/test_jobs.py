"""Test the pages of jobs and runs: what they show, each verb, and the rights of readers and tenants."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.gateway.console import caching
from shardclock_server.gateway.console.pages.listing import ROWS
from shardclock_server.gateway.console.pages.run_strip import HEIGHT, strip_of
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.session import Session
from tests.support.console import XSS, Browser
from tests.support.console_forms import console_acts, next_page, sign_in_as
from tests.support.factories import query, value
from tests.support.job_runs import declare, job_of
from tests.support.jobs import job_spec

RUN = """
    insert into shardclock.job_runs (
        timer_key, claims, job, outcome, attempt, scheduled_at, started_at, running_at, ended_at, reason, traceback,
        result, log, progress, message
    )
    select i, 1, 'refresh', $1::text, 1, r.at, r.at, r.at, case when $1 is not null then r.at + interval '1 min' end,
        $2::text, $2, to_jsonb($2), $2, 0.25, $2
    from generate_series(1, $3) i
    cross join lateral (select now() - i * interval '1 h' as at) r
"""
LONG_RUN = """
    with begun as (
        update shardclock.jobs
        set state = 'RUNNING', run_timer_key = 9, run_claims = 1, run_holder = 1, run_attempt = 1,
            run_started_at = now() - interval '17 min'
        returning name, run_started_at as at
    )
    insert into shardclock.job_runs (
        timer_key, claims, job, attempt, scheduled_at, started_at, running_at, progress, message
    )
    select 9, 1, b.name, 1, b.at, b.at, b.at, 0.42, $1::text
    from begun b
    returning started_at
"""
VERBS = ("run", "cancel", "disable", "enable", "config")


@pytest.fixture
async def refresh(dsn: str) -> None:
    """Declare the job `refresh`, which runs each hour."""
    await declare(dsn, job_spec(every_s=3600.0))


@pytest.mark.usefixtures("refresh")
async def test_a_job_shows_its_last_runs_and_a_run_its_log_with_each_text_escaped(dsn: str, browser: Browser) -> None:
    await query(dsn, RUN, "FAILED", XSS, 45)
    await query(
        dsn, "update shardclock.jobs set last_reason = $1, last_outcome = 'FAILED', failures = 45, runs = 45", XSS
    )

    listed = await browser.get("/jobs")
    assert ("refresh" in listed.main, "every 1 h" in listed.main, "FAILED" in listed.main) == (True, True, True)
    shown = await browser.get("/jobs/refresh")
    shown.assert_escapes()
    assert (shown.text.count("<rect"), shown.text.count("<tr>")) == (30, 21)
    run = await browser.get("/jobs/refresh/runs/7.1")
    run.assert_escapes()
    assert ("Log" in run.main, "Traceback" in run.main, "25 %" in run.main) == (True, True, True)
    assert (await browser.get("/jobs/refresh/runs/700.1")).status == 404
    assert (await browser.get("/jobs/refresh/runs/x")).status == 404
    missing = await browser.get("/jobs/refersh")
    assert (missing.status, "is refresh meant?" in missing.main) == (404, True)


@pytest.mark.usefixtures("refresh")
async def test_a_running_job_shows_its_start_its_time_so_far_and_its_progress(dsn: str, browser: Browser) -> None:
    at = await begin_long_run(dsn)

    listed = await browser.get("/jobs")
    assert f"RUNNING since {at:%H:%M:%S} (17 min) 42 %" in re.sub(r" min \d s", " min", listed.main)
    job = (await browser.get("/jobs/refresh")).main
    assert f"run 9.1 since {at:%H:%M:%S} (17 min" in job
    assert re.search(rf"Started Late Took Why .* {at:%Y-%m-%d %H:%M:%S} 0\.0 ms 17 min( \d s)? so far", job)
    run = (await browser.get("/jobs/refresh/runs/9.1")).main
    assert re.search(rf"Started {at:%Y-%m-%d %H:%M:%S} .* Took 17 min( \d s)? so far", run)


@pytest.mark.usefixtures("refresh")
async def test_a_run_that_lasts_ten_usual_durations_is_on_the_overview(
    dsn: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "FRESH_S", -1.0)
    await begin_long_run(dsn)
    assert "Long run" not in (await browser.get("")).main, "a job without a success has no usual duration"

    await query(dsn, RUN, "SUCCEEDED", "well", 3)
    shown = await browser.get("")
    shown.assert_escapes()
    line = r"Long run refresh run 9\.1 has run for 17 min( \d s)? \(usual duration: 1 min\); last report 42 %: <script"
    assert re.search(line, shown.main)
    await query(dsn, "update shardclock.job_runs set ended_at = started_at + interval '2 min' where timer_key < 9")
    assert "Long run" not in (await browser.get("")).main


@pytest.mark.usefixtures("refresh")
async def test_a_due_start_that_has_not_begun_is_shown_as_overdue(dsn: str, browser: Browser) -> None:
    await query(dsn, "update shardclock.timers set due_date = now() - interval '3 min' where name = 'job:refresh'")

    for path in ("/jobs", "/jobs/refresh"):
        assert re.search(r"overdue since \d{4}-\S+ \S+ 3 min( 1 s)? ago", (await browser.get(path)).main), path


@pytest.mark.usefixtures("refresh")
async def test_a_long_log_is_cut_to_its_last_lines(dsn: str, browser: Browser) -> None:
    await query(dsn, RUN, None, "begin" + "x" * 13_000 + "end", 1)

    run = await browser.get("/jobs/refresh/runs/1.1")

    assert ("begin" in run.main.partition("Log")[2].partition("Traceback")[0], "xend" in run.main) == (False, True)
    assert ("RUNNING" in run.main, "1,008 more characters" in run.main) == (True, True)


async def test_jobs_are_found_by_name_and_by_lateness(dsn: str, browser: Browser) -> None:
    await declare(dsn, *(job_spec(f"job-{i}", every_s=60.0) for i in range(150 - ROWS, 151)))
    await query(dsn, "update shardclock.jobs set changed_at = now() - interval '1 d' where name = 'job-150'")

    first = await browser.get("/jobs")
    rest = await browser.get(next_page(first))
    late = await browser.get("/jobs?late=true")

    assert (first.text.count("<tr>"), rest.text.count("<tr>"), late.text.count("<tr>")) == (ROWS + 1, 2, 2)
    assert ("job-150" in late.main, "LATE" in late.main) == (True, True)
    assert "should have succeeded" in (await browser.get("/jobs/job-150")).main
    assert (await browser.get("/jobs?contains=-12")).text.count("<tr>") == 11
    assert "No job matches" in (await browser.get("/jobs?contains=none")).main


@pytest.mark.usefixtures("refresh")
async def test_a_job_is_started_configured_disabled_and_enabled(dsn: str, browser: Browser) -> None:
    config = {"config": '{"since": "2027"}'}
    started = await browser.follow(await browser.submit("/jobs/refresh/run", config))
    assert "job refresh starts now" in started.text
    stored = await value(dsn, "select payload::text from shardclock.timers where payload is not null")
    assert json.loads(stored) == {"since": "2027"}
    await browser.submit("/jobs/refresh/config", config)
    assert "2027" in (await browser.get("/jobs/refresh")).main
    wrong = await browser.submit("/jobs/refresh/config", {"config": "{"})
    assert wrong.status == 422
    cancelled = await browser.submit("/jobs/refresh/cancel")
    assert cancelled.status == 409

    disabled = await browser.follow(await browser.submit("/jobs/refresh/disable", {"reason": XSS}))
    disabled.assert_escapes()
    assert (await job_of(dsn)).state == "DISABLED"
    enabled = await browser.follow(await browser.submit("/jobs/refresh/enable"))
    assert "job refresh is SCHEDULED" in enabled.text

    assert [(verb, outcome) for verb, _, outcome in await console_acts(dsn)] == [
        ("jobs run", "done"), ("jobs configure", "done"), ("jobs configure", "not done"), ("jobs cancel", "not done"),
        ("jobs disable", "done"), ("jobs enable", "done"),
    ]  # fmt: skip


@pytest.mark.usefixtures("refresh")
async def test_only_a_key_for_all_tenants_opens_jobs_and_a_read_only_key_gets_no_buttons(
    dsn: str, locked_browser: Browser, owner: Session
) -> None:
    await sign_in_as(locked_browser, owner, "operate")
    assert [(await locked_browser.get(path)).status for path in ("/jobs", "/jobs/refresh")] == [403, 403]
    await sign_in_as(locked_browser, owner, "write", tenant=None)
    for path in ("/jobs", "/jobs/refresh"):
        shown = await locked_browser.get(path)
        assert (shown.status, shown.actions) == (200, []), path
    for verb in VERBS:
        assert (await locked_browser.submit(f"/jobs/refresh/{verb}", {"config": "1"})).status == 403, verb
    assert (await job_of(dsn)).state == "SCHEDULED"


def test_a_strip_has_the_oldest_run_first_and_the_longest_run_with_the_full_height() -> None:
    runs = [_run("3.1", "SKIPPED", None), _run("2.1", "CRASHED", 2.0), _run("1.1", "SUCCEEDED", 8.0)]

    strip = strip_of([_run("4.1", None, None), *runs])

    assert [(it.height, it.style) for it in strip.bars] == [
        (HEIGHT, "good"), (HEIGHT / 4, "bad"), (4, "idle"), (4, "going"),
    ]  # fmt: skip
    assert [it.x for it in strip.bars] == sorted(it.x for it in strip.bars)
    assert strip.bars[1].label == "2027-01-31 08:00:00Z: CRASHED, 2.0 s"
    assert strip_of([]).bars == []


async def begin_long_run(dsn: str) -> datetime:
    """Insert a run of `refresh` that has been running for 17 minutes; return its start."""
    (row,) = await query(dsn, LONG_RUN, XSS)
    at: datetime = row["started_at"]
    return at.astimezone(UTC)


def _run(run_id: str, outcome: str | None, took_s: float | None) -> JobRun:
    at = datetime(2027, 1, 31, 8, tzinfo=UTC)
    ended_at = None if took_s is None else at + timedelta(seconds=took_s)
    return JobRun(run_id, "refresh", outcome, 1, at, at, at, ended_at, took_s, *(10 * (None,)))
