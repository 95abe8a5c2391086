"""Prove that every verb does to a pending timer what it says, tells the truth about any other, and is recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sql.claims import still_held
from sql.session import StatementRefused
from sql.verbs import (
    NewRule,
    Shift,
    Which,
    cancel_process_instance,
    cancel_timer,
    cancel_timers,
    pause_timer,
    pause_timers,
    reschedule_timer,
    resume_timer,
    resume_timers,
    run_timer,
    shift_timers,
)
from tests.asking import call, refusal, schedule
from tests.store import Hand, add_holder, add_schedule, add_timers, intents, query, value
from timers.duration import parse_duration
from timers.refusal import InvalidTimer

DUE = datetime(2031, 1, 31, 8, tzinfo=UTC)
LATER = datetime(2032, 1, 1, tzinfo=UTC)
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC)
HOUR = timedelta(hours=1)
CRON = NewRule("0 0 8 * * MON")
Act = Callable[[Hand, Which], Awaitable[str | int]]

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


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Hand]:
    """Give a client's connection."""
    async with Hand(dsn, plans={}) as hand:
        yield hand


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[Hand]:
    """Give a holder that keeps all slots."""
    await add_holder(dsn, 1)
    async with Hand(dsn, holder=1) as hand:
        yield hand


async def timer(hand: Hand) -> dict[str, Any]:
    """Read the one timer that there is."""
    async with hand.session.connection() as connection:
        (row,) = await connection.fetch("select * from shardclock.timers")
    return dict(row)


async def pause(client: Hand, shard: Hand) -> None:
    """Pause a timer that is due in 2031."""
    await schedule(client, due_date=DUE, name="n")
    await pause_timer(client.session, Which(name="n"))


async def end(client: Hand, shard: Hand) -> None:
    """Let a timer fire."""
    await schedule(client, delay="PT0S", name="n")
    assert (await shard.take(fuse=True)).fired == 1


async def cancel(client: Hand, shard: Hand) -> None:
    """Cancel a timer."""
    await schedule(client, name="n")
    await cancel_timer(client.session, Which(name="n"))


async def skip(client: Hand, shard: Hand) -> None:
    """Let a schedule end with occurrences that were missed and skipped."""
    await add_schedule(
        client.dsn, "R2/PT1H", "now() - interval '5 hours'", name="'n'", missed="'skip'", repetitions="2",
        anchor="now() - interval '6 hours'",
    )  # fmt: skip
    await shard.fire((await shard.take()).claimed)


STATES: dict[str, tuple[Callable[[Hand, Hand], Awaitable[Any]], dict[str, str]]] = {
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
        {"cancel": "CANCELED", "pause": "PAUSED", "resume": "PENDING", "run": "PENDING", "rule": "RESCHEDULED"},
    ),
    "paused": (pause, {"cancel": "CANCELED", "pause": "PAUSED", "resume": "PENDING", "run": "PAUSED", **MOVES}),
    "fired": (end, dict.fromkeys(VERBS, "TRIGGERED")),
    "cancelled": (cancel, dict.fromkeys(VERBS, "CANCELED")),
    "skipped": (skip, dict.fromkeys(VERBS, "SKIPPED")),
}


@pytest.mark.parametrize("state", STATES)
async def test_the_answer_of_every_verb_is_true_in_every_state_and_stays_so(
    client: Hand, shard: Hand, state: str
) -> None:
    make, answers = STATES[state]
    await make(client, shard)
    key = await client.value("select timer_key from shardclock.timer_history where name = 'n'")

    for verb, answer in answers.items():
        for which in (Which(timer_key=key), Which(name="n")):
            await client.begin()
            said = [await VERBS[verb](client, which) for _ in range(2)]
            # What was made due now is due already the second time.
            again = "PENDING" if (verb, answer) == ("run", "RESCHEDULED") else answer
            assert said == [answer, again], (verb, which)
            await client.rollback()


async def test_what_is_nobody_s_or_another_tenant_s_is_unknown_and_left_alone(client: Hand) -> None:
    key = await schedule(client, name="n")
    before = await timer(client)

    for verb, act in VERBS.items():
        for which in (Which(timer_key=key + 1), Which(name="m"), Which(name="n", tenant_id="other")):
            assert await act(client, which) == "UNKNOWN", verb

    assert await timer(client) == before


