"""Start with millions of pending timers, and measure the time until the first timer fires."""

import time

from benchmarks.cases.case import Case, Figure, Figures, NotForIt, Part, memory_of
from benchmarks.cases.paced import fill
from benchmarks.contenders import OnRay, each_peer
from benchmarks.contenders.contender import Batch, Contender

PENDING, PENDING_OF_PEERS = 10_000_000, 1_000_000
PATIENCE_S = 120.0


async def measure(contender: Contender) -> Figures:
    """Fill the table, add an overdue timer, and start; measure the time from the start to the firing."""
    if contender.pending_most < PENDING_OF_PEERS:
        raise NotForIt(f"not measured: the insert of {PENDING_OF_PEERS:,} timers takes half an hour")
    await fill(contender, min(PENDING, contender.pending_most))
    await contender.put(Batch.overdue(1))
    began_s = time.time()
    await (contender.launch() if isinstance(contender, OnRay) else contender.start())
    await contender.until_fired(1, within_s=PATIENCE_S)
    (firing,) = await contender.firings()
    return {"first": firing.fired_s - began_s, **memory_of(contender)}


CASE = Case(
    "start",
    "From a cold start to the first firing",
    "Ten million timers are pending (a million for the peers), and one timer is overdue. The figure is the time from"
    " the start of the first process until the overdue timer fires; for Shardclock it includes the start of Ray.",
    (Part("", (Figure("first", "first firing after", "s"), Figure("rss", "memory of a worker", "bytes"))),),
    lambda: [OnRay(2), *each_peer()],
    measure,
)
