"""Call handlers at a steady pace with a million other timers pending: how late."""

from benchmarks.cases.case import Case, Figures, NotForIt, Part, require_quick
from benchmarks.cases.handled import warm_up
from benchmarks.cases.paced import FIGURES, MARGIN_S, PENDING, SECONDS, fill, keep_pace
from benchmarks.contenders import each_that_calls
from benchmarks.contenders.contender import Batch, Contender

PER_S = 1_000


async def measure(contender: Contender) -> Figures:
    """Keep the pace; measure from each due date until its handler begins, by the clock of the machine."""
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
    f"{PER_S:,} timers a second for {SECONDS} s, each with a handler that does nothing but write down when it is"
    f" called, with {PENDING:,} more pending, vacuumed and on disk: how late handlers are called, by the clock of the"
    " one machine.",
    (Part("", FIGURES),),
    lambda: [*each_that_calls()],
    measure,
)