async def test_a_timer_that_was_skipped_under_fire_once_has_fired(client: Hand, shard: Hand) -> None:
    missed = {"anchor": "now() - interval '6 hours'", "repetitions": "2"}
    key = await add_schedule(client.dsn, "R2/PT1H", "now() - interval '5 hours'", **missed)
    await shard.fire((await shard.take()).claimed)

    assert (await intents(client.dsn)).keys() == {(key, "TRIGGERED"), (key, "SKIPPED")}
    assert [await cancel_timer(client.session, it) for it in (Which(key), Which(name="beat"))] == ["TRIGGERED"] * 2


# What is written down


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


async def test_each_verb_leaves_one_record_with_what_was_what_will_be_and_by_whom(each_dsn: str) -> None:
    async with Hand(each_dsn, plans={}) as client:
        for said, (function, arguments, intent, detail) in RECORDED.items():
            await client.begin()
            key = await schedule(client, due_date=DUE, name="n", tenant_id="acme", payload='{"a": 1}')
            await call(client, function, name="n", tenant_id="acme", **arguments)
            to = {}
            if intent == "RESCHEDULED" and detail != RULE:
                to = {"due_date": (await timer(client))["due_date"]}
            (row,) = await client.connection.fetch("select * from shardclock.command_log")
            await client.rollback()

            told = json.loads(row["detail"])
            if "due_date" in told:
                told["due_date"] = datetime.fromisoformat(told["due_date"])
            assert (row["intent"], told) == (intent, {**detail, **to, "by": "postgres"}), said
            assert row["due_date"] == DUE, "the one that it had before"
            assert (row["timer_key"], row["name"], row["tenant_id"]) == (key, "n", "acme")
            assert (row["payload"], row["holder"]) == ('{"a": 1}', None)


async def test_a_timer_is_moved_to_a_moment_by_a_delay_from_now_or_by_a_shift(client: Hand) -> None:
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
        assert await reschedule_timer(client.session, Which(key), to) == "RESCHEDULED"
        assert (await timer(client))["due_date"] == due


async def test_a_shift_of_a_year_9999_timer_is_refused_and_moves_no_other_either(client: Hand) -> None:
    keys = [await schedule(client, due_date=LATER), await schedule(client, due_date=END_OF_TIME - HOUR)]
    before = await query(client.dsn, "select * from shardclock.timers order by 1")

    with pytest.raises(InvalidTimer, match=r'shift "PT2H" is too long: it would move a timer out of the years 1 to'):
        await shift_timers(client.session, keys, Shift("PT2H"), operation="o")

    assert await query(client.dsn, "select * from shardclock.timers order by 1") == before


# Paused


async def test_a_paused_timer_keeps_its_due_date_moves_and_never_fires(client: Hand, shard: Hand) -> None:
    key = await schedule(client, delay="PT0S", name="n")
    due = (await timer(client))["due_date"]
    held = (await shard.take()).claimed
    assert await pause_timer(client.session, Which(key)) == "PAUSED"

    for fuse in (False, True):
        assert (await shard.take(scope="all", horizon_s=1e9, fuse=fuse)).claimed == []
    assert (await shard.fire(held)).timer_keys == frozenset()
    row = await timer(client)
    assert (row["due_date"], row["paused_due_date"]) == (END_OF_TIME, due)
    assert (row["claimed_by"], row["claimed_until"]) == (None, None)

    await reschedule_timer(client.session, Which(key), Shift("-PT1H"))
    assert (await timer(client))["paused_due_date"] == due - HOUR
    await shift_timers(client.session, [key], Shift("PT2H"), operation="o")
    assert (await timer(client))["paused_due_date"] == due + HOUR
    await reschedule_timer(client.session, Which(key), due)
    assert (await timer(client))["due_date"] == END_OF_TIME, "it stays paused"

    assert await resume_timer(client.session, Which(key)) == "PENDING"
    row = await timer(client)
    assert (row["due_date"], row["paused_due_date"]) == (due, None)
    assert (await shard.take(fuse=True)).fired == 1
    rows = await query(client.dsn, "select intent, due_date, detail from shardclock.command_log order by position")
    assert [row["intent"] for row in rows] == ["PAUSED", *["RESCHEDULED"] * 3, "RESUMED", "TRIGGERED"]
    assert [row["due_date"] for row in rows] == [due, due, due - HOUR, due + HOUR, due, due]
    assert rows[4]["detail"] == '{"by": "postgres"}'


async def test_cancelling_a_paused_timer_records_the_due_date_that_it_had(client: Hand, shard: Hand) -> None:
    await pause(client, shard)

    assert await cancel_timer(client.session, Which(name="n")) == "CANCELED"

    assert await client.value("select due_date from shardclock.command_log where intent = 'CANCELED'") == DUE


# Claims


