"""Prove that Shardclock recognizes a repeated call, even if it is written differently or its timer has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from shardclock_server.shards.firing import is_unplanned, planning_of
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.clients.verbs import NewRule, TimerRef, reschedule_timer, run_timer
from shardclock_server.sql.firing.fire import plan_schedules
from shardclock_server.timers.model import NewTimer
from tests.support.factories import HolderClient, add_holder, query
from tests.support.roles import OPERATOR

Ask = Callable[..., Awaitable[str]]
HOUR = timedelta(hours=1)
IT = TimerRef(name="it")

RULES = [
    *[("R/PT1H", "UTC"), ("R/PT60M", "UTC"), ("R/pt1h", "UTC"), ("R-1/PT1H", "UTC"), ("R+3/PT1H", "UTC")],
    *[("R03/PT1H", "UTC"), ("R/PT0,5H", "UTC"), ("R//PT1H", "UTC"), ("R/P7D", "UTC"), ("R/P1W", "Europe/Berlin")],
    *[("R/PT1H", "Europe/Berlin"), ("R/P1M", "CET"), ("R/PT1H/2051-01-31T08:00Z", "UTC")],
    *[("R/2031-01-31T08:00Z/P1M", "UTC"), ("R/2031-01-31T09:00+01:00/P1M", "UTC")],
    *[("R/2031-01-31T08:00[Europe/Berlin]/P1M", "UTC"), ("R/2031-01-31T08:00[Europe/Berlin]/P1M", "Europe/Berlin")],
    *[("R/2031-01-31T08:00/P1M", "Europe/Berlin"), ("R/2031-03-30T02:30[Europe/Berlin]/P1D", "UTC")],
    *[("R/2031-01-01T00:00Z/2031-01-02T12:00Z", "UTC"), ("0 8 * * mon", "UTC"), ("0  8 * * MON ", "UTC")],
    *[("@Daily", "UTC"), ("0 0 8 ? * MON", "Europe/Berlin")],
]


async def by_sql(shard: HolderClient, **fields: Any) -> str:
    given = {"name": "it", "on_conflict": "replace"} | fields
    named = ", ".join(f"{name} => ${number}" for number, name in enumerate(given, 1))
    async with shard.session.connection() as connection:
        return str(await connection.fetchval(f"select outcome from shardclock.ensure_timer({named})", *given.values()))


async def by_batch(shard: HolderClient, **fields: Any) -> str:
    """Declare a timer as the command line and a line of an input file do."""
    wanted = NewTimer.from_fields({"name": "it", "on_conflict": "replace"} | fields)
    (outcome,) = await ScheduleBatch([wanted]).send(shard.session)
    assert isinstance(outcome, Scheduled), outcome
    return outcome.outcome


WAYS: list[Ask] = [by_sql, by_batch]


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, role=OPERATOR) as hand:
        yield hand


async def plan(shard: HolderClient) -> None:
    taken = await shard.take()
    await plan_schedules(shard.session, shard.holder, [planning_of(it) for it in taken.claimed if is_unplanned(it)])


async def pass_occurrence(shard: HolderClient) -> None:
    """Let the pending occurrence fire or be skipped."""
    shard.now = await shard.value("select due_date + interval '5 minutes' from shardclock.timers")
    taken = await shard.take()
    fired = await shard.fire(taken.claimed)
    assert len(fired.timer_keys) == 1
    shard.now = None


@pytest.mark.parametrize("missed", ["fire_once", "skip"])
@pytest.mark.parametrize(("rule", "zone"), RULES)
async def test_a_repeated_declaration_of_a_schedule_finds_it_after_any_change(
    shard: HolderClient, rule: str, zone: str, missed: str
) -> None:
    asked = {"schedule": rule, "zone": zone, "missed": missed}
    for declare, other in permutations(WAYS):
        await query(shard.dsn, "delete from shardclock.timers")
        assert await declare(shard, **asked) == "created"
        said = [await declare(shard, **asked), await other(shard, **asked)]

        await plan(shard)
        said += [await declare(shard, **asked), await other(shard, **asked)]

        await pass_occurrence(shard)
        said += [await declare(shard, **asked), await other(shard, **asked)]

        await run_timer(shard.session, IT)
        said += [await declare(shard, **asked), await other(shard, **asked)]
        assert said == ["unchanged"] * 8
        assert (await declare(shard, **asked | {"schedule": "R/PT7H"})) == "replaced"


async def test_an_hourly_rule_that_is_declared_more_often_than_it_is_due_keeps_its_date(shard: HolderClient) -> None:
    await by_sql(shard, schedule="R/PT1H/2051-01-31T08:00Z")
    await plan(shard)
    for _ in range(3):
        # The dates move back by a quarter of an hour, as if this time had passed.
        shift = "update shardclock.timers set anchor = anchor - $1::interval, due_date = due_date - $1::interval"
        await query(shard.dsn, shift, HOUR / 4)
        await by_sql(shard, schedule="R/PT1H/2051-01-31T08:00Z")
        await plan(shard)

    assert await shard.value("select due_date < now() + interval '15 minutes' from shardclock.timers")


@pytest.mark.parametrize("other", ["R/PT60M", "R/pt1h", "R-1/PT1H", "R//PT1H"])
async def test_a_rule_in_another_notation_is_another_rule_in_every_order(shard: HolderClient, other: str) -> None:
    for first, second in permutations(["R/PT1H", other]):
        for declare, again in [(a, b) for a in WAYS for b in WAYS]:
            await query(shard.dsn, "delete from shardclock.timers")
            assert await declare(shard, schedule=first) == "created"
            assert await again(shard, schedule=second) == "replaced"
            assert await declare(shard, schedule=second) == "unchanged"


async def test_a_timer_with_a_new_rule_equals_the_last_request(shard: HolderClient) -> None:
    rule = "R/2031-01-31T08:00[Europe/Berlin]/P1M"
    for declare in WAYS:
        await query(shard.dsn, "delete from shardclock.timers")
        await declare(shard, schedule="R/PT1H", zone="Asia/Tokyo")
        await reschedule_timer(shard.session, IT, NewRule(rule))
        await plan(shard)

        assert await declare(shard, schedule=rule) == "unchanged"
        assert await declare(shard, schedule="R/PT1H", zone="Asia/Tokyo") == "replaced"


async def test_a_rule_that_was_written_to_the_table_is_recognized(shard: HolderClient) -> None:
    for declare in WAYS:
        await query(shard.dsn, "delete from shardclock.timers")
        await query(
            shard.dsn,
            "insert into shardclock.timers (name, schedule, due_date, anchor, anchor_occurrence, repetitions)"
            " values ('it', '0 8 * * mon', now(), now(), null, -1)",
        )
        assert await declare(shard, schedule="0 8 * * mon") == "unchanged"
        await plan(shard)
        assert await declare(shard, schedule="0 8 * * mon") == "unchanged"


async def test_a_plain_timer_is_recognized_by_its_date_in_any_zone(shard: HolderClient) -> None:
    written: dict[str, Any] = {"due_date": "2031-07-31T08:00[Europe/Berlin]"}
    moment: dict[str, Any] = {"due_date": NewTimer.from_fields(written).due_date}
    for (first, how), (again, otherwise) in permutations([(by_batch, written), (by_sql, moment)]):
        await query(shard.dsn, "delete from shardclock.timers")
        assert await first(shard, **how) == "created"
        assert await again(shard, **otherwise) == "unchanged"
