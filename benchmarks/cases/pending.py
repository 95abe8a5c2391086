"""Drain the same backlog with more and more pending timers; neither the time nor the memory should grow."""

import time

from benchmarks.cases.case import PER_S, Case, Figure, Figures, NotForIt, Part, memory_of, require_quick
from benchmarks.cases.drain import WITHIN_S
from benchmarks.cases.paced import fill
from benchmarks.contenders import Limit, OnRay, each_peer
from benchmarks.contenders.contender import Batch, Contender

OVERDUE = 100_000
FIGURES = (
    PER_S,
    Figure("rss", "memory of the largest worker", "bytes"),
)
SIZES = {
    size: Part.keyed(key, f"{size:,} pending", FIGURES)
    for key, size in (("100k", 100_000), ("1m", 1_000_000), ("10m", 10_000_000))
}


async def measure(contender: Contender) -> Figures:
    """Fill the table, drain a backlog and measure memory, three times in the same database."""
    require_quick(contender)
    figures: dict[str, float] = {}
    held = fired = 0
    await contender.start()
    for size, part in SIZES.items():
        if size > contender.pending_most:
            raise NotForIt(f"not measured: this case gives it at most {contender.pending_most:,} timers", figures)
        await fill(contender, size - held)
        held = size
        batch, began_s = Batch.overdue(min(OVERDUE, contender.drained)), time.time()
        await contender.put(batch)
        fired += batch.count
        await contender.until_fired(fired, within_s=WITHIN_S)
        # An earlier batch may have the same due dates, so firings are selected by the time of the firing.
        at = sorted(it.fired_s for it in await contender.firings() if it.fired_s >= began_s)
        if len(at) < batch.count:
            raise NotForIt(f"fired {len(at):,} of {batch.count:,} in {WITHIN_S:.0f} s", figures)
        figures |= part.fill({"per_s": (len(at) - 1) / (at[-1] - at[0]), **memory_of(contender)})
    return figures


CASE = Case(
    "pending",
    "The same backlog, with more and more pending",
    f"{OVERDUE:,} overdue timers are drained while 100 thousand, a million and ten million other timers are pending."
    " The figures are the rate, and the memory of the largest worker.",
    tuple(SIZES.values()),
    lambda: [OnRay(2), Limit(), *each_peer()],
    measure,
)
