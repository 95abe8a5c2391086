"""Draw the process instances of a run, and the actions of clients on these instances, from the run's seed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from chaos.behaviours import RAISE, RETURN, SLOW
from chaos.process_models import PROCESSES

TENANTS = ("ada", "bob")
DUE_MEAN_S = 1.5
DUE_MAX_S = 6.0
# If a client completes a task this shortly before or after the timer's due date, either of both may come first.
CLOSE_S = 0.15
LAST_START_S = 2.0  # The time from the last start to the end of the load.
STOPPED_SHARE, RACED_SHARE, NEVER_SHARE, AGAIN_SHARE = 0.1, 0.4, 0.2, 0.15
# The actions of the instances' service tasks. Few actions are slow, because a slow action occupies one of its handler's
# calls.
BEHAVIOURS = {RETURN: 16.0, RAISE: 2.0, SLOW: 0.5}


@dataclass(frozen=True, slots=True)
class PlannedInstance:
    """The start of an instance, and the later actions of its client.

    All times except `at_s` count from the answer to the start. `due_s` is the duration of the instance's timer. The
    task is completed, or the message published, after `drive_s`; if `drive_s` is None, the task stays open. The start
    is repeated after `again_s`, and the instance is cancelled after `stop_s`.
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
        """Return the idempotency key of the start, which is also the correlation key of the message.

        All tenants use the same keys.
        """
        return f"order {self.number}"


def draw_instances(chance: random.Random, *, length_s: float, instances_per_s: float) -> list[PlannedInstance]:
    """Draw the instances in the order of their starts."""
    instances: list[PlannedInstance] = []
    numbers: Counter[str] = Counter()
    at_s = 0.0
    while instances_per_s and (at_s := at_s + chance.expovariate(instances_per_s)) < length_s - LAST_START_S:
        tenant_id = chance.choice(TENANTS)
        numbers[tenant_id] += 1
        instances.append(_instance(chance, at_s, tenant_id, number=numbers[tenant_id]))
    return instances


def _instance(chance: random.Random, at_s: float, tenant_id: str, *, number: int) -> PlannedInstance:
    process = chance.choice(list(PROCESSES.values()))
    due_s = round(min(0.2 + chance.expovariate(1 / DUE_MEAN_S), DUE_MAX_S), 3)
    drive_s: float | None = chance.uniform(0.0, 2.0)
    if process.boundary and chance.random() < NEVER_SHARE:
        drive_s = None
    elif chance.random() < RACED_SHARE:
        drive_s = max(0.0, due_s + chance.uniform(-CLOSE_S, CLOSE_S))
    (act,) = chance.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))
    return PlannedInstance(
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
