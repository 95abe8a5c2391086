"""Run a job's function in this process, watch the run from other threads, and return its outcome.

An exception of the function never leaves this module. A function that never checks for a cancellation ends only with
its process.
"""

import asyncio
import inspect
import math
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import ValidationError

from shardclock.captured import captured
from shardclock.ending import EndingIn
from shardclock.jobs import Job
from shardclock.outcome import Completed, Discarded, Failed, Outcome, RetryLater, outcome_of
from shardclock.payload import DECODER
from shardclock.reason import misfit, one_line, reason_of
from shardclock.result import completed
from shardclock.run import Run, RunCanceled, RunReports


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The parameters of one run.

    shape:   `function` is package.module:function; several jobs may have the same function. `config` is JSON text, or
             None
    """

    job: str
    function: str
    run_id: str
    attempt: int
    scheduled_at: datetime
    config: str | None
    max_runtime_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Canceled:
    """The function ended after a cancellation."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportSnapshot:
    """The reports of a run so far; `log` has the last lines; `report_count` and `lines` count all reports and lines."""

    progress: float | None = None
    message: str | None = None
    report_count: int = 0
    lines: int = 0
    log: str = ""


CallOutcome: TypeAlias = Completed | Discarded | RetryLater | Failed | Canceled


class JobCall:
    """One run of a job: `run` is called in a separate thread, `poll` and `cancel` from other threads."""

    def __init__(self, job: Job, order: RunOrder) -> None:
        self._job = job
        self._order = order
        self._reports = RunReports()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self) -> CallOutcome:
        """Call the function, and return the outcome of the run."""
        try:
            config = self._config()
        except ValidationError as error:
            return Failed(one_line(f"the config does not fit {error.title}: {misfit(error)}"), "payload")
        except BaseException as error:  # noqa: BLE001 - a model's validators are the user's code, like the function
            return outcome_of(error)
        order = self._order
        run = Run(order.job, order.run_id, order.attempt, order.scheduled_at, config, self._reports)
        with captured(self._reports.lines), EndingIn(order.max_runtime_s):
            return self._call(run)

    def poll(self) -> ReportSnapshot:
        """Return the reports of the run so far."""
        reports = self._reports
        return ReportSnapshot(
            reports.progress, reports.message, reports.report_count, reports.lines.count, reports.lines.text
        )

    def cancel(self) -> None:
        """Cancel the run: an async function gets a cancellation; a plain function should check `run.canceled`."""
        with self._lock:
            self._reports.cancel_requested.set()
            if self._task is not None and self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _config(self) -> Any:
        text, adapter = self._order.config, self._job.adapter
        if adapter is not None:
            return adapter.validate_json("null" if text is None else text)
        return None if text is None else DECODER.decode(text)

    def _call(self, run: Run[Any]) -> CallOutcome:
        try:
            result = asyncio.run(self._await(run)) if self._job.is_async else self._job.function(run)
        except BaseException as error:  # noqa: BLE001 - SystemExit, too, is a failure of this run
            return self._outcome_of_error(error)
        if inspect.iscoroutine(result):
            result.close()
            return Failed("TypeError: the function returned a coroutine that is not awaited; declare it with async def")
        return completed(result)

    async def _await(self, run: Run[Any]) -> Any:
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._reports.cancel_requested.is_set():
                raise RunCanceled
        try:
            return await self._job.function(run)
        finally:
            with self._lock:
                self._task = None

    def _outcome_of_error(self, error: BaseException) -> CallOutcome:
        if not self._reports.cancel_requested.is_set():
            judged: Outcome = outcome_of(error)
            return judged
        said = "" if isinstance(error, RunCanceled | asyncio.CancelledError) else f": {reason_of(error)}"
        return Canceled(one_line(f"it ended on request{said}"))
