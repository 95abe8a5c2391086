"""The process of a run, as its worker sees it: what it is asked for, and what it is told."""

from dataclasses import dataclass
from typing import Any, Protocol

from shardclock import CallOutcome, JobPolicy, RunOrder, Seen
from workers.process import LEAST_SHARE, answer_of
from workers.runs.actor import RunActor

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

    def __str__(self) -> str:
        asked = {"CPUs": self.num_cpus, "GPUs": self.num_gpus, "MiB of memory": self.memory_mib}
        return " and ".join(f"{amount:g} {unit}" for unit, amount in asked.items() if amount is not None)

    @property
    def are_special(self) -> bool:
        """Say whether it reserves anything, which an idle process would keep from others."""
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


class RayRunProcess:
    """A run's process on this node, or wherever Ray has the resources that its job asks for.

    If there are nodes for workers alone, which offer `resource`, it runs on one of those.
    """

    def __init__(self, needs: Needs, *, modules: str, directory: str, resource: str | None = None) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

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
        await answer_of(self._actor.ready.remote(), whose="run")

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run; return how it ended, and what it said last.

        errors:  ProcessDied  the process ended before the run did
        """
        outcome, seen = await answer_of(self._actor.run.remote(order, lives_s), whose="run")
        return outcome, seen

    async def look(self, *, lives_s: float) -> Seen:
        """Say what the run has said so far, and let it live for `lives_s` more.

        errors:  ProcessDied  the process is gone
        """
        seen: Seen = await answer_of(self._actor.look.remote(lives_s), whose="run")
        return seen

    async def cancel(self) -> None:
        """Tell the run to end.

        errors:  ProcessDied  the process is gone
        """
        await answer_of(self._actor.cancel.remote(), whose="run")

    def kill(self) -> None:
        """End the process at once."""
        import ray  # late, as in workers.process

        ray.kill(self._actor)
