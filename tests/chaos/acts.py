"""What handlers do in a chaos run, and how each delivery must end by it; `app` does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

ASYNC, PLAIN = "chaos.async", "chaos.plain"


class Act(NamedTuple):
    """What a payload tells its handler to do; so its delivery has this ending, at no earlier attempt than this one."""

    name: str
    target: str
    ending: str = "DELIVERED"
    attempt: int = 1


RETURN, RETURN_PLAIN = Act("return", ASYNC), Act("return", PLAIN)
RAISE, RAISE_PLAIN = Act("raise", ASYNC, attempt=3), Act("raise", PLAIN, attempt=3)
SLOW = Act("slow", ASYNC)
HANG = Act("hang", ASYNC, attempt=2)  # beyond its timeout, which ends the call alone
DISCARD = Act("discard", ASYNC, "DISCARDED")
DIE = Act("die", ASYNC, "DEAD", attempt=8)
STALL = Act("stall", PLAIN, attempt=2)  # beyond its timeout, which only the end of its process ends
EXIT = Act("exit", PLAIN, attempt=2)

# How often each is drawn, compared with the others.
WEIGHTS: Mapping[Act, float] = {
    RETURN: 8.0, RETURN_PLAIN: 4.0, RAISE: 3.0, RAISE_PLAIN: 1.0, SLOW: 4.0, HANG: 0.5, DISCARD: 1.5, DIE: 1.5,
}  # fmt: skip
QUICK = (RETURN, RETURN_PLAIN, RAISE, DISCARD)
# To start a process takes most of a second of processor time, so these come by the clock, however great the load is.
COSTLY = (EXIT, STALL)

_NAMED = {act.name: act for act in (*WEIGHTS, *COSTLY)}


def act_of(payload: str | None) -> Act:
    """Read from a payload, as JSON, what its handler was told to do: to return, if it was told nothing."""
    told = json.loads(payload or "{}")
    return _NAMED[told.get("act", RETURN.name)]
