"""What the process of a run is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass

from shardclock import JobPolicy


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

    def fit(self, resources: Mapping[str, float]) -> bool:
        """Say whether a node with these resources, by Ray's names for them, has all that is asked for."""
        memory = self.memory_mib and self.memory_mib * 2**20
        asked = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": memory}
        return all(resources.get(name, 0.0) >= amount for name, amount in asked.items() if amount is not None)

    @property
    def are_special(self) -> bool:
        """Say whether it reserves anything, which an idle process would keep from others."""
        return (self.num_cpus, self.num_gpus, self.memory_mib) != (None, None, None)
