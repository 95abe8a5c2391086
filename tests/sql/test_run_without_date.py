"""Prove that a run of a schedule that no shard has planned yet is never lost, and leaves the schedule unchanged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock_server.service.next_due import next_due_of
from shardclock_server.shards.firing import planning_of
from shardclock_server.sql.clients.history import read_upcoming
from shardclock_server.sql.clients.verbs import (
    NewRule,
    Shift,
    TimerRef,
    cancel_timer,
    pause_timer,
    reschedule_timer,
    resume_timer,
    run_timer,
    shift_timers,
)
from shardclock_server.sql.firing.fire import pause_faulty, plan_schedules
from shardclock_server.sql.session import StatementRefused
from tests.support.factories import HolderClient, query, value
from tests.support.occurrences import numbers, row, serve
from tests.support.sql_client import call, schedule

BEAT = TimerRef(name="beat")
YEARLY, BERLIN = "0 9 1 1 *", "Europe/Berlin"
RULES = [YEARLY, "0 9 L * *", "R/P1M", "R5/P1D", "@yearly", "R2/2031-01-31T08:00:00Z/P1M"]


async def make(client: HolderClient, rule: str = YEARLY, **more: Any) -> int:
    return await schedule(client, schedule=rule, zone=BERLIN, name="beat", **more)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("operation", [None, "o"])
@pytest.mark.parametrize("same_transaction", [True, False])
async def test_an_extra_run_of_a_schedule_without_a_date_fires_once_and_does_not_change_the_rules_dates(
    shard: HolderClient, client: HolderClient, rule: str, operation: str | None, same_transaction: bool
) -> None:
    # Given the dates of the rule without a requested run
    await client.begin()
    await make(client, rule)
    await client.commit()
    made = await value(shard.dsn, "select anchor from shardclock.timers")
    await serve(shard)
    plain = await row(shard.dsn)
    await cancel_timer(client.session, BEAT)

    # When an equal schedule is run before it is planned, twice
    await client.begin()
    await make(client, rule)
    if not same_transaction:
        await client.commit()
    assert await run_timer(client.session, BEAT, operation=operation) == "RESCHEDULED"
    again = await run_timer(client.session, BEAT, operation=operation)
    if same_transaction:
        await client.commit()
    await serve(shard)

    # Then the schedule fires once, and its dates and its repetitions follow the rule.
    assert again == ("RESCHEDULED" if operation else "PENDING")
    assert await numbers(shard.dsn) == [("CANCELED", 1), ("TRIGGERED", 1)]
    after = await row(shard.dsn)
    assert (after["occurrence"], after["kept_due_date"]) == (2, None)
    assert abs(after["due_date"] - plain["due_date"]) <= after["anchor"] - made
    assert after["anchor_occurrence"] == plain["anchor_occurrence"] + 1
    assert after["repetitions"] == plain["repetitions"] + (plain["repetitions"] > 0)


async def test_a_repeated_operation_does_not_run_it_again_after_it_fired(
    shard: HolderClient, client: HolderClient
) -> None:
    await make(client)
    assert await run_timer(client.session, BEAT, operation="o") == "RESCHEDULED"
    await serve(shard)

    assert await run_timer(client.session, BEAT, operation="o") == "RESCHEDULED"
    await serve(shard)

    assert await numbers(shard.dsn) == [("TRIGGERED", 1)]


async def test_a_run_of_many_timers_also_returns_schedules_without_a_date(
    shard: HolderClient, client: HolderClient
) -> None:
    keys = [await schedule(client, schedule=YEARLY, name=f"s{number}") for number in range(3)]

    ran = await query(shard.dsn, "select shardclock.run_timers($1, 'o') as key", keys)
    await serve(shard)

    assert sorted(each["key"] for each in ran) == keys
    assert await numbers(shard.dsn) == [("TRIGGERED", 1)] * 3


# Changes that a client makes after it has requested the run and before a shard plans the schedule


async def pause_and_resume(client: HolderClient) -> None:
    await pause_timer(client.session, BEAT)
    assert await run_timer(client.session, BEAT) == "PAUSED"
    assert await resume_timer(client.session, BEAT) == "PENDING"


async def give_another_rule(client: HolderClient) -> None:
    assert await reschedule_timer(client.session, BEAT, NewRule("0 8 1 1 *")) == "RESCHEDULED"


async def replace(client: HolderClient) -> None:
    answer = await client.value(
        "select (shardclock.ensure_timer(schedule => '0 8 1 1 *', name => 'beat', payload => '1',"
        " on_conflict => 'replace')).outcome"
    )
    assert answer == "replaced"


async def replace_by_a_planned_one(client: HolderClient) -> None:
    await schedule(client, schedule="R/PT8760H", name="beat", on_conflict="replace")


async def make_again(client: HolderClient) -> None:
    """Schedule the same timer again, with the same name, as a client's repeated request."""
    await make(client, on_conflict="replace")


