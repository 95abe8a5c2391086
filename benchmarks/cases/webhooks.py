"""Send webhooks: measure the rate, the lag at a steady pace, and the lag while another endpoint does not answer."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from benchmarks.cases.case import PER_S, Case, Figure, Figures, NotForIt, Part, lags_of
from benchmarks.cases.handled import WITHIN_S, completed
from benchmarks.contenders.contender import Batch, Contender, among
from benchmarks.contenders.endpoint import STUCK, WithEndpoint
from benchmarks.postgres import settle

WARM, HERD = 2_000, 20_000
PACE_PER_S, SECONDS = 500, 20
HANGING = 500
AHEAD_S = 8.0
LATE = (Figure("p50", "due to received p50", "s"), Figure("p99", "due to received p99", "s"))
HERD_PART = Part("", (PER_S, Figure("again", "sent again", "", compared=False)))
ALONE = Part.keyed("alone", f"{PACE_PER_S} a second", LATE)
BESIDE = Part.keyed("beside", f"{PACE_PER_S} a second, beside an endpoint that hangs", LATE)


async def measure(contender: Contender) -> Figures:
    """Send many webhooks at one moment.

    Then send webhooks at a pace: first alone, then beside an endpoint that never answers.
    """
    assert isinstance(contender, WithEndpoint)
    await contender.start()
    await contender.put(Batch.overdue(WARM))
    await completed(contender, WARM, within_s=WITHIN_S)
    herd = Batch(HERD, Batch.paced(1, 1, in_s=AHEAD_S).at)
    await contender.put(herd)
    await settle(contender.dsn)
    await herd.is_due()
    took_s = await completed(contender, WARM + HERD, within_s=WITHIN_S) - herd.begin_s
    figures: dict[str, float] = {"per_s": HERD / took_s, "again": await contender.count() - WARM - HERD}
    sent = WARM + HERD
    for part in (ALONE, BESIDE):
        if part is BESIDE:
            await contender.put(Batch(HANGING, datetime.now(UTC) - timedelta(seconds=1)), STUCK)
            await asyncio.sleep(1.0)
        batch = Batch.paced(PACE_PER_S, SECONDS, in_s=AHEAD_S)
        sent += batch.count
        await contender.put(batch)
        if not await contender.until_fired(sent, within_s=batch.end_s - time.time() + WITHIN_S):
            raise NotForIt("fell behind", figures)
        lags = lags_of(among(await contender.firings(), batch))
        figures |= part.fill({figure: lags[figure] for figure in ("p50", "p99")})
    return figures


CASE = Case(
    "webhooks",
    "Webhooks",
    f"{HERD:,} signed webhooks are due at the same moment; the receiver is on the same machine, and answers"
    " immediately. The figure is the number of webhooks a second until the database records the completion of the last"
    f" webhook. Then {PACE_PER_S} webhooks a second are due for {SECONDS} s: first alone, then together with {HANGING}"
    " webhooks for an endpoint that never answers. The figure is the time from the due date until the receiver gets the"
    " webhook, by the machine's clock.",
    (HERD_PART, ALONE, BESIDE),
    lambda: [WithEndpoint()],
    measure,
)
