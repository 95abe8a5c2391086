"""Test that each run of a job ends with a storable outcome, and that its reports are readable during the run."""

# ruff: noqa: T201 - printed text of a run is kept

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock import (
    Canceled,
    Completed,
    Discard,
    Discarded,
    Failed,
    InvalidHandler,
    Job,
    JobCall,
    RetryIn,
    RetryLater,
    Run,
    RunCanceled,
    RunOrder,
)
from shardclock.captured import LINE_CHARS_MAX, LINES_MAX, LOG_CHARS_MAX, Lines, captured
from shardclock.testing import run_of

Declare = Callable[..., Job]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
BOUND_S = 10.0


class Settings(BaseModel):
    region: str


def call_of(job: Job, config: str | None = None) -> JobCall:
    """Prepare a run of a job."""
    return JobCall(job, RunOrder(job.name, job.reference, "7.1", 2, NOON, config))


def in_a_thread(call: JobCall) -> tuple[threading.Thread, list[Any]]:
    """Make a run in a thread; the thread appends the run's outcome to the returned list."""
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(call.run()), daemon=True)
    thread.start()
    return thread, ended


def test_a_function_gets_its_run_and_its_result_is_recorded(declare_job: Declare) -> None:
    def plain(run: Run[Settings]) -> dict[str, Any]:
        return {"job": run.job, "id": run.run_id, "attempt": run.attempt, "region": run.config.region}

    async def async_one(run: Run) -> Any:
        await asyncio.sleep(0)
        return run.config

    outcome = call_of(declare_job(plain, config={"region": "eu"}), '{"region": "us"}').run()

    assert outcome == Completed({"job": "plain", "id": "7.1", "attempt": 2, "region": "us"})
    assert call_of(declare_job(async_one), "[1, 2]").run() == Completed([1, 2])
    assert call_of(declare_job(async_one)).run() == Completed()


def test_a_config_that_does_not_fit_fails_without_a_call(declare_job: Declare) -> None:
    def plain(run: Run[Settings]) -> None:
        raise AssertionError("it is not called")

    outcome = call_of(declare_job(plain, config={"region": "eu"}), '{"secret": "hunter2"}').run()

    assert outcome == Failed("the config does not fit Settings: region: Field required", "payload")


class Unpicklable(Exception):
    """An exception that can't be sent to another process."""

    def __init__(self) -> None:
        super().__init__("no")
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Discard("nothing to do"), Discarded("nothing to do")),
        (RetryIn("PT5M", "the source is down"), RetryLater(300.0, "the source is down")),
    ],
)
def test_a_job_function_may_raise_discard_or_retry_in(declare_job: Declare, error: Exception, outcome: Any) -> None:
    def plain(run: Run) -> None:
        raise error

    assert call_of(declare_job(plain)).run() == outcome


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), Unpicklable(), RunCanceled()])
def test_any_exception_of_a_job_function_is_its_runs_failure(declare_job: Declare, error: BaseException) -> None:
    def plain(run: Run) -> None:
        raise error

    outcome = call_of(declare_job(plain)).run()

    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith(type(error).__name__)
    assert "in plain" in outcome.traceback


def test_a_runs_result_that_can_not_be_recorded_is_dropped_with_a_note(declare_job: Declare) -> None:
    def huge(run: Run) -> str:
        return "x" * 100_000

    def forgotten(run: Run) -> Any:
        async def later() -> None: ...

        return later()

    outcome = call_of(declare_job(huge)).run()
    assert isinstance(outcome, Completed)
    assert outcome.result is None
    assert "more than 16,384" in (outcome.note or "")
    assert "that is not awaited" in getattr(call_of(declare_job(forgotten)).run(), "reason", "")


