"""Create timers over HTTP that are due immediately, and measure the time until their handlers are called."""

import time

from benchmarks.cases.case import LAGS, Case, Figures, NotForIt, Part, lags_of
from benchmarks.cases.handled import warm_up
from benchmarks.cases.paced import PATIENCE_S
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.gateway import OverHttpToHandler, create_at_pace

SECONDS = 20
PACES = {per_s: Part.keyed(f"{per_s}", f"{per_s} requests a second", LAGS) for per_s in (20, 200)}


async def measure(contender: Contender) -> Figures:
    """Send requests at each pace; measure the time from the write of a request until the handler is called."""
    assert isinstance(contender, OverHttpToHandler)
    await contender.start()
    called = await warm_up(contender)
    figures: dict[str, float] = {}
    for per_s, part in PACES.items():
        began_s = time.time()
        called += per_s * SECONDS
        await create_at_pace(contender.gateway, per_s, SECONDS, contender.body)
        if not await contender.until_fired(called, within_s=PATIENCE_S):
            raise NotForIt(f"fell behind at {per_s} a second", figures)
        figures |= part.fill(lags_of([it for it in await contender.firings() if it.due_s >= began_s]))
    return figures


CASE = Case(
    "at-once",
    "From a request to its handler",
    f"Clients create timers over HTTP with the delay PT0S, for {SECONDS} s at each pace. The figure is the time from"
    " the write of the request to the call of the handler, on one machine. Each request passes through the gateway,"
    " Postgres, a shard, a worker and the handler's process.",
    tuple(PACES.values()),
    lambda: [OverHttpToHandler()],
    measure,
)
