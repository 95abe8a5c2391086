"""List the actions of handlers and of the webhook receiver in a chaos run, with the expected end of each delivery.

`app` performs the actions of handlers, and `webhook_receiver` performs the actions of the endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

ASYNC, PLAIN, WEBHOOK = "chaos.async", "chaos.plain", "webhook:chaos"


class Behaviour(NamedTuple):
    """The action that a payload requests, with the timer's target and the expected end of the delivery.

    `attempt` is the earliest attempt at which the delivery can end as expected.
    """

    name: str
    target: str
    ending: str = "DELIVERED"
    attempt: int = 1


RETURN, RETURN_PLAIN = Behaviour("return", ASYNC), Behaviour("return", PLAIN)
RAISE, RAISE_PLAIN = Behaviour("raise", ASYNC, attempt=3), Behaviour("raise", PLAIN, attempt=3)
SLOW = Behaviour("slow", ASYNC)
# The action takes longer than the timeout. The timeout cancels only this call.
HANG = Behaviour("hang", ASYNC, attempt=2)
DISCARD = Behaviour("discard", ASYNC, "DISCARDED")
DIE = Behaviour("die", ASYNC, "DEAD", attempt=8)
# The action takes longer than the timeout. Only the end of the process ends the call.
STALL = Behaviour("stall", PLAIN, attempt=2)
EXIT = Behaviour("exit", PLAIN, attempt=2)

# The relative frequency of each action.
WEIGHTS: Mapping[Behaviour, float] = {
    RETURN: 8.0, RETURN_PLAIN: 4.0, RAISE: 3.0, RAISE_PLAIN: 1.0, SLOW: 4.0, HANG: 0.5, DISCARD: 1.5, DIE: 1.5,
}  # fmt: skip
QUICK = (RETURN, RETURN_PLAIN, RAISE, DISCARD)
# These actions are planned at fixed intervals, independently of the load, because each of them ends a process. The
# restart of this process takes almost a second of processor time.
COSTLY = (EXIT, STALL)

# Most webhooks are accepted, because the product pauses an endpoint after five consecutive failures.
WEBHOOKS: Mapping[Behaviour, float] = {
    Behaviour("accept", WEBHOOK): 12.0,
    Behaviour("fail", WEBHOOK): 0.7,
    Behaviour("refuse", WEBHOOK): 0.5,
    Behaviour("late", WEBHOOK): 0.3,
    Behaviour("busy", WEBHOOK): 0.3,
    Behaviour("silence", WEBHOOK): 0.3,
    Behaviour("reset", WEBHOOK): 0.7,
    Behaviour("drip", WEBHOOK): 0.2,
    Behaviour("flood", WEBHOOK): 0.2,
    Behaviour("redirect", WEBHOOK): 0.5,
}

_NAMED = {behaviour.name: behaviour for behaviour in (*WEIGHTS, *COSTLY, *WEBHOOKS)}


def behaviour_of(payload: str | None) -> Behaviour:
    """Read the requested action from a payload in JSON; a payload without an action requests `RETURN`."""
    told = json.loads(payload or "{}")
    return _NAMED[told.get("act", RETURN.name)]
