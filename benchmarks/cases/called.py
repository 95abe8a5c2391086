"""Call handlers at a steady pace with a million other timers pending, and measure the lag."""

from benchmarks.cases.case import Case, Figures, NotForIt, Part, require_quick
from benchmarks.cases.handled import warm_up
from benchmarks.cases.paced import FIGURES, MARGIN_S, PENDING, SECONDS, fill, keep_pace
from benchmarks.contenders import each_that_calls
from benchmarks.contenders.contender import Batch, Contender

PER_S = 1_000


async def measure(contender: Contender) -> Figures:
    """Fire at the pace; measure the time from each due date until the handler is called, on the machine's clock."""
    require_quick(contender)
    put_per_s = await fill(contender, min(PENDING, contender.pending_most))
    await contender.start()
    warmed = await warm_up(contender)
    batch = Batch.paced(PER_S, SECONDS, in_s=MARGIN_S + 1.5 * PER_S * SECONDS / put_per_s)
    figures = await keep_pace(contender, batch, warmed + batch.count)
    if figures["fired"] < 1:
        raise NotForIt("fell behind", figures)
    return figures


CASE = Case(
    "called",
    "From due to the handler called",
    f"For {SECONDS} s, {PER_S:,} timers a second are due, each with a handler that only records the time of its"
    f" call. {PENDING:,} other timers are pending, vacuumed and on disk. The figure is the time from the due date to"
    " the call, by the clock of the machine that runs everything.",
    (Part("", FIGURES),),
    lambda: [*each_that_calls()],
    measure,
)
