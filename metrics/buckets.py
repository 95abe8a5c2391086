"""Count durations in the buckets of a histogram."""

from bisect import bisect_left
from dataclasses import dataclass, field

from shardclock_server.metrics.report import Histogram, Labels


@dataclass(slots=True)
class Buckets:
    """Count durations in buckets since the source's start.

    units:   edges and durations are in seconds
    """

    edges_s: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum_s: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.edges_s) + 1)

    def add(self, duration_s: float, count: int = 1) -> None:
        """Count `count` events with the same duration."""
        self.counts[bisect_left(self.edges_s, duration_s)] += count
        self.sum_s += duration_s * count

    def histogram(self, name: str, labels: Labels) -> Histogram:
        """Return the buckets as a part of a report."""
        return Histogram(name, labels, tuple(self.counts), self.sum_s)
