"""Run the jobs of an app in this process."""

import pickle
import signal
from collections.abc import Iterable

from shardclock import CallOutcome, Failed, Job, JobCall, ReportSnapshot, RunOrder, find_jobs
from shardclock.executor.importing import prepare_to_import
from shardclock.executor.threads import in_a_thread


class Runs:
    """Run the jobs of an app in this process, one run at a time."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = {job.reference: job for job in jobs}
        self._call: JobCall | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
        return self._call is not None

    async def run(self, order: RunOrder) -> tuple[CallOutcome, ReportSnapshot]:
        """Execute a run in a separate thread, so that the event loop answers `poll` during the run."""
        job = self._jobs.get(order.function)
        if job is None:
            return Failed(f"the app of this process has no job {order.function}"), ReportSnapshot()
        call = self._call = JobCall(job, order)
        try:
            outcome = await in_a_thread(call.run)
        finally:
            self._call = None
        return outcome, call.poll()

    def poll(self) -> ReportSnapshot:
        """Return the run's reports so far."""
        return ReportSnapshot() if self._call is None else self._call.poll()

    def cancel(self) -> None:
        """Cancel the run."""
        if self._call is not None:
            self._call.cancel()


class RunExecutor:
    """Import an app, and run its jobs, one run at a time."""

    def __init__(self, modules: str, directory: str, priority: int) -> None:
        prepare_to_import(directory, priority=priority)
        self._runs = Runs(find_jobs(modules.split(",")).values())

    async def answer(self, call: bytes) -> bytes:
        """Execute a run, read its reports, or cancel it: `call` has the name and the arguments of a method."""
        name, *given = pickle.loads(call)  # noqa: S301 - from our own worker
        return pickle.dumps(await getattr(self, name)(*given), pickle.HIGHEST_PROTOCOL)

    async def run(self, order: RunOrder, lives_s: float) -> tuple[CallOutcome, ReportSnapshot]:
        """Execute a run; the kernel kills this process after `lives_s`, unless `poll` moves this deadline."""
        live_for(lives_s)
        try:
            return await self._runs.run(order)
        finally:
            live_for(None)

    async def poll(self, lives_s: float) -> ReportSnapshot:
        """Return the run's reports so far, and move the deadline of the process."""
        if self._runs.is_running:
            live_for(lives_s)
        return self._runs.poll()

    async def cancel(self) -> None:
        """Cancel the run."""
        self._runs.cancel()


def live_for(lives_s: float | None) -> None:
    """Let the kernel kill this process at the deadline, before another worker may claim the run; None: no limit.

    A thread can't end the process in time, because user code may hold Python's global lock.
    """
    signal.setitimer(signal.ITIMER_REAL, 0 if lives_s is None else max(lives_s, 0.001))
