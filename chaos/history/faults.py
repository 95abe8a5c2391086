"""Record the injected faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

WHOLE_S = 90.0  # The promised time until other shards have replaced all shards of a lost head.

FaultKind = Literal["kill", "freeze", "cut", "store", "head", "load", "lock", "clock", "poison"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One injected fault, with its start and end by the rig's clock.

    `victims` are the holders that could not work during the fault: killed, frozen or cut off. `recovers_within_s` is
    the promised lateness, measured from `began_at` for a killed, frozen or cut shard, and from `ended_at` for other
    faults; None: the fault has no promise about lateness. A fault without `disturbs` does not excuse late timers; an
    example is the death of a coordinator or worker. A killed or frozen worker is not in `victims`, because timers fire
    without workers; `detail` names the worker. After the start of a `leaderless` fault, no coordinator leads until the
    next recorded lead. `whole_within_s` is the time within which other shards must serve after the loss of a head.
    """

    number: int
    kind: FaultKind
    name: str
    began_at: float
    ended_at: float
    victims: Sequence[int] = ()
    recovers_within_s: float | None = None
    disturbs: bool = True
    leaderless: bool = False
    whole_within_s: float = WHOLE_S
    detail: Mapping[str, object] = field(default_factory=dict)
