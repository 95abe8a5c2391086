"""Prove that a verb acts once on the current row and answers truly, even during a firing or another verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.sql.clients.verbs import (
    NewRule,
    Shift,
    TimerRef,
    cancel_process_instance,
    cancel_timer,
    pause_timer,
    pause_timers,
    reschedule_timer,
    resume_timer,
    run_timer,
    shift_timers,
)
from tests.support.factories import HolderClient, ends, held_beat, intents, query, waits
from tests.support.occurrences import row
from tests.support.sql_client import schedule

BEAT = TimerRef(name="beat")
LATER = datetime(2040, 1, 1, tzinfo=UTC)
Act = Callable[[HolderClient, TimerRef], Awaitable[str]]

# Each verb, with its answer and the intent of its record.
VERBS: dict[str, tuple[Act, str, str]] = {
    "pause": (lambda hand, it: pause_timer(hand.session, it), "PAUSED", "PAUSED"),
    "run": (lambda hand, it: run_timer(hand.session, it), "RESCHEDULED", "RESCHEDULED"),
    "move": (lambda hand, it: reschedule_timer(hand.session, it, LATER), "RESCHEDULED", "RESCHEDULED"),
    "shift": (lambda hand, it: reschedule_timer(hand.session, it, Shift("P1D")), "RESCHEDULED", "RESCHEDULED"),
    "rule": (lambda hand, it: reschedule_timer(hand.session, it, NewRule("@daily")), "RESCHEDULED", "RESCHEDULED"),
}
each_verb = pytest.mark.parametrize(("act", "answer", "intent"), VERBS.values(), ids=VERBS)


async def log(dsn: str) -> list[tuple[str, int]]:
    rows = await query(dsn, "select intent, occurrence from shardclock.command_log order by position")
    return [(it["intent"], it["occurrence"]) for it in rows]


# A verb during a firing


@each_verb
async def test_a_verb_by_name_changes_the_next_occurrence_if_one_fires_while_it_waits(
    shard_ahead: HolderClient, client: HolderClient, act: Act, answer: str, intent: str
) -> None:
    held = await held_beat(shard_ahead)
    await shard_ahead.begin()
    assert (await shard_ahead.fire(held)).timer_keys
    acting = await waits(client, act(client, BEAT))

    await shard_ahead.commit()

    assert await ends(acting) == answer
    assert await log(shard_ahead.dsn) == [("TRIGGERED", 1), (intent, 2)]
    after = await row(shard_ahead.dsn)
    assert (after["occurrence"], after["claimed_by"]) == (2, None)
    changed = await query(shard_ahead.dsn, "select detail from shardclock.command_log where occurrence = 2")
    assert (after["paused_due_date"] is not None) == (intent == "PAUSED")
    assert "by" in changed[0]["detail"]


@each_verb
async def test_a_verb_by_key_changes_no_other_timer_and_answers_that_it_fired(
    shard_ahead: HolderClient, client: HolderClient, act: Act, answer: str, intent: str
) -> None:
    held = await held_beat(shard_ahead)
    await shard_ahead.begin()
    await shard_ahead.fire(held)
    acting = await waits(client, act(client, TimerRef(held[0].timer_key)))

    await shard_ahead.commit()

    assert await ends(acting) == "TRIGGERED"
    assert await log(shard_ahead.dsn) == [("TRIGGERED", 1)]


@each_verb
async def test_a_firing_that_is_rolled_back_leaves_the_occurrence_to_the_verb(
    shard_ahead: HolderClient, client: HolderClient, act: Act, answer: str, intent: str
) -> None:
    held = await held_beat(shard_ahead)
    await shard_ahead.begin()
    await shard_ahead.fire(held)
    acting = await waits(client, act(client, BEAT))

    await shard_ahead.rollback()

    assert await ends(acting) == answer
    assert await log(shard_ahead.dsn) == [(intent, 1)]
    assert (await shard_ahead.fire(held)).timer_keys == frozenset()


@each_verb
async def test_a_shard_skips_a_timer_that_a_verb_is_changing(
    shard_ahead: HolderClient, client: HolderClient, act: Act, answer: str, intent: str
) -> None:
    held = await held_beat(shard_ahead)
    await client.begin()
    assert await act(client, BEAT) == answer

    assert (await shard_ahead.fire(held)).timer_keys == frozenset()
    assert (await shard_ahead.take(fire_overdue=True)).claimed == []
    await client.commit()

    assert (await shard_ahead.fire(held)).timer_keys == frozenset()
    assert await log(shard_ahead.dsn) == [(intent, 1)]


async def test_a_timer_that_ends_while_it_is_resumed_answers_with_its_end(
    shard_ahead: HolderClient, client: HolderClient, other: HolderClient
) -> None:
    key = await schedule(client, name="n")
    await pause_timer(client.session, TimerRef(key))
    await other.begin()
    await cancel_timer(other.session, TimerRef(key))
    resuming = await waits(client, resume_timer(client.session, TimerRef(name="n")))

    await other.commit()

    assert await ends(resuming) == "CANCELED"


async def test_canceling_a_process_instance_during_the_firing_of_its_schedule_cancels_all_its_timers(
    shard_ahead: HolderClient, client: HolderClient
) -> None:
    held = await held_beat(shard_ahead, process_instance_key="7")
    plain = await schedule(client, process_instance_key=7)
    await shard_ahead.begin()
    await shard_ahead.fire(held)
    cancelling = await waits(client, cancel_process_instance(client.session, 7, reason="ended"))

    await shard_ahead.commit()

    assert await ends(cancelling) == 2
    assert await query(shard_ahead.dsn, "select from shardclock.timers") == []
    assert (await log(shard_ahead.dsn)).count(("CANCELED", 2)) == 1
    assert (await intents(shard_ahead.dsn))[(plain, "CANCELED")] == 1


# A verb during another client's verb


TWICE: dict[str, tuple[Act, list[str], int]] = {
    "pause": (VERBS["pause"][0], ["PAUSED", "PAUSED"], 1),
    "run": (VERBS["run"][0], ["RESCHEDULED", "PENDING"], 1),
    "cancel": (lambda hand, it: cancel_timer(hand.session, it), ["CANCELED", "CANCELED"], 1),
    "rule": (VERBS["rule"][0], ["RESCHEDULED", "RESCHEDULED"], 2),
    "shift": (VERBS["shift"][0], ["RESCHEDULED", "RESCHEDULED"], 2),
}


@pytest.mark.parametrize(("act", "answers", "records"), TWICE.values(), ids=TWICE)
async def test_the_second_of_two_equal_verbs_waits_and_finds_the_work_done(
    client: HolderClient, other: HolderClient, act: Act, answers: list[str], records: int
) -> None:
    key = await schedule(client, schedule="R/PT1H", name="beat")
    due = (await row(client.dsn))["due_date"]
    await other.begin()
    first = await act(other, BEAT)
    acting = await waits(client, act(client, BEAT))

    await other.commit()

    assert [first, await ends(acting)] == answers
    assert len(await log(client.dsn)) == records
    assert {it for it, _ in await intents(client.dsn)} == {key}
    if act is VERBS["shift"][0]:
        assert (await row(client.dsn))["due_date"] == due + timedelta(days=2), "two shifts are two"


async def test_a_shift_sent_again_while_it_is_under_way_moves_no_timer_twice(
    client: HolderClient, other: HolderClient
) -> None:
    keys = [await schedule(client, due_date=LATER) for _ in range(2)]
    await other.begin()
    assert len(await shift_timers(other.session, keys[:1], Shift("P1D"), operation="o")) == 1
    again = await waits(client, shift_timers(client.session, keys, Shift("P1D"), operation="o"))

    await other.commit()

    assert await ends(again) == keys[1:], "the one that the first did not move"
    rows = await query(client.dsn, "select due_date from shardclock.timers")
    assert [it["due_date"] for it in rows] == [LATER + timedelta(days=1)] * 2


async def test_shifts_of_other_operations_do_not_wait(client: HolderClient, other: HolderClient) -> None:
    keys = [await schedule(client, due_date=LATER) for _ in range(3)]
    await other.begin()
    await shift_timers(other.session, keys[:1], Shift("P1D"), operation="one")

    assert len(await shift_timers(client.session, keys[1:2], Shift("P1D"), operation="two")) == 1
    assert await client.value("select count(*) from shardclock.shift_timers($1, 'P1D')", keys[2:]) == 1
    await other.rollback()


async def test_a_cancel_that_waits_for_a_pause_cancels_and_a_pause_that_waits_for_a_cancel_returns_canceled(
    client: HolderClient, other: HolderClient
) -> None:
    for first, second in ((pause_timer, cancel_timer), (cancel_timer, pause_timer)):
        key = await schedule(client, due_date=LATER, name="n")
        await other.begin()
        await first(other.session, TimerRef(key))
        acting = await waits(client, second(client.session, TimerRef(name="n")))

        await other.commit()

        assert await ends(acting) == "CANCELED"
        (canceled,) = await query(
            client.dsn, "select due_date from shardclock.command_log where timer_key = $1 and intent = 'CANCELED'", key
        )
        assert canceled["due_date"] == LATER


async def test_a_pause_of_many_timers_continues_when_a_timer_ends_meanwhile(
    client: HolderClient, other: HolderClient
) -> None:
    keys = [await schedule(client) for _ in range(3)]
    await other.begin()
    await cancel_timer(other.session, TimerRef(keys[1]))
    pausing = await waits(client, pause_timers(client.session, keys))

    await other.commit()

    assert await ends(pausing) == [keys[0], keys[2]]