FENCING: dict[str, Act] = {
    **{name: verb for name, verb in VERBS.items() if name != "resume"},
    "cancel_timers": lambda hand, it: cancel_timers(hand.session, [it.timer_key or 0]),
    "pause_timers": lambda hand, it: pause_timers(hand.session, [it.timer_key or 0]),
    "shift_timers": lambda hand, it: shift_timers(hand.session, [it.timer_key or 0], Shift("-PT1H"), operation="o"),
    "cancel_process_instance": lambda hand, _: cancel_process_instance(hand.session, 7),
}


async def test_a_holder_that_has_leased_what_a_verb_changes_is_fenced(client: Hand, shard: Hand) -> None:
    for verb, act in FENCING.items():
        key = await schedule(client, delay="PT1S", process_instance_key=7)
        held = (await shard.take()).claimed
        assert [timer.timer_key for timer in held] == [key], verb

        await act(client, Which(key))

        an_hour_on = await shard.value("select now() + interval '1 hour'")
        assert (await shard.fire(held, now=an_hour_on)).timer_keys == frozenset(), verb
        assert await still_held(shard.session, shard.holder, [key]) == [], verb
        await cancel_timer(client.session, Which(key))


# Many at once


async def test_verbs_for_many_change_those_they_can_and_name_them(client: Hand) -> None:
    keys = [await schedule(client, name=f"n{i}") for i in range(4)]
    session = client.session
    await cancel_timer(session, Which(keys[3]))
    asked = [*keys, keys[3] + 1, keys[0]]

    assert await pause_timers(session, asked, reason="lunch") == 3
    assert await pause_timers(session, asked) == 0
    assert await resume_timers(session, keys[1:]) == 2
    assert await resume_timers(session, keys[1:]) == 0
    assert await shift_timers(session, asked, Shift("PT1H"), operation="o") == 3
    assert await client.value("select array_agg(k order by k) from shardclock.run_timers($1) k", asked) == keys[1:3]
    assert await client.value("select count(*) from shardclock.run_timers($1)", asked) == 0
    assert await cancel_timers(session, asked, reason="paid") == 3
    assert await cancel_timers(session, asked) == 0

    done = ["PAUSED", "RESCHEDULED", "CANCELED"], ["PAUSED", "RESUMED", "RESCHEDULED", "RESCHEDULED", "CANCELED"]
    rows = await query(
        client.dsn,
        "select array_agg(intent order by position) from shardclock.command_log group by timer_key order by timer_key",
    )
    assert [row[0] for row in rows] == [done[0], done[1], done[1], ["CANCELED"]]


async def test_a_shift_sent_again_under_its_operation_moves_none_twice(client: Hand) -> None:
    first, second = [await schedule(client, due_date=DUE) for _ in range(2)]
    session = client.session

    assert await shift_timers(session, [first], Shift("PT1H"), operation="summer") == 1
    assert await shift_timers(session, [first, second], Shift("PT1H"), operation="summer") == 1
    assert await shift_timers(session, [first, second], Shift("PT1H"), operation="autumn") == 2

    assert await client.value("select array_agg(due_date) from shardclock.timers") == [DUE + 2 * HOUR] * 2
    operations = await client.value(
        "select array_agg(detail ->> 'operation' order by position) from shardclock.command_log"
    )
    assert operations == ["summer", "summer", "autumn", "autumn"]


async def test_a_shift_without_an_operation_moves_each_time(client: Hand) -> None:
    key = await schedule(client, due_date=DUE)

    for _ in range(2):
        await call(client, "shift_timers", timer_keys=[key], shift="P1D")

    assert (await timer(client))["due_date"] == DUE + timedelta(days=2)


async def test_cancelling_a_process_instance_takes_all_its_timers_and_no_other(client: Hand) -> None:
    mine = [await schedule(client, process_instance_key=7, name=f"n{i}") for i in range(3)]
    others = [await schedule(client, process_instance_key=8), await schedule(client)]
    await pause_timer(client.session, Which(mine[1]))

    assert await cancel_process_instance(client.session, 7, reason="ended") == 3
    assert await cancel_process_instance(client.session, 7) == 0

    assert await client.value("select array_agg(timer_key order by 1) from shardclock.timers") == others
    rows = await query(client.dsn, "select timer_key, detail from shardclock.command_log where intent = 'CANCELED'")
    assert sorted(row["timer_key"] for row in rows) == mine
    assert {row["detail"] for row in rows} == {'{"by": "postgres", "reason": "ended"}'}


