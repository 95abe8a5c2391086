"""What handlers and the receiver of webhooks do in a chaos run, and how each delivery must end by it.

`app` does what handlers do, `receiver` does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

ASYNC, PLAIN, WEBHOOK = "chaos.async", "chaos.plain", "webhook:chaos"


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

# Of these most are accepted: an endpoint that fails five times in a row is left alone for a while.
WEBHOOKS: Mapping[Act, float] = {
    Act("accept", WEBHOOK): 12.0,
    Act("fail", WEBHOOK): 0.7,
    Act("refuse", WEBHOOK): 0.5,
    Act("late", WEBHOOK): 0.3,
    Act("busy", WEBHOOK): 0.3,
    Act("silence", WEBHOOK): 0.3,
    Act("reset", WEBHOOK): 0.7,
    Act("drip", WEBHOOK): 0.2,
    Act("flood", WEBHOOK): 0.2,
    Act("redirect", WEBHOOK): 0.5,
}

_NAMED = {act.name: act for act in (*WEIGHTS, *COSTLY, *WEBHOOKS)}


def act_of(payload: str | None) -> Act:
    """Read from a payload, as JSON, what its handler was told to do: to return, if it was told nothing."""
    told = json.loads(payload or "{}")
    return _NAMED[told.get("act", RETURN.name)]
