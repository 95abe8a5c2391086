"""The CPUs and the memory of this machine for processes of the user's code, without Ray."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil

from shardclock import JobPolicy, Policy
from shardclock_server.jobs.spec import JobSpec
from shardclock_server.workers.handler import HandlerSpec


@dataclass(frozen=True, slots=True)
class Machine:
    """The processors that this process may use, and the memory."""

    cpus: int
    memory_mib: int

    @classmethod
    def here(cls) -> "Machine":
        """Ask the system."""
        # macOS has no affinity.
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(cpus, psutil.virtual_memory().total // 2**20)

    def lacks(self, handlers: Sequence[HandlerSpec], jobs: Sequence[JobSpec]) -> str | None:
        """Say in a sentence which handler or job asks for more than this machine has; None if none does."""
        for name, policy in _policies(handlers, jobs):
            if asked := self._lacks(policy):
                return (
                    f"{name} asks for {asked}; run `shardclock up` without --local: its Ray starts the process on a"
                    " node that has it; or ask for less"
                )
        return None

    def _lacks(self, policy: Policy | JobPolicy) -> str | None:
        if gpus := getattr(policy, "num_gpus", None):
            return f"{gpus:g} GPUs, which are given out by Ray alone"
        if (policy.num_cpus or 0) > self.cpus:
            return f"{policy.num_cpus:g} CPUs, and this machine has {self.cpus}"
        if (policy.memory_mib or 0) > self.memory_mib:
            return f"{policy.memory_mib} MiB of memory, and this machine has {self.memory_mib}"
        return None


def _policies(handlers: Sequence[HandlerSpec], jobs: Sequence[JobSpec]) -> Iterator[tuple[str, Policy | JobPolicy]]:
    yield from ((f"handler {it.target} ({it.reference})", it.policy) for it in handlers)
    yield from ((f"job {it.name} ({it.reference})", it.policy) for it in jobs)