async def test_what_is_rolled_back_was_not_done(client: Hand) -> None:
    key = await schedule(client, due_date=DUE, process_instance_key=7)
    before = await timer(client)

    for verb in FENCING.values():
        await client.begin()
        await verb(client, Which(key))
        await client.rollback()

    assert await timer(client) == before
    assert await value(client.dsn, "select count(*) from shardclock.command_log") == 0


# Refusals


WHICH = "say which timer: give either timer_key or name (with its tenant_id)"
WHEN = "say when: give exactly one of due_date, delay, shift and schedule"
DURATION_RULE = "is not an ISO 8601 duration: write it like PT15M or P3DT12H"
YEARS_RULE = "is out of range: a timer is due in the years 1 to 9999"
MISSED_RULE = 'missed "never" is unknown: use fire_once, fire_all or skip'
REFUSED: list[tuple[str, dict[str, str], str]] = [
    *((verb, {}, WHICH) for verb in ("cancel_timer", "pause_timer", "resume_timer", "run_timer", "reschedule_timer")),
    ("pause_timer", {"timer_key": "1", "name": "'n'"}, WHICH),
    ("reschedule_timer", {"name": "'n'"}, WHEN),
    ("reschedule_timer", {"name": "'n'", "due_date": "now()", "delay": "'PT1S'"}, WHEN),
    ("reschedule_timer", {"name": "'n'", "shift": "'PT1S'", "schedule": "'R/PT1S'"}, WHEN),
    ("reschedule_timer", {"name": "'n'", "due_date": "'infinity'"}, f'due_date "infinity" {YEARS_RULE}'),
    ("reschedule_timer", {"name": "'n'", "delay": "'P9999Y'"}, f'delay "P9999Y" {YEARS_RULE}'),
    ("reschedule_timer", {"name": "'n'", "delay": "'soon'"}, f'delay "soon" {DURATION_RULE}'),
    ("reschedule_timer", {"name": "'n'", "shift": "'-soon'"}, f'shift "-soon" {DURATION_RULE}'),
    (
        "reschedule_timer",
        {"name": "'n'", "shift": "'-P9999Y'"},
        'shift "-P9999Y" is too long: it would move a timer out of the years 1 to 9999',
    ),
    ("reschedule_timer", {"name": "'n'", "delay": "'PT1S'", "zone": "'UTC'"}, "zone and missed go with a schedule"),
    ("reschedule_timer", {"name": "'n'", "schedule": "'R/PT1S'", "missed": "'never'"}, MISSED_RULE),
    (
        "reschedule_timer",
        {"name": "'n'", "schedule": "'R/PT1S'", "zone": "'Mars/Olympus'"},
        'zone "Mars/Olympus" is unknown: write an IANA name such as UTC or Europe/Berlin',
    ),
    (
        "reschedule_timer",
        {"name": "'n'", "schedule": "'daily'"},
        'schedule "daily" is neither an ISO 8601 repeat such as R/PT1H nor cron with 5 or 6 fields such as 0 8 * * MON',
    ),
]


async def test_verbs_say_what_they_refuse_and_change_nothing(client: Hand) -> None:
    await schedule(client, name="n")
    before = await timer(client)
    await client.value("set time zone 'UTC'")

    for function, arguments, sentence in REFUSED:
        assert await refusal(client, function, **arguments) == sentence

    assert await timer(client) == before
    with pytest.raises(InvalidTimer, match="say which timer"):
        await pause_timer(client.session, Which())


async def test_a_schedule_that_waits_to_be_planned_can_not_be_moved_yet_and_says_so(client: Hand) -> None:
    key = await schedule(client, schedule="0 8 * * MON", name="n")
    before = await timer(client)

    for to in (LATER, parse_duration("PT1H"), Shift("PT1H")):
        with pytest.raises(StatementRefused) as refused:
            await reschedule_timer(client.session, Which(name="n"), to)
        assert refused.value.sqlstate == "55000", "it is no fault of what was asked"
        assert str(refused.value) == (
            f"timer {key} has no date yet: a running cluster plans its schedule, unless it is paused; try again then"
        )
    assert await shift_timers(client.session, [key], Shift("PT1H"), operation="o") == 0
    assert await client.value("select count(*) from shardclock.run_timers(array[$1::bigint])", key) == 0

    assert await timer(client) == before


async def test_one_of_many_that_can_not_be_changed_keeps_no_other_from_it(client: Hand) -> None:
    unplanned = await schedule(client, schedule="0 8 * * MON")
    plain = await add_timers(client.dsn, 2, "now() + interval '1 hour'")

    assert await shift_timers(client.session, [unplanned, *plain], Shift("PT1H"), operation="o") == 2
