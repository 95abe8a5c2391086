"""Kill a worker with -9 under load, and measure the lags of the killed worker's timers."""

import asyncio
import random
import signal
import time

from benchmarks.cases.case import Case, Figure, Figures, NotForIt, Part
from benchmarks.cases.paced import MARGIN_S
from benchmarks.contenders import OnRay, each_peer
from benchmarks.contenders.contender import Batch, Contender, among

PER_S = 1_000
SECONDS = 30
KILLED_AFTER_S = 10.0
PATIENCE_S = 60.0
LATE_S = 1.0


async def measure(contender: Contender) -> Figures:
    """Kill one of the workers, and measure the lag of the timers that are due afterwards."""
    if contender.drained < PER_S * 10:
        raise NotForIt("too slow for this pace: see `drain`")
    await contender.start()
    batch = Batch.paced(PER_S, SECONDS, in_s=MARGIN_S)
    await contender.put(batch)
    await batch.is_due()
    await asyncio.sleep(batch.begin_s + KILLED_AFTER_S - time.time())
    random.choice(contender.processes()).send_signal(signal.SIGKILL)  # noqa: S311 - no secret
    killed_s = time.time()
    within_s = batch.end_s - time.time() + PATIENCE_S
    await contender.until_fired(batch.count, within_s=within_s, stalled_s=within_s)
    gave_up_s = time.time()
    fired = among(await contender.firings(), batch)
    # Timers that were due a little before the kill are also measured, because the killed worker may have claimed but
    # not fired them.
    lags = [it.fired_s - it.due_s for it in fired if killed_s - LATE_S <= it.due_s]
    never = batch.count - len({it.due_s for it in fired})
    # The lag of a timer that did not fire is unknown, so its smallest possible value is used: the time from the last
    # due date to the end of the wait.
    lags += [gave_up_s - batch.end_s] * never
    return {"worst": max(lags), "late": sum(lag > LATE_S for lag in lags), "never": never}


CASE = Case(
    "takeover",
    "kill -9 of a worker",
    f"At {PER_S:,} timers a second, `kill -9` ends one of two workers. The figures are the greatest lag, the number of"
    f" timers with a lag above {LATE_S:.0f} s, and the number of timers that had not fired {PATIENCE_S:.0f} s after the"
    " last due date. The second number includes the third.",
    (
        Part(
            "",
            (
                Figure("worst", "latest", "s"),
                Figure("late", f"later than {LATE_S:.0f} s", ""),
                Figure("never", f"not fired within {PATIENCE_S:.0f} s", ""),
            ),
        ),
    ),
    lambda: [OnRay(2), *each_peer()],
    measure,
)
