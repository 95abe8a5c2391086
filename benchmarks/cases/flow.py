"""Create a load for several minutes: add timers continuously, each timer some seconds before its due date."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta

from benchmarks.contenders.contender import Batch, Contender, Firing, among

AHEAD_S = 10
PART_S = 2


async def flow(contender: Contender, per_s: int, seconds: int) -> tuple[Batch, Sequence[Firing]]:
    """Add timers at a pace; return the timers as one batch, and their firings."""
    whole = Batch.paced(per_s, seconds, in_s=AHEAD_S)
    for begin_s in range(0, seconds, PART_S):
        await asyncio.sleep(max(0.0, whole.begin_s + begin_s - AHEAD_S - time.time()))
        await contender.put(Batch(per_s * PART_S, whole.at + timedelta(seconds=begin_s), 1 / per_s))
    await contender.until_fired(whole.count, within_s=whole.end_s - time.time() + 2 * AHEAD_S)
    return whole, among(await contender.firings(), whole)


def within(firings: Sequence[Firing], begin_s: float, seconds: float) -> list[Firing]:
    """Return the firings with due dates in an interval."""
    return [it for it in firings if begin_s <= it.due_s < begin_s + seconds]
