"""Fire many timers that are due at the same moment, and single timers afterwards with a small lag."""

import time
from datetime import timedelta

from benchmarks.cases.case import Case, Figure, Figures, NotForIt, Part, lags_of, require_quick
from benchmarks.cases.paced import MARGIN_S
from benchmarks.contenders import Limit, OnRay, each_peer
from benchmarks.contenders.contender import Batch, Contender, among

TRICKLE = 500
TRICKLE_AFTER_S = 0.25
TRICKLE_EVERY_S = 0.02
PATIENCE_S = 90.0
PUT_PER_S = 20_000  # the assumed lowest rate, in timers per second, at which SQL fills a contender's table

FIGURES = (
    Figure("drained", "drained in", "s"),
    Figure("trickle_p50", "others' lag p50", "s"),
    Figure("trickle_max", "others' lag max", "s"),
    Figure("fired", "fired", "percentunit", more_is_better=True),
)
HERDS = {
    100_000: Part.keyed("100k", "100,000 due in one instant", FIGURES),
    1_000_000: Part.keyed("1m", "1,000,000 due in one instant", FIGURES),
}


async def measure(contender: Contender) -> Figures:
    """Measure herds of increasing sizes."""
    require_quick(contender)
    figures: dict[str, float] = {}
    before = 0
    await contender.start()
    for count, part in HERDS.items():
        at = Batch.paced(1, 1, in_s=MARGIN_S + count / PUT_PER_S).at
        together = Batch(count, at)
        trickle = Batch(TRICKLE, at + timedelta(seconds=TRICKLE_AFTER_S), TRICKLE_EVERY_S)
        await contender.put(together)
        await contender.put(trickle)
        await together.is_due()
        before += count + TRICKLE
        await contender.until_fired(before, within_s=at.timestamp() - time.time() + PATIENCE_S)
        firings = await contender.firings()
        fired, beside = among(firings, together), lags_of(among(firings, trickle))
        told = {"fired": len(fired) / count}
        told |= {f"trickle_{name}": beside[name] for name in ("p50", "max") if beside}
        if len(fired) < count:
            raise NotForIt(f"{count:,} together take it more than {PATIENCE_S:.0f} s", figures | part.fill(told))
        told["drained"] = max(it.fired_s for it in fired) - at.timestamp()
        figures |= part.fill(told)
    return figures


CASE = Case(
    "herd",
    "A herd that is due in one instant",
    f"100,000 timers (the herd) are due at the same moment; a second run has a herd of a million. From"
    f" {TRICKLE_AFTER_S} s later on, {TRICKLE} other timers become due one by one. The figures are the time until the"
    " last timer of the herd has fired, and the lag of the other timers.",
    tuple(HERDS.values()),
    lambda: [OnRay(2), Limit(), *each_peer()],
    measure,
)
