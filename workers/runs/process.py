"""The process in which a run is made: a Ray actor that imports the user's code. It decides nothing."""

import asyncio
import importlib
import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any, Protocol

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shardclock import CallOutcome, Failed, JobCall, JobPolicy, RunOrder, Seen, find_jobs
from workers.niceness import be_nice
from workers.process import LEAST_SHARE, ProcessDied

CALLS_MAX = 4  # at the same time in one process: the run, a look at it, and the word to end


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run's process is asked for; runs with the same needs can have the same process, one after the other."""

    priority: int = 2
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_mib: int | None = None

    @classmethod
    def of(cls, priority: int, policy: JobPolicy) -> "Needs":
        """Read what a job asks for."""
        return cls(priority, policy.num_cpus, policy.num_gpus, policy.memory_mib)

    @property
    def are_special(self) -> bool:
        """Say whether it reserves anything, which a process that waits would keep from others."""
        return (self.num_cpus, self.num_gpus, self.memory_mib) != (None, None, None)


class RunProcess(Protocol):
    """Where a run is made."""

    async def ready(self) -> None:
        """Wait until the user's code is imported.

        errors:  ProcessDied  it can't be imported
        """

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run; return how it ended, and what it said last.

        The process ends itself, if nobody has looked at the run for `lives_s`.

        errors:  ProcessDied  the process ended before the run did
        """

    async def look(self, *, lives_s: float) -> Seen:
        """Say what the run has said so far, and let it live for `lives_s` more.

        errors:  ProcessDied  the process is gone
        """

    async def cancel(self) -> None:
        """Tell the run to end.

        errors:  ProcessDied  the process is gone
        """

    def kill(self) -> None:
        """End the process at once."""


class RunActor:
    """Import an app and make one run of one of its jobs at a time."""

    def __init__(self, modules: str, directory: str, priority: int) -> None:
        if directory not in sys.path:
            sys.path.append(directory)  # at the end: a user's sql.py must not replace a package of ours
        importlib.invalidate_caches()
        self._jobs = {job.reference: job for job in find_jobs(modules.split(",")).values()}
        self._call: JobCall | None = None
        be_nice(priority)

    async def ready(self) -> None:
        """Answer once the user's code is imported."""

    async def run(self, order: RunOrder, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run, in a thread of its own: whatever it does, a look at it is answered."""
        job = self._jobs.get(order.function)
        if job is None:
            return Failed(f"the app of this process has no job {order.function}"), Seen()
        call = self._call = JobCall(job, order)
        live_for(lives_s)
        try:
            outcome = await _in_a_thread(call)
        finally:
            self._call = None
            live_for(None)
        return outcome, call.look()

    async def look(self, lives_s: float) -> Seen:
        """Say what the run has said so far, and let it live on."""
        if self._call is None:
            return Seen()
        live_for(lives_s)
        return self._call.look()

    async def cancel(self) -> None:
        """Tell the run to end."""
        if self._call is not None:
            self._call.cancel()


class RayRunProcess:
    """A run's process on this node, or wherever Ray has the resources that its job asks for.

    If there are nodes for workers alone, which offer `resource`, it runs on one of those.
    """

    def __init__(self, needs: Needs, *, modules: str, directory: str, resource: str | None = None) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._actor: Any = (
            ray.remote(RunActor)
            .options(
                num_cpus=needs.num_cpus or 0,
                num_gpus=needs.num_gpus or 0,
                memory=needs.memory_mib and needs.memory_mib * 2**20,
                resources={resource: LEAST_SHARE} if resource else None,
                max_concurrency=CALLS_MAX,
                scheduling_strategy="DEFAULT" if needs.are_special else here,
            )
            .remote(modules, directory, needs.priority)
        )

    async def ready(self) -> None:
        """Wait until the user's code is imported.

        errors:  ProcessDied  it can't be imported
        """
        await _answer(self._actor.ready.remote())

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run; return how it ended, and what it said last.

        errors:  ProcessDied  the process ended before the run did
        """
        outcome, seen = await _answer(self._actor.run.remote(order, lives_s))
        return outcome, seen

    async def look(self, *, lives_s: float) -> Seen:
        """Say what the run has said so far, and let it live for `lives_s` more.

        errors:  ProcessDied  the process is gone
        """
        seen: Seen = await _answer(self._actor.look.remote(lives_s))
        return seen

    async def cancel(self) -> None:
        """Tell the run to end.

        errors:  ProcessDied  the process is gone
        """
        await _answer(self._actor.cancel.remote())

    def kill(self) -> None:
        """End the process at once."""
        ray.kill(self._actor)


def live_for(lives_s: float | None) -> None:
    """Let Postgres's next holder of the run find this process gone: the kernel ends it then. None: it lives on.

    A signal of the kernel, whose default is to end the process: a thread of ours would wait for Python's lock, which
    the user's code may keep.
    """
    signal.setitimer(signal.ITIMER_REAL, 0 if lives_s is None else max(lives_s, 0.001))


async def _in_a_thread(call: JobCall) -> CallOutcome:
    # Not one of the loop's pool: a plain function that never ends would keep the pool's place, and the loop's end.
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[CallOutcome] = loop.create_future()

    def make() -> None:
        outcome = call.run()
        loop.call_soon_threadsafe(ended.set_result, outcome)

    threading.Thread(target=make, name="run", daemon=True).start()
    return await ended


async def _answer(reference: Any) -> Any:
    try:
        return await reference
    except ray.exceptions.RayError as error:  # not only RayActorError: the memory monitor's is none
        text = " ".join(str(error).split())
        raise ProcessDied(f"the run's process ended: {text}"[:300]) from error
