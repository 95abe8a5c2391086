"""Memory grows with the horizon and never with what is pending; a backlog drains and makes nobody else late."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

import pytest

from shards import claiming
from shards import shard as shard_module
from shards.shard import Shard
from sql.claims import Taken
from tests.crew import Crew, crew_of
from tests.store import Hand, add_fired_rows, add_holder, add_timers, old_snapshot
from tests.verdict import breaches
from tests.waiting import eventually
from timers.model import ClaimedTimer

SECOND = timedelta(seconds=1)


@pytest.fixture
async def crew(dsn: str) -> AsyncIterator[Crew]:
    """Give a crew on Postgres 18."""
    async with crew_of(dsn) as one:
        yield one


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Taken]]:
    """Record what each walk brought, by its scope."""
    made: list[tuple[str, Taken]] = []
    real = vars(shard_module)["take_due"]

    async def recording(*args: Any, **kwargs: Any) -> Taken:
        taken: Taken = await real(*args, **kwargs)
        made.append((args[2].scope, taken))
        return taken

    monkeypatch.setattr(shard_module, "take_due", recording)
    return made


def watch_length(shard: Shard) -> list[int]:
    """Record how many timers a shard holds after each time it was given some."""
    lengths: list[int] = []
    add = shard._queue.add

    def recording(timers: Iterable[ClaimedTimer], *, not_before_s: float = 0.0) -> None:
        add(timers, not_before_s=not_before_s)
        lengths.append(len(shard))

    shard._queue.add = recording  # type: ignore[method-assign]
    return lengths


@pytest.mark.slow
async def test_a_full_queue_stays_bounded_and_a_timer_due_at_once_still_fires_at_once(crew: Crew) -> None:
    await add_timers(crew.dsn, 200_000, "now() + interval '30 s' + i * interval '0.1 ms'")
    shard = await crew.start(horizon_s=60.0, lease_s=120.0, queue_max=3_000, claim_batch=840)
    lengths = watch_length(shard)
    await crew.until_held(shard, 3_000 - 840)

    for number in range(1, 11):
        await add_timers(crew.dsn, 5, "now()")
        await crew.until_fired(5 * number)

    assert max(lengths) <= 3_000 + 840
    assert max(row["recorded_at"] - row["due_date"] for row in await crew.fired()) < SECOND
    assert await crew.db.fetchval("select count(*) from shardclock.timers where claimed_by is not null") <= 3_840


@pytest.mark.slow
async def test_more_timers_within_the_horizon_than_fit_all_fire(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 10_000, "now() + interval '0.5 s' + i * interval '0.05 ms'")
    shard = await crew.start(queue_max=1_000, claim_batch=840, fire_batch=100)
    lengths = watch_length(shard)
    await crew.until_empty()

    assert max(lengths) <= 1_000 + 840
    assert await crew.count_fired() == len(keys)
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_overdue_repeats_beyond_the_queue_stay_bounded_and_all_fire(crew: Crew) -> None:
    rule = {
        "name": "'r' || i",
        "schedule": "'R1/PT1H'",
        "anchor": "now() - interval '1 hour 1 minute'",
        "repetitions": "1",
    }
    keys = await add_timers(crew.dsn, 10_000, "now() - interval '1 minute'", **rule)
    shard = await crew.start(queue_max=1_000, claim_batch=840, fire_batch=100)
    lengths = watch_length(shard)
    await crew.until_empty()

    # A turn begins while the queue is over full by less than a claim, and makes two walks.
    assert max(lengths) < 1_000 + 3 * 840
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_a_million_timers_far_in_the_future_cost_a_shard_no_memory(
    crew: Crew, walks: list[tuple[str, Taken]]
) -> None:
    await crew.db.execute("set synchronous_commit = off")
    await crew.db.execute(
        "insert into shardclock.timers (due_date) select now() + interval '1 h' + i * interval '1 ms'"
        " from generate_series(1, 1000000) i",
        timeout=60,
    )
    shard = await crew.start()
    await crew.until_fired(0)
    await eventually(lambda: len(walks) >= 5)
    assert (len(shard), shard.tally.claimed) == (0, 0)

    await add_timers(crew.dsn, 10, "now()")
    await crew.until_fired(10)

    assert max(row["recorded_at"] - row["due_date"] for row in await crew.fired()) < SECOND
    assert len(shard) == 0


@pytest.mark.slow
async def test_a_backlog_drains_in_few_statements_and_timers_that_fall_due_meanwhile_are_on_time(
    crew: Crew, walks: list[tuple[str, Taken]], monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog = await add_timers(crew.dsn, 100_000, "now() - interval '1 h' + i * interval '1 ms'")
    await crew.db.execute("update shardclock.coordination set ramp_per_s = null")
    # Drained a little at a time, so that there is a while for others to fall due in.
    shards = [await crew.start(place, 2, claim_batch=1_680, sweep_s=3_600.0) for place in range(2)]
    await eventually(lambda: all(shard._pace.ramp.catching_up for shard in shards))
    upcoming = await add_timers(crew.dsn, 500, "now() + interval '0.2 s' + i * interval '0.2 ms'")
    await crew.until_empty()

    fired = await crew.fired()
    assert len(fired) == len(backlog) + len(upcoming)
    assert await breaches(crew.db, backlog + upcoming) == {}
    # The backlog went through the fused path: fired by the walks, never held, each walk a full batch.
    assert sum(taken.fired for _, taken in walks) >= len(backlog)
    assert sum(shard.tally.claimed for shard in shards) <= len(upcoming)
    assert sum(1 for _, taken in walks if taken.fired) <= 1.5 * len(backlog) / 840 + 10
    # Those that fell due meanwhile overtook what was overdue for an hour.
    took = fired[-1]["recorded_at"] - fired[0]["recorded_at"]
    on_time = [row for row in fired if row["timer_key"] >= upcoming[0]]
    last_of_backlog = max(row["recorded_at"] for row in fired if row["timer_key"] < upcoming[0])
    during = [row["recorded_at"] - row["due_date"] for row in on_time if row["due_date"] < last_of_backlog]
    assert during, "they were to fall due while it drained"
    assert max(during) < took / 3


@pytest.mark.slow
async def test_the_oldest_of_a_backlog_fire_first_within_each_slot(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 20_000, "now() - interval '1 minute' - i * interval '1 s'")
    await crew.start(claim_batch=1_680)
    await crew.until_empty()

    last: dict[int, Any] = {}
    for row in await crew.fired():
        slot = row["timer_key"] % 840
        assert slot not in last or last[slot] <= row["due_date"]
        last[slot] = row["due_date"]
    assert await breaches(crew.db, keys) == {}


async def test_an_idle_shard_asks_once_a_poll(crew: Crew, walks: list[tuple[str, Taken]]) -> None:
    shard = await crew.start(poll_s=0.05, sweep_s=3_600.0)
    # The first walks bring the ramp's rate; what an outage left is looked for apart until there is room for a batch.
    await eventually(lambda: len(walks) >= 6)
    began = len(walks)
    await eventually(lambda: len(walks) >= began + 12)

    took = walks[-1][1].server_time - walks[began - 1][1].server_time
    assert took >= (len(walks) - began - 1) * timedelta(seconds=0.05) * 0.9
    assert shard.tally.fired == 0


async def test_what_is_scheduled_long_overdue_is_found_within_a_round(
    crew: Crew, walks: list[tuple[str, Taken]]
) -> None:
    shard = await crew.start()
    await eventually(lambda: len(walks) >= 30 and shard._pace.ramp.per_s is not None)
    began = len(walks)
    keys = await add_timers(crew.dsn, 500, "now() - interval '1 hour'")
    await crew.until_fired(len(keys))

    found = [number for number, (_, taken) in enumerate(walks[began:]) if taken.fired]
    assert len(found) > 1, "not all by one walk"
    assert len([scope for scope, _ in walks[began : began + found[-1] + 1] if scope == "own"]) <= 7, "five make a round"
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_a_shard_that_gets_stuck_on_its_way_past_fired_rows_takes_a_shorter_one(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot may be held so long that to go past all that has fired since takes longer than a statement may."""
    monkeypatch.setattr(claiming, "LONG_S", 0.01)
    async with old_snapshot(crew.dsn), Hand(crew.dsn, holder=HOLDER) as hand:
        await add_fired_rows(crew.dsn, 400_000)
        await add_holder(crew.dsn, HOLDER)
        whole_s = min([await _timed(hand) for _ in range(2)])

        keys = await add_timers(crew.dsn, 10_000, "now() - interval '30 s'")
        keys += await add_timers(crew.dsn, 1_000, "now() + i * interval '1 ms'")
        shard = await crew.start(statement_timeout_s=whole_s / 2)
        await crew.until_fired(len(keys))

        assert shard.tally.failures["claims"] > 0, "it did get stuck"
        assert await breaches(crew.db, keys) == {}


HOLDER = 77


async def _timed(hand: Hand) -> float:
    began_s = time.monotonic()
    assert (await hand.take(horizon_s=0, fuse=True)).fired == 0
    return time.monotonic() - began_s
