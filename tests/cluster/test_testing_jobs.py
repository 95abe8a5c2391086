"""A test can choose the jobs of its cluster, and sees the progress while the clock moves slowly."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

import shardclock
from shardclock_server.cluster.testing import cluster, stepping
from shardclock_server.cluster.testing.progress import AdvanceProgress
from shardclock_server.sql.clock.moved import move
from shardclock_server.sql.jobs.jobs import find_jobs
from shardclock_server.sql.session import Session

BEGIN = datetime(2026, 3, 27, 12, tzinfo=UTC)
# Postgres counts for each statement how often it was planned for one execution only. Select the largest count.
CUSTOM_PLANS = "select max(custom_plans) from pg_prepared_statements where not from_sql"
ran: list[str] = []


@shardclock.job("report.daily", every="PT10M")
def report(_: shardclock.Run) -> None:
    ran.append("report.daily")


@shardclock.job("report.weekly", every="PT20M")
def weekly(_: shardclock.Run) -> None:
    ran.append("report.weekly")


@shardclock.job("tick", every="PT20S")
def tick(_: shardclock.Run) -> None:
    ran.append("tick")


@pytest.mark.parametrize(
    ("jobs", "chosen"),
    [
        (None, {"report.daily", "report.weekly", "tick"}),
        ((), set()),
        ("report.*", {"report.daily", "report.weekly"}),
        (["*.daily", "tick"], {"report.daily", "tick"}),
    ],
    ids=["all", "none", "pattern", "patterns"],
)
async def test_only_the_chosen_jobs_run(jobs: Any, chosen: set[str]) -> None:
    ran.clear()
    async with cluster(app=__name__, jobs=jobs, now=BEGIN) as sc:
        await sc.advance("PT20M")
        async with Session(sc.dsn, application="test") as session:
            known = {job.name for job in await find_jobs(session)}

    assert (known, set(ran)) == (chosen, chosen)


async def test_a_run_costs_three_statements_and_two_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: Counter[str] = Counter()
    moves: list[datetime] = []
    rows = Session.rows

    async def counted(session: Session, statement_name: str, /, **values: object) -> list[Any]:
        sent[statement_name] += 1
        return await rows(session, statement_name, **values)

    def counted_task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        sent["task"] += 1
        return asyncio.Task(work, loop=loop, **more)

    async def counted_move(session: Session, to: datetime) -> None:
        moves.append(to)
        await move(session, to)

    async with cluster(app=__name__, jobs="tick", now=BEGIN) as sc:
        monkeypatch.setattr(Session, "rows", counted)
        monkeypatch.setattr(stepping, "move", counted_move)
        asyncio.get_running_loop().set_task_factory(counted_task)
        await sc.advance("PT10M")
        asyncio.get_running_loop().set_task_factory(None)
        monkeypatch.undo()
        log = await sc.log()

    # The gateway deletes old rows at its start, which may be later, and looks for operations.
    for own in ("forget_sessions", "forget_operations", "find_due_operation"):
        del sent[own]
    runs = [it.intent for it in log].count("DELIVERED")
    assert runs >= 30
    tasks = sent.pop("task")
    assert sent == {"begin_only_start": runs, "end_runs": runs, "next_due": runs + 1}
    # On a slow machine a loop of the cluster may also run.
    assert 2 * runs <= tasks < 2.5 * runs
    assert moves == [BEGIN + timedelta(minutes=10)]


async def test_no_statement_of_a_run_is_planned_at_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: dict[str, Session] = {}
    rows = Session.rows

    async def noted(session: Session, statement_name: str, /, **values: object) -> list[Any]:
        sessions[statement_name] = session
        return await rows(session, statement_name, **values)

    async with cluster(app=__name__, jobs="tick", now=BEGIN) as sc:
        monkeypatch.setattr(Session, "rows", noted)
        await sc.advance("PT10M")
        monkeypatch.undo()
        custom = {}
        for name in ("next_due", "begin_only_start", "end_runs"):
            async with sessions[name].connection() as connection:
                custom[name] = await connection.fetchval(CUSTOM_PLANS)

    assert custom == {"next_due": 0, "begin_only_start": 0, "end_runs": 0}


async def test_a_name_without_a_job_is_refused() -> None:
    with pytest.raises(ValueError, match=r"jobs='tock' is no job of the app; its jobs are: report.daily, .*, tick"):
        async with cluster(app=__name__, jobs=["tick", "tock"], now=BEGIN):
            pass


@pytest.mark.parametrize("jobs", [[report], report], ids=["in a list", "alone"])
async def test_a_function_instead_of_a_jobs_name_is_refused(jobs: Any) -> None:
    with pytest.raises(TypeError, match=r"^jobs=.* is refused: it must be a job's name or a pattern of names$"):
        async with cluster(app=__name__, jobs=jobs, now=BEGIN):
            pass


@pytest.mark.parametrize("app", [["orders"], sys], ids=["a list", "a module"])
async def test_an_app_that_is_no_text_is_refused(app: Any) -> None:
    with pytest.raises(TypeError, match=r"^app=.* is refused: it must be a text, such as 'orders' or "):
        async with cluster(app=app, now=BEGIN):
            pass


def test_a_long_advance_reports_the_reached_moment() -> None:
    seconds = iter([0.0, 1.0, 6.0, 7.0, 17.0])
    progress = AdvanceProgress(BEGIN, BEGIN + timedelta(days=1), clock=lambda: next(seconds))

    with capture_logs() as logs:
        for hours in (1, 6, 7, 12):
            progress.tell(BEGIN + timedelta(hours=hours))

    assert [(log["percent"], log["moments"], log["took_s"]) for log in logs] == [(25, 2, 6.0), (50, 4, 17.0)]
