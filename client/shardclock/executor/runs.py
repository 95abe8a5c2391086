"""Make runs of an app's jobs in this process."""

import pickle
import signal
from collections.abc import Iterable

from shardclock import CallOutcome, Failed, Job, JobCall, RunOrder, Seen, find_jobs
from shardclock.executor.importing import prepare_to_import
from shardclock.executor.threads import in_a_thread


class Runs:
    """Make runs of an app's jobs in this process, one at a time."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = {job.reference: job for job in jobs}
        self._call: JobCall | None = None

    @property
    def is_running(self) -> bool:
        """Say whether a run is being made."""
        return self._call is not None

    async def run(self, order: RunOrder) -> tuple[CallOutcome, Seen]:
        """Make a run, in a thread of its own: the loop answers looks meanwhile."""
        job = self._jobs.get(order.function)
        if job is None:
            return Failed(f"the app of this process has no job {order.function}"), Seen()
        call = self._call = JobCall(job, order)
        try:
            outcome = await in_a_thread(call.run)
        finally:
            self._call = None
        return outcome, call.look()

    def look(self) -> Seen:
        """Return the run's reports so far."""
        return Seen() if self._call is None else self._call.look()

    def cancel(self) -> None:
        """Tell the run to end."""
        if self._call is not None:
            self._call.cancel()


class RunExecutor:
    """Import an app and make one run of one of its jobs at a time."""

    def __init__(self, modules: str, directory: str, priority: int) -> None:
        prepare_to_import(directory, priority=priority)
        self._runs = Runs(find_jobs(modules.split(",")).values())

    async def answer(self, call: bytes) -> bytes:
        """Make a run, look at it, or tell it to end: a call is a method's name with its arguments."""
        name, *given = pickle.loads(call)  # noqa: S301 - ours
        return pickle.dumps(await getattr(self, name)(*given), pickle.HIGHEST_PROTOCOL)

    async def run(self, order: RunOrder, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run."""
        live_for(lives_s)
        try:
            return await self._runs.run(order)
        finally:
            live_for(None)

    async def look(self, lives_s: float) -> Seen:
        """Return the run's reports so far, and let it live on."""
        if self._runs.is_running:
            live_for(lives_s)
        return self._runs.look()

    async def cancel(self) -> None:
        """Tell the run to end."""
        self._runs.cancel()


def live_for(lives_s: float | None) -> None:
    """Let Postgres's next holder of the run find this process gone: the kernel ends it then. None: it lives on.

    A signal of the kernel, whose default is to end the process: a thread of ours would wait for Python's lock, which
    the user's code may keep.
    """
    signal.setitimer(signal.ITIMER_REAL, 0 if lives_s is None else max(lives_s, 0.001))
