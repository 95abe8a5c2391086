"""Prove that a resume's choice survives a concurrent plan, resume, pause or takeover.

No occurrence fires twice or before its date, and with fire_all none is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.shards.firing import planning_of
from shardclock_server.sql.clients.verbs import TimerRef, pause_timer, resume_timer
from shardclock_server.sql.firing.fire import plan_schedules
from tests.support.factories import HolderClient, add_holder, add_schedule, ends, query, waits
from tests.support.occurrences import numbers, row, serve
from tests.support.roles import OPERATOR
from tests.support.sql_client import schedule

BEAT = TimerRef(name="beat")
ONE, TWO = 1, 2


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, ONE)
    async with HolderClient(dsn, holder=ONE, plans={}) as hand:
        yield hand


@pytest.fixture
async def client(shard: HolderClient) -> AsyncIterator[HolderClient]:
    async with HolderClient(shard.dsn, plans={}, role=OPERATOR) as hand:
        yield hand


@pytest.fixture
async def other(shard: HolderClient) -> AsyncIterator[HolderClient]:
    async with HolderClient(shard.dsn, plans={}, role=OPERATOR) as hand:
        yield hand


async def paused(dsn: str, client: HolderClient, missed: str = "fire_once") -> None:
    start = "now() - interval '210 minutes'"
    await add_schedule(dsn, "R/PT1H", start, anchor=f"{start} - interval '1 hour'", missed=f"'{missed}'")
    await pause_timer(client.session, BEAT)


async def test_a_plan_that_began_before_a_pause_and_a_resume_does_not_change_the_choice(
    shard: HolderClient, client: HolderClient
) -> None:
    # Given a rule with occurrences from before the resume, and a shard that plans the rule
    await schedule(client, schedule="* * * * * *", name="beat")
    plannings = [planning_of(timer) for timer in (await shard.take()).claimed]
    assert len(plannings) == 1

    # When a client pauses and resumes the schedule before the plan arrives
    await pause_timer(client.session, BEAT)
    await query(shard.dsn, "update shardclock.timers set anchor = anchor - interval '210 s'")
    await resume_timer(client.session, BEAT, missed="skip")

    # Then the fence refuses the old plan, and the next plan leaves the choice unchanged
    assert await plan_schedules(shard.session, shard.holder, plannings) == frozenset()
    assert (await row(shard.dsn))["missed_once"] == "skip"
    again = (await shard.take()).claimed
    assert await plan_schedules(shard.session, shard.holder, [planning_of(timer) for timer in again])
    await shard.fire((await shard.take(horizon_s=0.0)).claimed)
    found = await numbers(shard.dsn)
    assert found[:2] == [("PAUSED", 1), ("RESUMED", 1)]
    assert found[2:] == [("SKIPPED", 1)], "no missed occurrence has fired"


async def test_a_firing_decided_by_an_earlier_resume_is_fenced_after_another_pause_and_resume(
    shard: HolderClient, client: HolderClient
) -> None:
    await paused(shard.dsn, client)
    await resume_timer(client.session, BEAT, missed="fire_all")
    held = (await shard.take()).claimed

    await pause_timer(client.session, BEAT)
    await resume_timer(client.session, BEAT, missed="skip")

    assert (await shard.fire(held)).timer_keys == frozenset()
    await serve(shard)
    assert [it for it in await numbers(shard.dsn) if it[0] in ("TRIGGERED", "SKIPPED")] == [("SKIPPED", 1)]


async def test_the_second_of_two_resumes_changes_nothing(client: HolderClient, shard: HolderClient) -> None:
    await paused(shard.dsn, client)

    assert await resume_timer(client.session, BEAT, missed="fire_all") == "PENDING"
    assert await resume_timer(client.session, BEAT, missed="skip") == "PENDING"
    await serve(shard)

    assert [it for it in await numbers(shard.dsn) if it[0] != "PAUSED"] == [
        ("RESUMED", 1), *(("TRIGGERED", number) for number in (1, 2, 3, 4)),
    ]  # fmt: skip


async def test_the_first_of_two_simultaneous_resumes_sets_the_choice(
    shard: HolderClient, client: HolderClient, other: HolderClient
) -> None:
    await paused(shard.dsn, client)
    await other.begin()
    assert await resume_timer(other.session, BEAT, missed="skip") == "PENDING"
    resuming = await waits(client, resume_timer(client.session, BEAT, missed="fire_all"))

    await other.commit()

    assert await ends(resuming) == "PENDING"
    await serve(shard)
    assert [it for it in await numbers(shard.dsn) if it[0] != "PAUSED"] == [("RESUMED", 1), ("SKIPPED", 1)]


@pytest.mark.parametrize(
    ("then", "rest"),
    [
        ("fire_all", [("TRIGGERED", 3), ("TRIGGERED", 4)]),
        ("fire_once", [("TRIGGERED", 3), ("SKIPPED", 4)]),
        ("skip", [("SKIPPED", 3)]),
        ("policy", [("SKIPPED", 3)]),
    ],
)
async def test_a_pause_during_the_catch_up_stops_it_and_the_next_resume_applies_to_the_remaining_occurrences(
    shard: HolderClient, client: HolderClient, then: str, rest: list[tuple[str, int]]
) -> None:
    # Given four missed occurrences, of which a shard has fired two and leases the third
    await paused(shard.dsn, client, "skip")
    await resume_timer(client.session, BEAT, missed="fire_all")
    for _ in range(2):
        await shard.fire((await shard.take(horizon_s=0.0)).claimed)
    held = (await shard.take(horizon_s=0.0)).claimed

    # When a client pauses the schedule
    await pause_timer(client.session, BEAT)

    # Then no timer fires until a resume chooses again
    assert (await shard.fire(held)).timer_keys == frozenset()
    assert (await shard.take()).claimed == []
    assert (await row(shard.dsn))["missed_once"] is None
    await resume_timer(client.session, BEAT, missed=then)
    await serve(shard)
    done = [it for it in await numbers(shard.dsn) if it[0] in ("TRIGGERED", "SKIPPED")]
    assert done == [("TRIGGERED", 1), ("TRIGGERED", 2), *rest]


async def test_a_shard_that_takes_over_continues_the_catch_up_and_fires_each_occurrence_once(
    shard: HolderClient, client: HolderClient
) -> None:
    # Given a shard that has fired the first missed occurrence, leases the second occurrence, and ends
    await paused(shard.dsn, client, "skip")
    await resume_timer(client.session, BEAT, missed="fire_all")
    await shard.fire((await shard.take(horizon_s=0.0)).claimed)
    held = (await shard.take(horizon_s=0.0)).claimed
    await query(shard.dsn, "update shardclock.holders set ended_at = now(), ended_why = 'dead' where holder = $1", ONE)
    await add_holder(shard.dsn, TWO)

    # When another shard takes over these timers, and then the late firing of the first shard arrives
    async with HolderClient(shard.dsn, holder=TWO, plans={}) as successor:
        taken = (await successor.take(horizon_s=0.0)).claimed
        assert (await shard.fire(held)).timer_keys == frozenset()
        await successor.fire(taken)
        await serve(successor)

    done = [it for it in await numbers(shard.dsn) if it[0] in ("TRIGGERED", "SKIPPED")]
    assert done == [("TRIGGERED", number) for number in (1, 2, 3, 4)]
    early = await query(shard.dsn, "select 1 from shardclock.command_log where recorded_at < due_date and holder > 0")
    assert early == []
