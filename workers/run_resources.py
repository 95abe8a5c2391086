"""The priority and the resources of a run's process."""

from collections.abc import Mapping
from dataclasses import dataclass

from shardclock import JobPolicy


@dataclass(frozen=True, slots=True)
class RunResources:
    """The priority and the resources of a run's process.

    Runs with equal needs can use the same process one after another, unless they reserve resources.
    """

    priority: int = 2
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_mib: int | None = None

    @classmethod
    def of(cls, priority: int, policy: JobPolicy) -> "RunResources":
        """Read the priority and the resources from a job's policy."""
        return cls(priority, policy.num_cpus, policy.num_gpus, policy.memory_mib)

    def __str__(self) -> str:
        asked = {"CPUs": self.num_cpus, "GPUs": self.num_gpus, "MiB of memory": self.memory_mib}
        return " and ".join(f"{amount:g} {unit}" for unit, amount in asked.items() if amount is not None)

    def fit(self, resources: Mapping[str, float]) -> bool:
        """Return whether a node has the resources that the run needs; the keys of `resources` are Ray's names."""
        memory = self.memory_mib and self.memory_mib * 2**20
        asked = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": memory}
        return all(resources.get(name, 0.0) >= amount for name, amount in asked.items() if amount is not None)

    @property
    def reserves_any(self) -> bool:
        """Return whether the process reserves resources; then it must not stay idle."""
        return (self.num_cpus, self.num_gpus, self.memory_mib) != (None, None, None)
