"""Drain a backlog: how many a second when they are all overdue."""

from benchmarks.cases.case import PER_S, Case, Figures, NotForIt, Part
from benchmarks.contenders import Limit, OnRay, peers
from benchmarks.contenders.contender import Batch, Contender, among

WITHIN_S = 300.0


async def measure(contender: Contender) -> Figures:
    """Put the backlog in while the workers wait for work; from the first firing to the last."""
    await contender.start()
    batch = Batch.overdue(contender.drained)
    await contender.put(batch)
    await contender.until_fired(batch.count, within_s=WITHIN_S)
    fired = sorted(it.fired_s for it in among(await contender.firings(), batch))
    if len(fired) < batch.count:
        raise NotForIt(f"fired {len(fired):,} of {batch.count:,} in {WITHIN_S:.0f} s")
    return {"per_s": (len(fired) - 1) / (fired[-1] - fired[0])}


CASE = Case(
    "drain",
    "Overdue timers drained",
    "300,000 timers that are overdue, put in at once while workers wait: timers a second from the first to the"
    " last. The slower peers get fewer.",
    (Part("", (PER_S,)),),
    lambda: [*(OnRay(shards) for shards in (1, 2, 4)), Limit(), *peers()],
    measure,
)
