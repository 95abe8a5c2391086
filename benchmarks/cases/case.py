"""Define a case: the work of each contender, and the figures."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.contenders.contender import Contender, Firing

Figures = Mapping[str, float]
QUICK = 50_000


class NotForIt(Exception):
    """A contender can't run or finish a case; the message has the reason.

    `figures` has the figures that were measured before the failure.
    """

    def __init__(self, message: str, figures: Figures | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


@dataclass(frozen=True)
class Figure:
    """A measured figure: its key, title, unit (with Grafana's name), and whether a greater value is better.

    The table marks the best contender only if the figure is `compared`; other figures depend too much on chance.
    """

    key: str
    title: str
    unit: str
    more_is_better: bool = False
    compared: bool = True


@dataclass(frozen=True)
class Part:
    """A table of a case, with a picture of its first figure; the file name of the picture ends with `key`."""

    title: str
    figures: Sequence[Figure]
    key: str = ""

    @classmethod
    def keyed(cls, key: str, title: str, figures: Sequence[Figure]) -> "Part":
        """Create a table for a case with several tables of the same figures; `key` is put before the key of each
        figure."""
        return cls(title, [replace(it, key=f"{key}_{it.key}") for it in figures], key)

    def fill(self, figures: Figures) -> dict[str, float]:
        """Add the prefix of this table to the keys of measured figures."""
        return {f"{self.key}_{name}": value for name, value in figures.items()}


@dataclass(frozen=True)
class Case:
    """One benchmark; `measure` gets a contender with an empty database, and the caller stops the contender.

    `contenders` creates new contenders for each run.
    """

    name: str
    title: str
    about: str
    parts: Sequence[Part]
    contenders: Callable[[], Sequence[Contender]]
    measure: Callable[[Contender], Awaitable[Figures]]


def lags_of(firings: Sequence[Firing]) -> dict[str, float]:
    """Compute the lags p50, p99, p999 and max in seconds, by nearest rank; empty if nothing fired."""
    lags = sorted(it.fired_s - it.due_s for it in firings)
    if not lags:
        return {}
    ranks = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {name: lags[max(0, math.ceil(len(lags) * q) - 1)] for name, q in ranks.items()}


def memory_of(contender: Contender) -> dict[str, float]:
    """Return the resident memory in bytes of the contender's largest process; {} if the contender has no process."""
    resident = [float(it.memory_info().rss) for it in contender.processes()]
    return {"rss": max(resident)} if resident else {}


def require_quick(contender: Contender) -> None:
    """Raise NotForIt if the contender would need many minutes for 100,000 timers."""
    if contender.drained < QUICK:
        raise NotForIt("too slow at this size: see `drain`")


PER_S = Figure("per_s", "timers a second", "cps", more_is_better=True)
LAGS = (
    Figure("p50", "lag p50", "s"),
    Figure("p99", "lag p99", "s"),
    Figure("p999", "lag p99.9", "s"),
    Figure("max", "lag max", "s"),
)
