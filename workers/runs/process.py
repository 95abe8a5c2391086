"""The process of a run, as its worker sees it: what it is asked for, and what it is told."""

import asyncio
import pickle
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Protocol

from shardclock import CallOutcome, RunOrder, Seen
from shardclock.executor.actors import RunActor
from shardclock_server.workers.local_process import LocalProcess
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.ray_process import RayProcess, start_actor
from shardclock_server.workers.user_process import NotCalled, ProcessDied, StartedProcess, UserProcess

CALLS_MAX = 3  # at the same time in one process: the run, a look at it, and the word to end


class RunProcess(Protocol):
    """Where a run is made."""

    def ready(self) -> Awaitable[None]:
        """Wait until the user's code is imported; of one that has made runs, find out whether it is there.

        errors:  ProcessDied  it can't be imported, or has ended
        """

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run; return how it ended, and what it said last.

        The process ends itself, if nobody has looked at the run for `lives_s`.

        errors:  NotCalled    the process ended before
                 ProcessDied  the process ended before the run did
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


class CalledRuns(UserProcess):
    """A process of runs."""

    def __init__(self, started: StartedProcess) -> None:
        super().__init__(started)
        self._watching: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until the user's code is imported; of one that has made runs, find out whether it is there.

        errors:  ProcessDied  it can't be imported, or has ended
        """
        await super().ready()
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="process of runs")

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run; return how it ended, and what it said last.

        errors:  NotCalled    the process ended before
                 ProcessDied  the process ended before the run did
        """
        outcome, seen = await self._ask("run", order, lives_s)
        return outcome, seen

    async def look(self, *, lives_s: float) -> Seen:
        """Say what the run has said so far, and let it live for `lives_s` more.

        errors:  ProcessDied  the process is gone
        """
        seen: Seen = await self._tell("look", lives_s)
        return seen

    async def cancel(self) -> None:
        """Tell the run to end.

        errors:  ProcessDied  the process is gone
        """
        await self._tell("cancel")

    async def _tell(self, *call: object) -> Any:
        try:
            return await self._ask(*call)
        except NotCalled as error:
            raise ProcessDied("the run's process has closed its socket", may_live=True) from error

    async def _ask(self, *call: object) -> Any:
        return pickle.loads(await self.ask(pickle.dumps(call, pickle.HIGHEST_PROTOCOL)))  # noqa: S301 - ours

    async def _watch(self) -> None:
        with suppress(ProcessDied):  # the call of the run hears of it
            await self.gone()


class RayRunProcess(CalledRuns):
    """A run's process on this node, or wherever Ray has the resources that its job asks for.

    If there are nodes for workers alone, which offer `resource`, it runs on one of those.
    """

    def __init__(self, needs: Needs, *, modules: str, directory: str, resource: str | None = None) -> None:
        actor = start_actor(
            RunActor,
            *(modules, directory, needs.priority),
            calls_max=CALLS_MAX,
            num_cpus=needs.num_cpus,
            num_gpus=needs.num_gpus,
            memory_mib=needs.memory_mib,
            resource=resource,
        )
        super().__init__(RayProcess(actor, whose="run"))


class LocalRunProcess(CalledRuns):
    """A run's process on this machine, a child of the worker."""

    def __init__(self, needs: Needs, *, modules: str, directory: str) -> None:
        order = ("runs", modules, directory, str(needs.priority))
        super().__init__(LocalProcess(*order, whose="run", num_cpus=needs.num_cpus))


def has_node(needs: Needs, *, resource: str | None = None) -> bool:
    """Say whether some node that offers the resource has what a run needs, even if others use it now."""
    import ray

    if not needs.are_special:
        return True
    nodes = (it["Resources"] for it in ray.nodes() if it["Alive"])  # type: ignore[no-untyped-call]
    return any(needs.fit(it) for it in nodes if resource is None or it.get(resource))
