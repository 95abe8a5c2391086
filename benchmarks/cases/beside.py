"""Fire timers without targets at a steady pace: first alone, then during thousands of deliveries a second."""

import time
from collections.abc import Sequence

from benchmarks.cases.case import LAGS, Case, Figures, NotForIt, Part, lags_of
from benchmarks.cases.handled import WITHIN_S, warm_up
from benchmarks.contenders.contender import Batch, Contender, Firing, among
from benchmarks.contenders.handlers import PUT, WithHandler
from benchmarks.contenders.ours import PATIENCE_S

PER_S, DELIVERIES_PER_S, SECONDS = 1_000, 5_000, 20
AHEAD_S = 15.0  # The time from now to the first due date; the deliveries are written in this time.
FIRED = """
    select extract(epoch from due_date)::double precision, extract(epoch from recorded_at)::double precision
    from shardclock.command_log
    where intent = 'TRIGGERED' and target = 'log'
"""
ALONE = Part.keyed("alone", f"{PER_S:,} a second for the log", LAGS)
BESIDE = Part.keyed("beside", f"the same beside {DELIVERIES_PER_S:,} deliveries a second", LAGS)


async def measure(contender: Contender) -> Figures:
    """Fire at the pace twice: first without deliveries, then with concurrent deliveries."""
    assert isinstance(contender, WithHandler)
    await contender.start()
    called = await warm_up(contender)
    figures: dict[str, float] = {}
    for part in (ALONE, BESIDE):
        batch = Batch.paced(PER_S, SECONDS, in_s=AHEAD_S)
        await _put_for_the_log(contender, batch)
        if part is BESIDE:
            deliveries = Batch(DELIVERIES_PER_S * SECONDS, batch.at, 1 / DELIVERIES_PER_S)
            called += deliveries.count
            await contender.put(deliveries)
        await batch.is_over()
        if not await contender.until_fired(called, within_s=WITHIN_S):
            raise NotForIt(f"called {await contender.count():,} of {called:,} handlers", figures)
        fired = among(await _fired(contender), batch)
        if len(fired) < batch.count:
            raise NotForIt(
                f"fired {len(fired):,} of {batch.count:,} by {time.time() - batch.end_s:.0f} s later", figures
            )
        figures |= part.fill(lags_of(fired))
    return figures


async def _put_for_the_log(contender: WithHandler, batch: Batch) -> None:
    async with contender.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
        await connection.execute(PUT, batch.at, batch.count, batch.every_s, "log")


async def _fired(contender: WithHandler) -> Sequence[Firing]:
    async with contender.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
        return [Firing(*row) for row in await connection.fetch(FIRED)]


CASE = Case(
    "beside",
    "Timers for the log, beside deliveries",
    f"For {SECONDS} s, {PER_S:,} timers a second fire without a target. Then the same load runs again, while"
    f" {DELIVERIES_PER_S:,} other timers a second call a handler that does nothing. The figure is the lag of the timers"
    " without a target.",
    (ALONE, BESIDE),
    lambda: [WithHandler("async")],
    measure,
)
