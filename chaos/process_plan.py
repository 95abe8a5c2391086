"""Which instances of processes clients will start, and what they will do with each: drawn from the run's seed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from chaos.acts import RAISE, RETURN, SLOW
from chaos.models import PROCESSES

TENANTS = ("ada", "bob")
DUE_MEAN_S = 1.5
DUE_MAX_S = 6.0
# A completion that comes so close to the timer's due date that either may win.
CLOSE_S = 0.15
LAST_START_S = 2.0  # before the load's end
STOPPED_SHARE, RACED_SHARE, NEVER_SHARE, AGAIN_SHARE = 0.1, 0.4, 0.2, 0.15
# What their service tasks do; slow ones are few, for each holds a place of its handler's.
ACTS = {RETURN: 16.0, RAISE: 2.0, SLOW: 0.5}


@dataclass(frozen=True, slots=True)
class Begin:
    """Start an instance, and drive it; moments but `at_s` are counted from the answer to the start.

    `due_s` is the duration of its timer. Its task is completed, or its message published, after `drive_s` (None: its
    task never is); with `again_s` the start is sent once more, with `stop_s` the instance is cancelled.
    """

    at_s: float
    number: int
    tenant_id: str
    process_id: str
    act: str
    due_s: float
    drive_s: float | None
    again_s: float | None = None
    stop_s: float | None = None

    @property
    def key(self) -> str:
        """Name the start, and the correlation of its message: every tenant uses the same names."""
        return f"order {self.number}"


def draw_begins(chance: random.Random, *, length_s: float, instances_per_s: float) -> list[Begin]:
    """Draw them in the order in which they are started."""
    begins: list[Begin] = []
    numbers: Counter[str] = Counter()
    at_s = 0.0
    while instances_per_s and (at_s := at_s + chance.expovariate(instances_per_s)) < length_s - LAST_START_S:
        tenant_id = chance.choice(TENANTS)
        numbers[tenant_id] += 1
        begins.append(_begin(chance, at_s, tenant_id, number=numbers[tenant_id]))
    return begins


def _begin(chance: random.Random, at_s: float, tenant_id: str, *, number: int) -> Begin:
    process = chance.choice(list(PROCESSES.values()))
    due_s = round(min(0.2 + chance.expovariate(1 / DUE_MEAN_S), DUE_MAX_S), 3)
    drive_s: float | None = chance.uniform(0.0, 2.0)
    if process.boundary and chance.random() < NEVER_SHARE:
        drive_s = None
    elif chance.random() < RACED_SHARE:
        drive_s = max(0.0, due_s + chance.uniform(-CLOSE_S, CLOSE_S))
    (act,) = chance.choices(list(ACTS), list(ACTS.values()))
    return Begin(
        at_s,
        number,
        tenant_id,
        process.process_id,
        act.name,
        due_s,
        drive_s,
        again_s=chance.uniform(0.0, 4.0) if chance.random() < AGAIN_SHARE else None,
        stop_s=chance.uniform(0.0, due_s + 1.0) if chance.random() < STOPPED_SHARE else None,
    )
