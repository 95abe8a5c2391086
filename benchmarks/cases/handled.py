"""Handle a herd: all timers are due in one instant, and each calls a handler that does nothing."""

import asyncio
import time

from benchmarks.cases.case import PER_S, Case, Figure, Figures, NotForIt, Part
from benchmarks.cases.paced import MARGIN_S
from benchmarks.contenders import each_that_calls
from benchmarks.contenders.contender import Batch, Contender
from benchmarks.postgres import connected, settle

COUNT = 200_000
WARM = 1_000
PUT_PER_S = 10_000  # by the slowest contender that is filled by SQL
WITHIN_S = 120.0
LOOK_S = 0.02


async def measure(contender: Contender) -> Figures:
    """Let all fall due at once; measure from that moment until the database says that all are completed."""
    count = min(COUNT, contender.drained)
    await contender.start()
    warmed = await warm_up(contender)
    await completed(contender, warmed, within_s=WITHIN_S)
    batch = Batch(count, Batch.paced(1, 1, in_s=MARGIN_S + count / PUT_PER_S).at)
    await contender.put(batch)
    await settle(contender.dsn)
    if time.time() > batch.begin_s:
        raise NotForIt(f"to put {count:,} in takes it longer than {MARGIN_S + count / PUT_PER_S:.0f} s")
    await batch.is_due()
    took_s = await completed(contender, warmed + count, within_s=WITHIN_S) - batch.begin_s
    return {"per_s": count / took_s, "took": took_s, "again": await contender.count() - warmed - count}


async def warm_up(contender: Contender) -> int:
    """Let some handlers be called first, so that processes, plans and compilers are as in a service at work.

    shape:   returns how many
    errors:  NotForIt  not all of them were called
    """
    batch = Batch.overdue(min(WARM, contender.drained // 10))
    await contender.put(batch)
    if not await contender.until_fired(batch.count, within_s=WITHIN_S, stalled_s=WITHIN_S):
        raise NotForIt(f"called {await contender.count():,} of {batch.count:,} handlers in {WITHIN_S:.0f} s")
    return batch.count


async def completed(contender: Contender, calls: int, *, within_s: float) -> float:
    """Wait until so many handlers were called and no job is left; return that moment.

    errors:  NotForIt  some were not completed in time
    """
    give_up_s = time.monotonic() + within_s
    async with connected(contender.dsn) as connection:
        while True:
            # Until all were called nobody asks the database, which has enough to do.
            left = calls - await contender.count()
            if left <= 0:
                left = await connection.fetchval(contender.left)
            if left == 0:
                return time.time()
            if time.monotonic() > give_up_s:
                raise NotForIt(f"{left:,} of {calls:,} were not completed within {within_s:.0f} s")
            await asyncio.sleep(LOOK_S)


CASE = Case(
    "handled",
    "Work done",
    f"{COUNT:,} timers due in one instant, each with a small payload and a handler that does nothing, called in the"
    " contender's own worker: timers a second from that instant until the last is completed in the database, counted"
    " by the rows of its tables. The slower contenders get fewer. All were warmed up by some handlers, and vacuumed. A"
    " handler may be called again if nobody knows how a call ended. Our SQL alone is the limit: the statements that"
    " fire, claim and settle, in loops, and nothing is called.",
    (
        Part(
            "",
            (
                PER_S,
                Figure("took", "the last completed after", "s", compared=False),
                Figure("again", "called again", "", compared=False),
            ),
        ),
    ),
    lambda: [*each_that_calls()],
    measure,
)
