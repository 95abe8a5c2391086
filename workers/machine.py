"""The CPUs and the memory of this machine, which limit the processes of the user's code without Ray."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import psutil

from shardclock import JobPolicy, Policy
from shardclock_server.jobs.spec import JobSpec
from shardclock_server.workers.app import App
from shardclock_server.workers.handler import HandlerSpec


@dataclass(frozen=True, slots=True)
class Machine:
    """The processors that this process may use, and the machine's memory."""

    cpus: int
    memory_mib: int

    @classmethod
    def here(cls) -> "Machine":
        """Read the number of processors and the memory from the system."""
        # macOS has no processor affinity.
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(cpus, psutil.virtual_memory().total // 2**20)

    def lacks(self, handlers: Sequence[HandlerSpec], jobs: Sequence[JobSpec]) -> str | None:
        """Return a message about the first handler or job that needs more than the machine has, or None."""
        for name, policy in _policies(handlers, jobs):
            if asked := self._lacks(policy):
                return (
                    f"{name} asks for {asked}; run `shardclock up` with Ray, and without --local: Ray starts the"
                    " process on a node with these resources; or ask for less"
                )
        return None

    def share_of(self, app: App) -> App:
        """Return the app without the handlers that need more than this machine has; `begin_runs` checks the jobs.

        shape:   the result has all jobs, because a job's policy in the table of jobs may change later
        """
        return replace(app, handlers=tuple(it for it in app.handlers if not self._lacks(it.policy)))

    def to_json(self) -> str:
        """Convert the machine to JSON for `begin_runs`."""
        return json.dumps(asdict(self))

    def _lacks(self, policy: Policy | JobPolicy) -> str | None:
        if gpus := getattr(policy, "num_gpus", None):
            return f"{gpus:g} GPUs, which only Ray assigns"
        if (policy.num_cpus or 0) > self.cpus:
            return f"{policy.num_cpus:g} CPUs, and this machine has {self.cpus}"
        if (policy.memory_mib or 0) > self.memory_mib:
            return f"{policy.memory_mib} MiB of memory, and this machine has {self.memory_mib}"
        return None


def _policies(handlers: Sequence[HandlerSpec], jobs: Sequence[JobSpec]) -> Iterator[tuple[str, Policy | JobPolicy]]:
    yield from ((f"handler {it.target} ({it.reference})", it.policy) for it in handlers)
    yield from ((f"job {it.name} ({it.reference})", it.policy) for it in jobs)
