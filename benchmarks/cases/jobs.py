"""Run jobs that start once a second, more and more of them, until there are too many."""

import asyncio
import time

from benchmarks.cases.case import LAGS, Case, Figure, Figures, NotForIt, Part, lags_of
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.jobs import WithJobs

SECONDS = 20
WARM_S = 45.0  # until there is a process for each place: each imports Ray and the app
SETTLE_S = 5.0
KEPT = 0.99
FIGURES = (
    *(Figure(it.key, it.title.replace("lag", "start late,"), it.unit) for it in LAGS),
    Figure("kept", "starts made", "percentunit", more_is_better=True),
)
PARTS = {count: Part.keyed(f"j{count}", f"{count:,} jobs", FIGURES) for count in (50, 100, 200, 500, 1_000)}


async def measure(contender: Contender) -> Figures:
    """Let the jobs run, and count how many of the starts that were due have begun, and how late."""
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
    "Jobs that start once a second, spread over the second; their function does nothing. How late does a run begin"
    f" after its `next_start`? How many of the starts of {SECONDS} s were made? The jobs become more and more.",
    tuple(PARTS.values()),
    lambda: [WithJobs()],
    measure,
)
