"""Prove that every verb changes a pending timer, returns the true state of any other timer, and leaves a record."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock_server.sql.claims.claim import still_leased
from shardclock_server.sql.clients.verbs import (
    NewRule,
    Shift,
    TimerRef,
    cancel_process_instance,
    cancel_timer,
    cancel_timers,
    pause_timer,
    pause_timers,
    reschedule_timer,
    resume_timer,
    run_timer,
    shift_timers,
)
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import HolderClient, add_schedule, ended_rule, intents, only_timer, query, value
from tests.support.sql_client import call, schedule

DUE = datetime(2031, 1, 31, 8, tzinfo=UTC)
LATER = datetime(2032, 1, 1, tzinfo=UTC)
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC)
HOUR = timedelta(hours=1)
CRON = NewRule("0 0 8 * * MON")
Act = Callable[[HolderClient, TimerRef], Awaitable[str | int | list[int]]]
VERBS: dict[str, Act] = {
    "cancel": lambda hand, which: cancel_timer(hand.session, which),
    "pause": lambda hand, which: pause_timer(hand.session, which),
    "resume": lambda hand, which: resume_timer(hand.session, which),
    "run": lambda hand, which: run_timer(hand.session, which),
    "move": lambda hand, which: reschedule_timer(hand.session, which, LATER),
    "delay": lambda hand, which: reschedule_timer(hand.session, which, parse_duration("PT5M")),
    "shift": lambda hand, which: reschedule_timer(hand.session, which, Shift("-PT1H")),
    "rule": lambda hand, which: reschedule_timer(hand.session, which, CRON),
}
MOVES = dict.fromkeys(["move", "delay", "shift", "rule"], "RESCHEDULED")


async def pause(client: HolderClient, shard: HolderClient) -> None:
    await schedule(client, due_date=DUE, name="n")
    await pause_timer(client.session, TimerRef(name="n"))


async def end(client: HolderClient, shard: HolderClient) -> None:
    await schedule(client, delay="PT0S", name="n")
    assert (await shard.take(fire_overdue=True)).fired == 1


async def cancel(client: HolderClient, shard: HolderClient) -> None:
    await schedule(client, name="n")
    await cancel_timer(client.session, TimerRef(name="n"))


async def skip(client: HolderClient, shard: HolderClient) -> None:
    await add_schedule(
        client.dsn, due="now() - interval '5 hours'", name="'n'", missed="'skip'", schedule=ended_rule(),
        anchor="now() - interval '6 hours'",
    )  # fmt: skip
    await shard.fire((await shard.take()).claimed)


STATES: dict[str, tuple[Callable[[HolderClient, HolderClient], Awaitable[Any]], dict[str, str]]] = {
    "pending": (
        lambda client, _: schedule(client, due_date=DUE, name="n"),
        {"cancel": "CANCELED", "pause": "PAUSED", "resume": "PENDING", "run": "RESCHEDULED", **MOVES},
    ),
    "due already": (
        lambda client, _: schedule(client, delay="PT0S", name="n"),
        {"cancel": "CANCELED", "pause": "PAUSED", "resume": "PENDING", "run": "PENDING", **MOVES},
    ),
    "unplanned": (
        lambda client, _: schedule(client, schedule="0 8 * * *", name="n"),
        {"cancel": "CANCELED", "pause": "PAUSED", "resume": "PENDING", "run": "RESCHEDULED", "rule": "RESCHEDULED"},
    ),
    "paused": (pause, {"cancel": "CANCELED", "pause": "PAUSED", "resume": "PENDING", "run": "PAUSED", **MOVES}),
    "fired": (end, dict.fromkeys(VERBS, "TRIGGERED")),
    "cancelled": (cancel, dict.fromkeys(VERBS, "CANCELED")),
    "skipped": (skip, dict.fromkeys(VERBS, "SKIPPED")),
}


@pytest.mark.parametrize("state", STATES)
async def test_the_answer_of_every_verb_is_true_in_every_state_and_remains_true(
    client: HolderClient, shard: HolderClient, state: str
) -> None:
    make, answers = STATES[state]
    await make(client, shard)
    key = await client.value("select timer_key from shardclock.timer_history where name = 'n'")

    for verb, answer in answers.items():
        for which in (TimerRef(timer_key=key), TimerRef(name="n")):
            await client.begin()
            said = [await VERBS[verb](client, which) for _ in range(2)]
            # At the second call, the timer is already due.
            again = "PENDING" if (verb, answer) == ("run", "RESCHEDULED") else answer
            assert said == [answer, again], (verb, which)
            await client.rollback()


async def test_unknown_timers_and_timers_of_another_tenant_are_unknown_and_unchanged(client: HolderClient) -> None:
    key = await schedule(client, name="n")
    before = await only_timer(client)

    for verb, act in VERBS.items():
        for which in (TimerRef(timer_key=key + 1), TimerRef(name="m"), TimerRef(name="n", tenant_id="other")):
            assert await act(client, which) == "UNKNOWN", verb

    assert await only_timer(client) == before


async def test_a_timer_that_was_skipped_under_fire_once_has_fired(client: HolderClient, shard: HolderClient) -> None:
    anchor = "now() - interval '6 hours'"
    key = await add_schedule(client.dsn, ended_rule(), "now() - interval '5 hours'", anchor=anchor)
    await shard.fire((await shard.take()).claimed)

    assert (await intents(client.dsn)).keys() == {(key, "TRIGGERED"), (key, "SKIPPED")}
    assert [await cancel_timer(client.session, it) for it in (TimerRef(key), TimerRef(name="beat"))] == [
        "TRIGGERED"
    ] * 2


async def test_a_verb_reports_how_the_newest_timer_of_a_name_ended_even_after_the_clock_was_set_back(
    client: HolderClient, shard: HolderClient
) -> None:
    await cancel(client, shard)
    await query(client.dsn, "update shardclock.command_log set recorded_at = recorded_at + interval '1 hour'")

    await end(client, shard)

    for verb, act in VERBS.items():
        assert await act(client, TimerRef(name="n")) == "TRIGGERED", verb


# Records

RULE = {"schedule": "@daily", "zone": "Asia/Tokyo", "missed": "skip"}
RECORDED: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "cancel": ("cancel_timer", {"reason": "paid"}, "CANCELED", {"reason": "paid"}),
    "cancel without a reason": ("cancel_timer", {}, "CANCELED", {}),
    "pause": ("pause_timer", {"reason": "lunch"}, "PAUSED", {"reason": "lunch"}),
    "run": ("run_timer", {}, "RESCHEDULED", {"run_now": True}),
    "move": ("reschedule_timer", {"due_date": LATER}, "RESCHEDULED", {}),
    "delay": ("reschedule_timer", {"delay": "PT5M"}, "RESCHEDULED", {}),
    "shift": ("reschedule_timer", {"shift": "P1M"}, "RESCHEDULED", {}),
    "rule": ("reschedule_timer", RULE, "RESCHEDULED", RULE),
}


async def test_each_verb_leaves_one_record_with_the_old_and_new_values_and_the_role(each_dsn: str) -> None:
    async with HolderClient(each_dsn, plans={}) as client:
        for said, (function, arguments, intent, detail) in RECORDED.items():
            await client.begin()
            key = await schedule(client, due_date=DUE, name="n", tenant_id="acme", payload='{"a": 1}')
            await call(client, function, name="n", tenant_id="acme", **arguments)
            to = {}
            if intent == "RESCHEDULED" and detail != RULE:
                to = {"due_date": (await only_timer(client))["due_date"]}
            (row,) = await client.connection.fetch("select * from shardclock.command_log")
            await client.rollback()

            told = json.loads(row["detail"])
            if "due_date" in told:
                told["due_date"] = datetime.fromisoformat(told["due_date"])
            assert (row["intent"], told) == (intent, {**detail, **to, "by": "test_scheduler"}), said
            assert row["due_date"] == DUE, "the one that it had before"
            assert (row["timer_key"], row["name"], row["tenant_id"]) == (key, "n", "acme")
            assert (row["payload"], row["holder"]) == ('{"a": 1}', None)


async def test_a_timer_is_moved_to_a_moment_by_a_delay_from_now_or_by_a_shift(client: HolderClient) -> None:
    key = await schedule(client, due_date=DUE, zone="Europe/Berlin")
    one_o_clock_in_berlin = datetime(2032, 6, 30, 23, tzinfo=UTC)  # on 1 July
    await client.begin()
    in_five_minutes = await client.value("select now() + interval '5 minutes'")

    for to, due in (
        (LATER, LATER),
        (Shift("P6M"), one_o_clock_in_berlin),
        (Shift("-P1DT0.5S"), one_o_clock_in_berlin - timedelta(days=1, seconds=0.5)),
        (parse_duration("PT5M"), in_five_minutes),
    ):
        assert await reschedule_timer(client.session, TimerRef(key), to) == "RESCHEDULED"
        assert (await only_timer(client))["due_date"] == due


async def test_a_shift_of_a_timer_in_the_year_9999_is_refused_and_moves_no_timer(client: HolderClient) -> None:
    keys = [await schedule(client, due_date=LATER), await schedule(client, due_date=END_OF_TIME - HOUR)]
    before = await query(client.dsn, "select * from shardclock.timers order by 1")

    with pytest.raises(InvalidTimer, match=r"shift 'PT2H' is too long: it would move a timer out of the years 1 to"):
        await shift_timers(client.session, keys, Shift("PT2H"), operation="o")

    assert await query(client.dsn, "select * from shardclock.timers order by 1") == before


# Paused timers


async def test_a_paused_timer_keeps_its_due_date_moves_and_never_fires(
    client: HolderClient, shard: HolderClient
) -> None:
    key = await schedule(client, delay="PT0S", name="n")
    due = (await only_timer(client))["due_date"]
    held = (await shard.take()).claimed
    assert await pause_timer(client.session, TimerRef(key)) == "PAUSED"

    for fire_overdue in (False, True):
        assert (await shard.take(scope="sweep", horizon_s=1e9, fire_overdue=fire_overdue)).claimed == []
    assert (await shard.fire(held)).timer_keys == frozenset()
    row = await only_timer(client)
    assert (row["due_date"], row["paused_due_date"]) == (END_OF_TIME, due)
    assert (row["claimed_by"], row["claimed_until"]) == (None, None)

    await reschedule_timer(client.session, TimerRef(key), Shift("-PT1H"))
    assert (await only_timer(client))["paused_due_date"] == due - HOUR
    await shift_timers(client.session, [key], Shift("PT2H"), operation="o")
    assert (await only_timer(client))["paused_due_date"] == due + HOUR
    await reschedule_timer(client.session, TimerRef(key), due)
    assert (await only_timer(client))["due_date"] == END_OF_TIME, "it stays paused"

    assert await resume_timer(client.session, TimerRef(key)) == "PENDING"
    row = await only_timer(client)
    assert (row["due_date"], row["paused_due_date"]) == (due, None)
    assert (await shard.take(fire_overdue=True)).fired == 1
    rows = await query(client.dsn, "select intent, due_date, detail from shardclock.command_log order by position")
    assert [row["intent"] for row in rows] == ["PAUSED", *["RESCHEDULED"] * 3, "RESUMED", "TRIGGERED"]
    assert [row["due_date"] for row in rows] == [due, due, due - HOUR, due + HOUR, due, due]
    assert rows[4]["detail"] == '{"by": "test_scheduler"}'


async def test_cancelling_a_paused_timer_records_the_due_date_that_it_had(
    client: HolderClient, shard: HolderClient
) -> None:
    await pause(client, shard)

    assert await cancel_timer(client.session, TimerRef(name="n")) == "CANCELED"

    assert await client.value("select due_date from shardclock.command_log where intent = 'CANCELED'") == DUE


# Claims

FENCING: dict[str, Act] = {
    **{name: verb for name, verb in VERBS.items() if name != "resume"},
    "cancel_timers": lambda hand, it: cancel_timers(hand.session, [it.timer_key or 0]),
    "pause_timers": lambda hand, it: pause_timers(hand.session, [it.timer_key or 0]),
    "shift_timers": lambda hand, it: shift_timers(hand.session, [it.timer_key or 0], Shift("-PT1H"), operation="o"),
    "cancel_process_instance": lambda hand, _: cancel_process_instance(hand.session, 7),
}


async def test_a_holder_with_a_lease_on_a_changed_timer_is_fenced(client: HolderClient, shard: HolderClient) -> None:
    for verb, act in FENCING.items():
        key = await schedule(client, delay="PT1S", process_instance_key=7)
        held = (await shard.take()).claimed
        assert [timer.timer_key for timer in held] == [key], verb

        await act(client, TimerRef(key))

        an_hour_on = await shard.value("select now() + interval '1 hour'")
        assert (await shard.fire(held, now=an_hour_on)).timer_keys == frozenset(), verb
        assert await still_leased(shard.session, shard.holder, [key]) == [], verb
        await cancel_timer(client.session, TimerRef(key))


async def test_a_verb_that_is_rolled_back_has_no_effect(client: HolderClient) -> None:
    key = await schedule(client, due_date=DUE, process_instance_key=7)
    before = await only_timer(client)

    for verb in FENCING.values():
        await client.begin()
        await verb(client, TimerRef(key))
        await client.rollback()

    assert await only_timer(client) == before
    assert await value(client.dsn, "select count(*) from shardclock.command_log") == 0
