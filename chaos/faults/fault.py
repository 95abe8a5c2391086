"""What a fault is, and what it says of itself when it is over."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from chaos.away import until
from chaos.history import Call, FaultKind
from chaos.stage import Stage

BACK_S = 30.0  # until a server that was killed, or a Ray that was, has come back


@dataclass(slots=True)
class Hit:
    """Whom a fault hit, and when, where that differs from when it was asked for."""

    victims: tuple[int, ...] = ()
    began_at: float | None = None
    ended_at: float | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    poisoned: frozenset[int] = frozenset()


Act = Callable[[Stage, random.Random, float], Awaitable[Hit]]


@dataclass(frozen=True, slots=True)
class FaultType:
    """A fault by name: what it is, and what is promised about the timers' lag.

    `takeover` says that the promise is the cluster's for a shard that is lost; otherwise `recovers_within_s` holds.
    `leaderless` says that nobody leads meanwhile.
    """

    name: str
    kind: FaultKind
    act: Act
    recovers_within_s: float = 5.0
    takeover: bool = False
    disturbs: bool = True
    leaderless: bool = False
    only: str | None = None  # on which cluster it can be made, if not on any


class NothingToBreak(Exception):
    """What was to be broken is not there; the run goes on, and says so."""


async def until_postgres_answers(stage: Stage) -> None:
    """Wait until connections are accepted.

    errors:  NothingToBreak  they never are
    """
    if not await until(stage.answers, within_s=BACK_S):
        raise NothingToBreak(f"Postgres did not come back in {BACK_S:.0f} s")
