"""Call an empty handler for each of many timers that are due at the same moment."""

import asyncio
import time

from benchmarks.cases.case import PER_S, Case, Figure, Figures, NotForIt, Part
from benchmarks.cases.paced import MARGIN_S
from benchmarks.contenders import each_that_calls
from benchmarks.contenders.contender import Batch, Contender
from benchmarks.postgres import connected, settle

COUNT = 200_000
WARM = 1_000
PUT_PER_S = 10_000  # the assumed lowest rate, in timers per second, at which SQL fills a contender's table
WITHIN_S = 120.0
LOOK_S = 0.02


async def measure(contender: Contender) -> Figures:
    """Schedule all timers for one moment; measure the time until all timers are completed in the database."""
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
    """Call some handlers before the measurement, so that the processes are started and Postgres's plans are cached.

    shape:   returns the number of calls
    errors:  NotForIt  not all of these handlers were called
    """
    batch = Batch.overdue(min(WARM, contender.drained // 10))
    await contender.put(batch)
    if not await contender.until_fired(batch.count, within_s=WITHIN_S, stalled_s=WITHIN_S):
        raise NotForIt(f"called {await contender.count():,} of {batch.count:,} handlers in {WITHIN_S:.0f} s")
    return batch.count


async def completed(contender: Contender, calls: int, *, within_s: float) -> float:
    """Wait until `calls` handlers were called and all jobs are completed; return the time of the last completion.

    errors:  NotForIt  some jobs were not completed in time
    """
    give_up_s = time.monotonic() + within_s
    async with connected(contender.dsn) as connection:
        while True:
            # Query the database only after the last call, because each query takes processor time.
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
    f"{COUNT:,} timers are due at the same moment, each with a small payload and a handler that does nothing. The"
    " contender's own worker calls the handler. The figure is the number of timers a second, from the due date until"
    " the database records the completion of the last timer. The slower contenders get fewer timers. Before the"
    " measurement some handlers are called, and the tables are vacuumed. A handler may be called again if the outcome"
    " of a call is unknown. The limit is our SQL alone: the statements that fire timers, claim deliveries and settle"
    " deliveries, in loops, without a call.",
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
