"""The limits of a job's run: its duration, its retries, and the needs of its process."""

from dataclasses import dataclass

from shardclock.refusal import InvalidHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    """The limits that a worker enforces for a job's runs; None: the job sets no limit.

    units:   `max_runtime_s` limits one run, without the start of its process; a cancelled run must end within
             `grace_s`. The pause before attempt n + 1 is random, up to `retry_period_s` times 2 to the power of n - 1
    errors:  InvalidHandler  two of the numbers contradict each other
    """

    max_runtime_s: float
    grace_s: float
    max_retries: int
    retry_period_s: float
    retry_max_s: float
    num_cpus: float | None
    num_gpus: float | None
    memory_mib: int | None

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other."""
        if self.retry_period_s > self.retry_max_s:
            raise InvalidHandler(
                f"retry_period ({self.retry_period_s:g} s) is longer than retry_max ({self.retry_max_s:g} s), which"
                " bounds the pause before an attempt; lower retry_period or raise retry_max"
            )
