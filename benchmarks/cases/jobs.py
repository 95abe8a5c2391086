"""Run a growing number of jobs that start once a second, until the cluster falls behind."""

import asyncio
import time

from benchmarks.cases.case import LAGS, Case, Figure, Figures, NotForIt, Part, lags_of
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.jobs import WithJobs

SECONDS = 20
WARM_S = 45.0  # the warm-up: each concurrent run gets a process, which must import Ray and the app
SETTLE_S = 5.0
KEPT = 0.99
FIGURES = (
    *(Figure(it.key, it.title.replace("lag", "start late,"), it.unit) for it in LAGS),
    Figure("kept", "starts made", "percentunit", more_is_better=True),
)
PARTS = {count: Part.keyed(f"j{count}", f"{count:,} jobs", FIGURES) for count in (50, 100, 200, 500, 1_000)}


async def measure(contender: Contender) -> Figures:
    """Run the jobs; count the due starts with a started run, and measure the lags of these runs."""
    assert isinstance(contender, WithJobs)
    await contender.start()
    figures: dict[str, float] = {}
    for count, part in PARTS.items():
        await contender.make_jobs(count)
        await asyncio.sleep(SETTLE_S if figures else WARM_S)
        begin_s = time.time()
        await asyncio.sleep(SECONDS)
        begun = [it for it in await contender.firings() if begin_s <= it.fired_s < begin_s + SECONDS]
        kept = len(begun) / (count * SECONDS)
        figures |= part.fill({**lags_of(begun), "kept": min(kept, 1.0)})
        if kept < KEPT:
            raise NotForIt(f"fell behind with {count:,} jobs", figures)
    return figures


CASE = Case(
    "jobs",
    "Jobs that start each second",
    "Each job starts once a second, and its function does nothing. The starts of all jobs are spread evenly over the"
    f" second. A start's lateness is the time from its due date to the begin of its run. The last column has the"
    f" percentage of the starts due within {SECONDS} s that began a run. Each table has more jobs than the table before"
    " it.",
    tuple(PARTS.values()),
    lambda: [WithJobs()],
    measure,
)
