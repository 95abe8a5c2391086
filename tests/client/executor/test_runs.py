"""Test that a run's process ends itself if its worker stops polling, and only then, whatever the user's code does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

BOUND_S = 30.0
APP = """
import asyncio, re, shardclock, time

@shardclock.job()
async def waits(run):
    await asyncio.sleep(60)

@shardclock.job()
def keeps_the_lock(run):
    re.match(r"(a+)+$", "a" * 40 + "b")  # in C, without giving Python's lock to anybody

@shardclock.job()
def swallows(run):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

@shardclock.job()
def short(run):
    print("a line")
    return run.attempt
"""
# Executes one run, as a worker does: polls `looks` times, with pauses of half a lifetime, and then stops.
DRIVER = """
import asyncio, dataclasses, json, sys
from datetime import datetime, timezone
from shardclock import RunOrder
from shardclock.executor.runs import RunExecutor

async def main(job, lives_s, looks, cancels):
    actor = RunExecutor("app_of_runs", sys.argv[1], 2)
    order = RunOrder(job, f"app_of_runs:{job}", "7.1", 2, datetime.now(timezone.utc), None)
    run = asyncio.create_task(actor.run(order, lives_s))
    for _ in range(looks):
        await asyncio.sleep(lives_s / 2)
        await actor.poll(lives_s)
    if cancels:
        await actor.cancel()
    outcome, seen = await run
    await asyncio.sleep(2 * lives_s)  # a process that waits for its next run lives on
    print(json.dumps([type(outcome).__name__, dataclasses.asdict(outcome), seen.log]))

asyncio.run(main(*json.loads(sys.argv[2])))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Write the app."""
    (tmp_path / "app_of_runs.py").write_text(APP)
    return tmp_path


def made(place: Path, job: str, lives_s: float, looks: int = 0, *, cancels: bool = False) -> tuple[int, Any]:
    """Execute a run in a separate process; return the process's exit code, and the outcome if it has one."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(place), json.dumps([job, lives_s, looks, cancels])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode <= 0, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else None


@pytest.mark.slow
@pytest.mark.parametrize("job", ["waits", "keeps_the_lock", "swallows"])
def test_a_run_without_polls_ends_when_its_time_is_over(place: Path, job: str) -> None:
    assert made(place, job, 0.5) == (-signal.SIGALRM, None)


@pytest.mark.slow
def test_each_poll_extends_a_run_and_a_cancel_ends_the_run(place: Path) -> None:
    code, (kind, outcome, _) = made(place, "waits", 1.0, looks=3, cancels=True)

    assert (code, kind) == (0, "Canceled")
    assert outcome["reason"] == "it ended on request"


@pytest.mark.slow
def test_a_process_continues_after_a_run_that_ends_before_its_timeout(place: Path) -> None:
    code, (kind, outcome, log) = made(place, "short", 0.5)

    assert (code, kind, outcome["result"], log) == (0, "Completed", 2, "a line")


@pytest.mark.slow
def test_a_run_of_a_job_that_the_app_lacks_fails(place: Path) -> None:
    code, (kind, outcome, _) = made(place, "other", 0.5)

    assert (code, kind, outcome["reason"]) == (0, "Failed", "the app of this process has no job app_of_runs:other")
