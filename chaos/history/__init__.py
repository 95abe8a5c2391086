"""Keep the recording of a run.

- `calls` has the calls of clients and handlers, with the answers.
- `changes` has the changes of rows, in the transactions that committed them.
- `faults` has the injected faults.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from chaos.history.calls import Call, HandlerCall
from chaos.history.changes import Commit
from chaos.history.faults import Fault

ALONE_S = 13.0  # The promised time of a takeover without a coordinator, only with leases and sweeps.


class Read(NamedTuple):
    """One log record that a reader received; the records are in the order of their receipt."""

    reader: str
    position: int


class Pending(NamedTuple):
    """A timer that was in the table at the end of the run."""

    timer_key: int
    due_date: datetime
    paused: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits for a verdict: the normal lag, the time of a recovery, and the minimum of work and faults.

    `alone_s` is the allowed lateness of a lost shard's timers while no coordinator leads. `flooded_s` is the allowed
    lateness of other tenants' timers during the flood of one tenant. If a run has fewer kills, freezes, cuts, firings,
    attempts or instances than the `_min` fields, its verdict is unknown.
    """

    normal_s: float = 1.0
    alone_s: float = ALONE_S
    flooded_s: float = 2.0
    back_within_s: float = 30.0
    claim_max: int = 4_200 + 840
    answer_s: float = 15.0
    kills_min: int = 0
    freezes_min: int = 0
    cuts_min: int = 0
    fires_min: int = 0
    attempts_min: int = 0
    instances_min: int = 0


@dataclass(slots=True)
class History:
    """The recording of a whole run.

    `commits` has all transactions in commit order; `began_at` and `ended_at` are times of the rig's clock.
    `undelivered` and `dead_letters` are the timers with a row in the table of deliveries or of dead letters at the end
    of the run. `running` are the instances that have not ended, and `open_tasks` are the tasks that are not completed.
    """

    seed: int
    began_at: float
    ended_at: float
    bounds: Bounds = field(default_factory=Bounds)
    calls: list[Call] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    poisoned: frozenset[int] = frozenset()
    attempts: list[HandlerCall] = field(default_factory=list)
    undelivered: list[int] = field(default_factory=list)
    dead_letters: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    open_tasks: list[int] = field(default_factory=list)


def patient(history: History, times: float) -> History:
    """Multiply the allowed lateness by a factor, for a machine with other work.

    The factor does not change the promises about safety.
    """
    faults = [
        replace(
            fault,
            recovers_within_s=None if fault.recovers_within_s is None else fault.recovers_within_s * times,
            whole_within_s=fault.whole_within_s * times,
        )
        for fault in history.faults
    ]
    bounds = history.bounds
    slower = replace(
        bounds,
        normal_s=bounds.normal_s * times,
        alone_s=bounds.alone_s * times,
        flooded_s=bounds.flooded_s * times,
    )
    return replace(history, faults=faults, bounds=slower)
