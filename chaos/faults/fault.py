"""Define the type of a fault, and the result of one injection."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from chaos.history.calls import Call
from chaos.history.faults import WHOLE_S, FaultKind
from chaos.sandbox import Sandbox
from chaos.waiting import until

BACK_S = 30.0  # The time limit for the restart of a killed server or of Ray.


@dataclass(slots=True)
class Hit:
    """The victims of a fault.

    `began_at` and `ended_at` are set if they differ from the start and end of the function's call. A fault with victims
    sets `began_at`, because the rig needs some time to choose a victim before the fault begins. `led` is False if the
    fault affected a coordinator on standby, and therefore delayed no timer.
    """

    victims: tuple[int, ...] = ()
    began_at: float | None = None
    ended_at: float | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    poisoned: frozenset[int] = frozenset()
    led: bool = True
    whole_within_s: float = WHOLE_S


Injection = Callable[[Sandbox, random.Random, float], Awaitable[Hit]]


@dataclass(frozen=True, slots=True)
class FaultType:
    """A fault: its name, its kind, its function, and the promised lateness of timers.

    With `takeover`, the promised lateness is the cluster's promise for a lost shard; otherwise it is
    `recovers_within_s`. During a `leaderless` fault, no coordinator leads.
    """

    name: str
    kind: FaultKind
    inject: Injection
    recovers_within_s: float = 5.0
    takeover: bool = False
    disturbs: bool = True
    leaderless: bool = False
    only: str | None = None  # The only kind of cluster that supports the fault; None: each kind.


class NothingToBreak(Exception):
    """A fault found no target; the run continues, and reports the missing target."""


async def until_postgres_answers(sandbox: Sandbox) -> None:
    """Wait until Postgres accepts connections.

    errors:  NothingToBreak  Postgres accepts no connection within BACK_S
    """
    if not await until(sandbox.answers, within_s=BACK_S):
        raise NothingToBreak(f"Postgres did not accept connections within {BACK_S:.0f} s")
