"""Drain a backlog of overdue timers, and measure the rate."""

import time

from benchmarks.cases.case import PER_S, Case, Figures, NotForIt, Part
from benchmarks.contenders import Limit, OnRay, each_peer
from benchmarks.contenders.contender import Batch, Contender, among

WITHIN_S = 300.0


async def measure(contender: Contender) -> Figures:
    """Add overdue timers while the workers are idle; measure the time from the first firing to the last firing."""
    await contender.start()
    return {"per_s": await drained_per_s(contender, contender.drained)}


async def drained_per_s(contender: Contender, count: int) -> float:
    """Drain `count` overdue timers; return the number of firings per second.

    errors:  NotForIt  some timers did not fire within five minutes
    """
    batch, before, began_s = Batch.overdue(count), await contender.count(), time.time()
    await contender.put(batch)
    await contender.until_fired(before + batch.count, within_s=WITHIN_S)
    # Timers of an earlier case may have the same due dates as this batch, so only firings after `began_s` are selected.
    fired = sorted(it.fired_s for it in among(await contender.firings(), batch) if it.fired_s > began_s)
    if len(fired) < batch.count:
        raise NotForIt(f"fired {len(fired):,} of {batch.count:,} in {WITHIN_S:.0f} s")
    return (len(fired) - 1) / (fired[-1] - fired[0])


CASE = Case(
    "drain",
    "Overdue timers drained",
    "300,000 overdue timers are added while the workers wait for work. The figure is the number of firings per second,"
    " from the first firing to the last. The slower peers get fewer timers.",
    (Part("", (PER_S,)),),
    lambda: [*(OnRay(shards) for shards in (1, 2, 4)), Limit(), *each_peer()],
    measure,
)