async def move_and_run(client: HolderClient) -> None:
    """Move the run to a later date, and ask for a run once more."""
    assert await reschedule_timer(client.session, BEAT, datetime(2031, 1, 1, tzinfo=UTC)) == "RESCHEDULED"
    assert await run_timer(client.session, BEAT) == "RESCHEDULED"


CHANGES: list[Callable[[HolderClient], Awaitable[None]]] = [
    pause_and_resume, give_another_rule, replace, replace_by_a_planned_one, make_again, move_and_run,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.__name__))
@pytest.mark.parametrize("same_transaction", [True, False])
async def test_a_run_survives_a_change_before_the_plan(
    shard: HolderClient, client: HolderClient, change: Callable[[HolderClient], Awaitable[None]], same_transaction: bool
) -> None:
    await client.begin()
    await make(client)
    assert await run_timer(client.session, BEAT, operation="o") == "RESCHEDULED"
    if not same_transaction:
        await client.commit()
        await client.begin()
    await change(client)
    assert await run_timer(client.session, BEAT, operation="o") == "RESCHEDULED", "as before: it will fire"
    await client.commit()

    await serve(shard)

    assert [it for it in await numbers(shard.dsn) if it[0] == "TRIGGERED"] == [("TRIGGERED", 1)]
    after = await row(shard.dsn)
    assert (after["occurrence"], after["kept_due_date"]) == (2, None)
    assert after["due_date"] > datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize("is_planned", [False, True], ids=["unplanned", "planned"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["pending", "paused"])
@pytest.mark.parametrize("new", [replace, replace_by_a_planned_one], ids=lambda change: str(change.__name__))
async def test_a_moved_run_keeps_its_date_when_its_schedule_is_replaced(
    shard: HolderClient,
    client: HolderClient,
    is_planned: bool,
    is_paused: bool,
    new: Callable[[HolderClient], Awaitable[None]],
) -> None:
    # Given a run that a client moved to a later time
    await make(client)
    if is_planned:
        await serve(shard)
    await run_timer(client.session, BEAT)
    later = datetime.now(UTC) + timedelta(hours=1)
    assert await reschedule_timer(client.session, BEAT, later) == "RESCHEDULED"
    if is_paused:
        await pause_timer(client.session, BEAT)

    # When its schedule is replaced, then the run waits for its date
    await new(client)
    if is_paused:
        await resume_timer(client.session, BEAT)
    await serve(shard)
    assert "TRIGGERED" not in [intent for intent, _ in await numbers(shard.dsn)]
    assert (await row(shard.dsn))["due_date"] == later

    # and fires once, and the new rule follows.
    await query(shard.dsn, "update shardclock.timers set due_date = now() where due_date = $1", later)
    await serve(shard)
    assert [it for it in await numbers(shard.dsn) if it[0] == "TRIGGERED"] == [("TRIGGERED", 1)]
    after = await row(shard.dsn)
    assert (after["occurrence"], after["kept_due_date"]) == (2, None)


async def test_a_plain_timer_that_replaces_the_schedule_gets_no_run(shard: HolderClient, client: HolderClient) -> None:
    await make(client)
    await run_timer(client.session, BEAT)

    await schedule(client, delay="PT1H", name="beat", on_conflict="replace")
    await serve(shard)

    assert await numbers(shard.dsn) == [("CANCELED", 1)]


@pytest.mark.parametrize("to", [Shift("P1D"), datetime(2031, 1, 1, tzinfo=UTC)])
async def test_a_move_of_a_schedule_without_a_date_is_refused(client: HolderClient, to: Any) -> None:
    key = await make(client)

    with pytest.raises(StatementRefused, match="has no date yet: a running cluster plans its schedule"):
        await reschedule_timer(client.session, BEAT, to)
    assert len(await shift_timers(client.session, [key], Shift("P1D"), operation="s")) == 0


async def test_a_run_over_a_schedule_without_a_date_is_moved_to_a_date(
    shard: HolderClient, client: HolderClient
) -> None:
    await make(client)
    await run_timer(client.session, BEAT)

    assert await reschedule_timer(client.session, BEAT, datetime(2031, 1, 1, tzinfo=UTC)) == "RESCHEDULED"
    await serve(shard)

    assert await numbers(shard.dsn) == []
    assert (await row(shard.dsn))["due_date"] > datetime.now(UTC)


@pytest.mark.parametrize("by", ["P1D", "-P1D"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["pending", "paused"])
async def test_a_shift_of_a_run_over_a_schedule_without_a_date_is_refused_and_the_run_fires(
    shard: HolderClient, client: HolderClient, by: str, is_paused: bool
) -> None:
    key = await make(client)
    await run_timer(client.session, BEAT)
    if is_paused:
        await pause_timer(client.session, BEAT)

    with pytest.raises(StatementRefused, match="has no date yet: a running cluster plans its schedule"):
        await reschedule_timer(client.session, BEAT, Shift(by))
    assert len(await shift_timers(client.session, [key], Shift(by), operation="s")) == 0

    if is_paused:
        await resume_timer(client.session, BEAT)
    await serve(shard)
    assert ("TRIGGERED", 1) in await numbers(shard.dsn)


async def test_a_shard_that_planned_the_version_before_the_run_loses_its_plan(
    shard: HolderClient, client: HolderClient
) -> None:
    await make(client)
    taken = (await shard.take(horizon_s=0.0)).claimed

    await run_timer(client.session, BEAT)

    assert await plan_schedules(shard.session, shard.holder, [planning_of(it) for it in taken]) == frozenset()
    await serve(shard)
    assert await numbers(shard.dsn) == [("TRIGGERED", 1)]


async def test_a_run_of_a_schedule_paused_for_its_faulty_rule_fires_after_the_repair(
    shard: HolderClient, client: HolderClient
) -> None:
    # Given a requested run of a timer, and then a shard that refuses the timer's rule
    await make(client)
    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    (timer,) = (await shard.take(horizon_s=0.0)).claimed
    await pause_faulty(shard.session, shard.holder, timer, why="it never occurs")
    assert await run_timer(client.session, BEAT) == "PAUSED"

    # When the rule is repaired
    await give_another_rule(client)
    await resume_timer(client.session, BEAT)
    await serve(shard)

    # Then the run fires.
    assert [intent for intent, _ in await numbers(shard.dsn)] == ["PAUSED", "RESUMED", "TRIGGERED"]


async def test_the_next_occurrences_of_a_schedule_without_a_date_begin_with_its_run(
    shard: HolderClient, client: HolderClient
) -> None:
    await make(client)
    await call(client, "run_timer", name="beat")
    run = (await row(shard.dsn))["due_date"]
    plan = await read_upcoming(shard.session, BEAT)
    assert plan is not None

    seen = next_due_of(plan, run)
    before = next_due_of(plan, run - timedelta(seconds=1))

    assert (seen.next.due_date, seen.due, seen.after and seen.after.number) == (run, 1, 2)
    assert (before.next.due_date, before.due) == (run, 0)
