"""The worker's interface to a run's process."""

import asyncio
import pickle
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Protocol

from shardclock import CallOutcome, ReportSnapshot, RunOrder
from shardclock.executor.actors import RunActor
from shardclock_server.workers.interpreter import Interpreter
from shardclock_server.workers.local_process import LocalProcess
from shardclock_server.workers.ray_child import ChildActor
from shardclock_server.workers.ray_process import RayProcess, start_actor
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.user_process import NotCalled, ProcessDied, StartedProcess, UserProcess

CALLS_MAX = 3  # the number of concurrent calls of one process: the run, a poll and a cancellation


class RunProcess(Protocol):
    """A process that executes runs."""

    def ready(self) -> Awaitable[None]:
        """Wait until the user's code is imported. If the code is already imported, wait until the process answers.

        errors:  ProcessDied  the import failed, or the process has ended
        """

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, ReportSnapshot]:
        """Execute a run; return its outcome and its last report.

        The process exits if it gets no poll for `lives_s`.

        errors:  NotCalled    the process had ended before the call.
                 ProcessDied  the process ended during the run.
        """

    async def poll(self, *, lives_s: float) -> ReportSnapshot:
        """Return the latest report of the run; the process may run without another poll for `lives_s`.

        errors:  ProcessDied  the process has ended
        """

    async def cancel(self) -> None:
        """Request the end of the run.

        errors:  ProcessDied  the process has ended
        """

    def kill(self) -> None:
        """Kill the process."""


class RunUserProcess(UserProcess):
    """A process of runs that is called over its socket or through Ray."""

    def __init__(self, started: StartedProcess) -> None:
        super().__init__(started)
        self._watching: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until the user's code is imported. If the code is already imported, wait until the process answers.

        errors:  ProcessDied  the import failed, or the process has ended
        """
        await super().ready()
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="process of runs")

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, ReportSnapshot]:
        """Execute a run; return its outcome and its last report.

        errors:  NotCalled    the process had ended before the call.
                 ProcessDied  the process ended during the run.
        """
        outcome, seen = await self._call("run", order, lives_s)
        return outcome, seen

    async def poll(self, *, lives_s: float) -> ReportSnapshot:
        """Return the latest report of the run; the process may run without another poll for `lives_s`.

        errors:  ProcessDied  the process has ended
        """
        seen: ReportSnapshot = await self._control("poll", lives_s)
        return seen

    async def cancel(self) -> None:
        """Request the end of the run.

        errors:  ProcessDied  the process has ended
        """
        await self._control("cancel")

    async def _control(self, *call: object) -> Any:
        try:
            return await self._call(*call)
        except NotCalled as error:
            raise ProcessDied("the run's process has closed its socket", may_live=True) from error

    async def _call(self, *call: object) -> Any:
        return pickle.loads(await self.request(pickle.dumps(call, pickle.HIGHEST_PROTOCOL)))  # noqa: S301 - ours

    async def _watch(self) -> None:
        with suppress(ProcessDied):  # the pending call of the run also fails with this error
            await self.gone()


class RayRunProcess(RunUserProcess):
    """A run's process on this node, or on a node with the resources that the job asks for.

    If `resource` is given, the node must offer this Ray resource, which marks the nodes for workers.
    """

    def __init__(
        self,
        needs: RunResources,
        *,
        modules: str,
        directory: str,
        resource: str | None = None,
        python: Interpreter | None = None,
    ) -> None:
        actor = start_actor(
            *(
                (RunActor, modules, directory, needs.priority)
                if python is None
                else (ChildActor, python, _order(needs, modules, directory), "run", needs.num_cpus)
            ),
            calls_max=CALLS_MAX,
            num_cpus=needs.num_cpus,
            num_gpus=needs.num_gpus,
            memory_mib=needs.memory_mib,
            resource=resource,
        )
        super().__init__(RayProcess(actor, owner="run"))


class LocalRunProcess(RunUserProcess):
    """A run's process as a child of the worker."""

    def __init__(self, needs: RunResources, *, modules: str, directory: str, python: Interpreter | None = None) -> None:
        order = _order(needs, modules, directory)
        super().__init__(LocalProcess(*order, owner="run", num_cpus=needs.num_cpus, python=python))


def _order(needs: RunResources, modules: str, directory: str) -> tuple[str, ...]:
    """Return the arguments of `shardclock.executor`, without the descriptor of the socket."""
    return ("runs", modules, directory, str(needs.priority))


def has_node(needs: RunResources, *, resource: str | None = None) -> bool:
    """Return whether a node that offers `resource` is large enough for a run, including resources that are in use."""
    import ray

    if not needs.reserves_any:
        return True
    nodes = (it["Resources"] for it in ray.nodes() if it["Alive"])  # type: ignore[no-untyped-call]
    return any(needs.fit(it) for it in nodes if resource is None or it.get(resource))