def test_progress_and_lines_can_be_read_during_the_run(declare_job: Declare) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def plain(run: Run) -> None:
        print("begins")
        run.log("by hand")
        logging.getLogger("mine").warning("by logging")
        print("to stderr", file=sys.stderr)
        run.progress(0.25, "epoch\n1")
        reached.set()
        assert go_on.wait(BOUND_S)
        print("no newline", end="")

    call = call_of(declare_job(plain))
    assert call.poll().report_count == 0
    thread, ended = in_a_thread(call)
    assert reached.wait(BOUND_S)
    seen = call.poll()
    go_on.set()
    thread.join(BOUND_S)

    assert (seen.progress, seen.message, seen.report_count) == (0.25, "epoch 1", 1)
    assert seen.log.splitlines() == ["begins", "by hand", "WARNING mine: by logging", "to stderr"]
    assert call.poll().log.splitlines()[-1] == "no newline"
    assert ended == [Completed()]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), True, "half"])
def test_an_invalid_progress_is_refused(declare_job: Declare, fraction: Any) -> None:
    def plain(run: Run) -> None:
        run.progress(fraction)

    outcome = call_of(declare_job(plain)).run()

    assert isinstance(outcome, Failed)
    assert "must be a number from 0 to 1" in outcome.reason


def test_an_async_run_is_cancelled_where_it_waits(declare_job: Declare) -> None:
    reached = threading.Event()

    async def waits(run: Run) -> None:
        reached.set()
        await asyncio.sleep(60)

    call = call_of(declare_job(waits))
    thread, ended = in_a_thread(call)
    assert reached.wait(BOUND_S)
    call.cancel()
    thread.join(BOUND_S)

    assert ended == [Canceled("it ended on request")]


def test_a_plain_run_ends_at_its_next_progress_report_or_checks_for_a_cancel(declare_job: Declare) -> None:
    reached, told = threading.Event(), threading.Event()

    def tells(run: Run) -> None:
        reached.set()
        assert told.wait(BOUND_S)
        try:
            run.progress(0.5)
        except Exception as error:  # A function's own error handling must not catch the cancellation.
            raise AssertionError from error

    def looks(run: Run) -> str:
        return "looked" if run.canceled else "did not look"

    call = call_of(declare_job(tells))
    thread, ended = in_a_thread(call)
    assert reached.wait(BOUND_S)
    call.cancel()
    told.set()
    thread.join(BOUND_S)
    assert ended == [Canceled("it ended on request")]

    call = call_of(declare_job(looks))
    call.cancel()
    assert call.run() == Completed("looked"), "what a run returns counts, though it was told to end"


def test_an_async_run_that_is_cancelled_before_it_begins_does_not_begin(declare_job: Declare) -> None:
    async def never(run: Run) -> None:
        raise AssertionError("it is not called")

    call = call_of(declare_job(never))
    call.cancel()

    assert call.run() == Canceled("it ended on request")


async def test_the_helper_run_of_also_works_within_an_event_loop(declare_job: Declare) -> None:
    async def rows(run: Run[Settings]) -> str:
        return f"{run.config.region} {run.attempt}"

    job = declare_job(rows, config={"region": "eu"})

    assert run_of(job) == Completed("eu 1")
    assert run_of(rows, Settings(region="us"), attempt=2) == Completed("us 2")
    with pytest.raises(InvalidHandler, match=r"is no job; decorate it with @shardclock\.job"):
        run_of(call_of)


def test_the_last_lines_of_endless_output_are_kept() -> None:
    lines = Lines()
    with captured(lines):
        for number in range(10_000):
            print(number, "x" * 200)
        print("y" * 1_000_000, end="")
        print("\0 a NUL and half a pair \ud800")

    kept = lines.text.splitlines()
    assert len(kept) <= LINES_MAX
    assert max(map(len, kept)) <= LINE_CHARS_MAX
    assert len(lines.text) <= LOG_CHARS_MAX
    assert lines.count > 10_000
    assert "\0" not in lines.text
    lines.text.encode()
    assert kept[-1].endswith("a NUL and half a pair ?")
