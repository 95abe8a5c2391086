"""Run a job's function in this process, look at it from other threads meanwhile, and say how it ended.

Nothing that the function raises comes out of here. What no code in this process can end, such as a function that never
looks whether it is to end, must be ended from outside, by ending the process.
"""

import asyncio
import inspect
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import ValidationError

from shardclock.captured import captured
from shardclock.jobs import Job
from shardclock.outcome import Completed, Discarded, Failed, Outcome, RetryLater, outcome_of
from shardclock.payload import DECODER
from shardclock.reason import misfit, one_line, reason_of
from shardclock.result import completed
from shardclock.run import Run, RunCanceled, Told


@dataclass(frozen=True, slots=True)
class RunOrder:
    """Hold what a process is told of the run that it is to make.

    shape:   `function` is package.module:function, which several jobs may run; `config` is JSON text, or None
    """

    job: str
    function: str
    run_id: str
    attempt: int
    scheduled_at: datetime
    config: str | None


@dataclass(frozen=True, slots=True)
class Canceled:
    """The function ended because it was told to."""

    reason: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold what a run has said so far; `log` is its last lines, `said` and `lines` count up."""

    progress: float | None = None
    message: str | None = None
    said: int = 0
    lines: int = 0
    log: str = ""


CallOutcome: TypeAlias = Completed | Discarded | RetryLater | Failed | Canceled


class JobCall:
    """Make one run of a job: `run` in a thread of its own, `look` and `cancel` from others."""

    def __init__(self, job: Job, order: RunOrder) -> None:
        self._job = job
        self._order = order
        self._told = Told()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self) -> CallOutcome:
        """Call the function, and say how it ended; takes as long as the function."""
        try:
            config = self._config()
        except ValidationError as error:
            return Failed(one_line(f"the config does not fit {error.title}: {misfit(error)}"), "payload")
        except BaseException as error:  # noqa: BLE001 - a model's validators are the user's code, as the function is
            return outcome_of(error)
        order = self._order
        run = Run(order.job, order.run_id, order.attempt, order.scheduled_at, config, self._told)
        with captured(self._told.lines):
            return self._call(run)

    def look(self) -> Seen:
        """Say what the run has said so far."""
        told = self._told
        return Seen(told.progress, told.message, told.said, told.lines.count, told.lines.text)

    def cancel(self) -> None:
        """Tell the function to end: an async one is cancelled, a plain one may look at `run.canceled`."""
        with self._lock:
            self._told.is_to_end.set()
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
        except BaseException as error:  # noqa: BLE001 - also SystemExit: it is this run's failure
            return self._judged(error)
        if inspect.iscoroutine(result):
            result.close()
            return Failed("TypeError: it returned a coroutine, which nobody awaits; declare it by async def")
        return completed(result)

    async def _await(self, run: Run[Any]) -> Any:
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._told.is_to_end.is_set():
                raise RunCanceled
        try:
            return await self._job.function(run)
        finally:
            with self._lock:
                self._task = None

    def _judged(self, error: BaseException) -> CallOutcome:
        if not self._told.is_to_end.is_set():
            judged: Outcome = outcome_of(error)
            return judged
        said = "" if isinstance(error, RunCanceled | asyncio.CancelledError) else f": {reason_of(error)}"
        return Canceled(one_line(f"it ended when it was told to{said}"))
