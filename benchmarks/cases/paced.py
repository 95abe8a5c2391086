"""Fire at a steady pace with a million other timers pending, and measure the lag."""

import time
from datetime import UTC, datetime, timedelta

from benchmarks.cases.case import LAGS, Case, Figure, Figures, NotForIt, Part, lags_of, require_quick
from benchmarks.contenders import Limit, OnRay, each_peer
from benchmarks.contenders.contender import Batch, Contender, among
from benchmarks.disk import watched
from benchmarks.postgres import settle

PENDING = 1_000_000
SECONDS = 30
PATIENCE_S = 20.0  # a contender with a lag above this limit has fallen behind
MARGIN_S = 8.0

FIGURES = (
    *LAGS,
    Figure("fired", "fired", "percentunit", more_is_better=True),
    Figure("stood", "disk stood still", "s", compared=False),
)
PACES = {
    per_s: Part.keyed(f"{per_s // 1000}k", f"{per_s:,} timers a second", FIGURES)
    for per_s in (1_000, 5_000, 10_000, 20_000)
}


async def fill(contender: Contender, count: int) -> float:
    """Schedule timers for tomorrow, vacuum and checkpoint; return how many timers per second were scheduled."""
    began_s = time.monotonic()
    await contender.put(Batch(count, datetime.now(UTC) + timedelta(days=1), 0.001))
    per_s = count / (time.monotonic() - began_s)
    await settle(contender.dsn)
    return per_s


async def measure(contender: Contender) -> Figures:
    """Fire at increasing paces, until a pace is too fast."""
    require_quick(contender)
    figures: dict[str, float] = {}
    put_per_s, count = await fill(contender, PENDING), 0
    await contender.start()
    for per_s, part in PACES.items():
        batch = Batch.paced(per_s, SECONDS, in_s=MARGIN_S + 1.5 * per_s * SECONDS / put_per_s)
        count += batch.count
        kept = await keep_pace(contender, batch, count)
        figures |= part.fill(kept)
        if kept["fired"] < 1:
            raise NotForIt(f"fell behind at {per_s:,} a second", figures)
    return figures


async def keep_pace(contender: Contender, batch: Batch, count: int) -> Figures:
    """Schedule a paced batch, and measure its firings; `count` is the total number of firings after the batch."""
    await contender.put(batch)
    await batch.is_due()
    async with watched() as disk:
        await batch.is_over()
    await contender.until_fired(count, within_s=PATIENCE_S)
    fired = among(await contender.firings(), batch)
    figures = {**lags_of(fired), "fired": len({it.due_s for it in fired}) / batch.count}
    return figures if disk.stood_s is None else {**figures, "stood": disk.stood_s}


CASE = Case(
    "paced",
    "A steady pace",
    f"For {SECONDS} s each, 1,000, 5,000, 10,000 and 20,000 timers a second are due. {PENDING:,} other timers are"
    f" pending, vacuumed and on disk. The figure is the lag. If a timer has not fired {PATIENCE_S:.0f} s after the last"
    " due date, it counts as not fired, and the contender's run ends at this pace. Sometimes the disk of a shared"
    f" machine stops for all writers, so that no commit succeeds: one such standstill of {SECONDS / 100} s determines"
    " the p99.",
    tuple(PACES.values()),
    lambda: [OnRay(2), Limit(), *each_peer()],
    measure,
)
