"""Prove that a verb for many timers changes each changeable timer once, returns its key, and refuses wrong requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.sql.clients.verbs import (
    Shift,
    TimerRef,
    cancel_process_instance,
    cancel_timer,
    cancel_timers,
    pause_timer,
    pause_timers,
    reschedule_timer,
    resume_timers,
    shift_timers,
)
from shardclock_server.sql.session import StatementRefused
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import HolderClient, add_timers, only_timer, query
from tests.support.sql_client import call, refusal, schedule

DUE = datetime(2031, 1, 31, 8, tzinfo=UTC)
LATER = datetime(2032, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


# Calls with many timers


async def test_verbs_for_many_timers_change_the_changeable_timers_and_return_their_keys(client: HolderClient) -> None:
    keys = [await schedule(client, name=f"n{i}") for i in range(4)]
    session = client.session
    await cancel_timer(session, TimerRef(keys[3]))
    asked = [*keys, keys[3] + 1, keys[0]]

    assert len(await pause_timers(session, asked, reason="lunch")) == 3
    assert len(await pause_timers(session, asked)) == 0
    assert len(await resume_timers(session, keys[1:])) == 2
    assert len(await resume_timers(session, keys[1:])) == 0
    assert len(await shift_timers(session, asked, Shift("PT1H"), operation="o")) == 3
    assert await client.value("select array_agg(k order by k) from shardclock.run_timers($1) k", asked) == keys[1:3]
    assert await client.value("select count(*) from shardclock.run_timers($1)", asked) == 0
    assert len(await cancel_timers(session, asked, reason="paid")) == 3
    assert len(await cancel_timers(session, asked)) == 0

    done = ["PAUSED", "RESCHEDULED", "CANCELED"], ["PAUSED", "RESUMED", "RESCHEDULED", "RESCHEDULED", "CANCELED"]
    rows = await query(
        client.dsn,
        "select array_agg(intent order by position) from shardclock.command_log group by timer_key order by timer_key",
    )
    assert [row[0] for row in rows] == [done[0], done[1], done[1], ["CANCELED"]]


async def test_a_shift_sent_again_under_its_operation_moves_no_timer_twice(client: HolderClient) -> None:
    first, second = [await schedule(client, due_date=DUE) for _ in range(2)]
    session = client.session

    assert len(await shift_timers(session, [first], Shift("PT1H"), operation="summer")) == 1
    assert len(await shift_timers(session, [first, second], Shift("PT1H"), operation="summer")) == 1
    assert len(await shift_timers(session, [first, second], Shift("PT1H"), operation="autumn")) == 2

    assert await client.value("select array_agg(due_date) from shardclock.timers") == [DUE + 2 * HOUR] * 2
    operations = await client.value(
        "select array_agg(detail ->> 'operation' order by position) from shardclock.command_log"
    )
    assert operations == ["summer", "summer", "autumn", "autumn"]


@pytest.mark.parametrize("first", ["run", "shift"])
async def test_a_shift_and_a_run_of_one_name_are_two_operations(client: HolderClient, first: str) -> None:
    key = await schedule(client, schedule="R/PT1H", name="n")
    calls = {
        "run": "select array(select shardclock.run_timers(array[$1::bigint], operation => 'deploy'))",
        "shift": "select array(select shardclock.shift_timers(array[$1::bigint], 'PT1H', operation => 'deploy'))",
    }

    for name in (first, *(calls.keys() - {first})):
        assert await client.value(calls[name], key) == [key], name
        assert await client.value(calls[name], key) == [], name


async def test_a_shift_without_an_operation_moves_each_time(client: HolderClient) -> None:
    key = await schedule(client, due_date=DUE)

    for _ in range(2):
        await call(client, "shift_timers", timer_keys=[key], shift="P1D")

    assert (await only_timer(client))["due_date"] == DUE + timedelta(days=2)


async def test_canceling_a_process_instance_cancels_exactly_its_timers(client: HolderClient) -> None:
    mine = [await schedule(client, process_instance_key=7, name=f"n{i}") for i in range(3)]
    others = [await schedule(client, process_instance_key=8), await schedule(client)]
    await pause_timer(client.session, TimerRef(mine[1]))

    assert await cancel_process_instance(client.session, 7, reason="ended") == 3
    assert await cancel_process_instance(client.session, 7) == 0

    assert await client.value("select array_agg(timer_key order by 1) from shardclock.timers") == others
    rows = await query(client.dsn, "select timer_key, detail from shardclock.command_log where intent = 'CANCELED'")
    assert sorted(row["timer_key"] for row in rows) == mine
    assert {row["detail"] for row in rows} == {'{"by": "test_scheduler", "reason": "ended"}'}


# Refusals

WHICH = "say which timer: give either timer_key or name (with its tenant_id)"
WHEN = "give exactly one of due_date, delay, shift and schedule, not {}"
DURATION_RULE = "is not an ISO 8601 duration; write one such as PT15M, P1DT12H or PT0.5S"
FIELDS_RULE = "write six (second minute hour day-of-month month day-of-week) or five (without the second)"
YEARS_RULE = "is out of range: a timer is due in the years 1 to 9999"
MISSED_RULE = "missed 'never' is unknown: use fire_once, fire_all or skip"
REFUSED: list[tuple[str, dict[str, str], str]] = [
    *((verb, {}, WHICH) for verb in ("cancel_timer", "pause_timer", "resume_timer", "run_timer", "reschedule_timer")),
    ("pause_timer", {"timer_key": "1", "name": "'n'"}, WHICH),
    ("reschedule_timer", {"name": "'n'"}, WHEN.format(0)),
    ("reschedule_timer", {"name": "'n'", "due_date": "now()", "delay": "'PT1S'"}, WHEN.format(2)),
    ("reschedule_timer", {"name": "'n'", "shift": "'PT1S'", "schedule": "'R/PT1S'"}, WHEN.format(2)),
    ("reschedule_timer", {"name": "'n'", "due_date": "'infinity'"}, f"due_date 'infinity' {YEARS_RULE}"),
    ("reschedule_timer", {"name": "'n'", "delay": "'P9999Y'"}, f"delay 'P9999Y' {YEARS_RULE}"),
    ("reschedule_timer", {"name": "'n'", "delay": "'soon'"}, f"delay 'soon' {DURATION_RULE}"),
    ("reschedule_timer", {"name": "'n'", "shift": "'-soon'"}, f"shift '-soon' {DURATION_RULE}"),
    (
        "reschedule_timer",
        {"name": "'n'", "shift": "'-P9999Y'"},
        "shift '-P9999Y' is too long: it would move a timer out of the years 1 to 9999",
    ),
    (
        "reschedule_timer",
        {"name": "'n'", "delay": "'PT1S'", "zone": "'UTC'"},
        "zone goes with a schedule; leave it out",
    ),
    ("reschedule_timer", {"name": "'n'", "schedule": "'R/PT1S'", "missed": "'never'"}, MISSED_RULE),
    (
        "reschedule_timer",
        {"name": "'n'", "schedule": "'R/PT1S'", "zone": "'Mars/Olympus'"},
        "zone 'Mars/Olympus' is not an IANA time zone; write one such as UTC or Europe/Berlin",
    ),
    (
        "reschedule_timer",
        {"name": "'n'", "schedule": "'daily'"},
        f"schedule 'daily' has 1 field; {FIELDS_RULE}",
    ),
]


async def test_verbs_explain_their_refusals_and_change_nothing(client: HolderClient) -> None:
    await schedule(client, name="n")
    before = await only_timer(client)
    await client.value("set time zone 'UTC'")

    for function, arguments, sentence in REFUSED:
        assert await refusal(client, function, **arguments) == sentence

    assert await only_timer(client) == before
    with pytest.raises(InvalidTimer, match="say which timer"):
        await pause_timer(client.session, TimerRef())


async def test_a_schedule_without_a_date_can_not_be_moved_yet_and_the_error_explains_this(client: HolderClient) -> None:
    key = await schedule(client, schedule="0 8 * * MON", name="n")
    before = await only_timer(client)

    for to in (LATER, parse_duration("PT1H"), Shift("PT1H")):
        with pytest.raises(StatementRefused) as refused:
            await reschedule_timer(client.session, TimerRef(name="n"), to)
        assert refused.value.sqlstate == "55000", "the request has no fault"
        assert str(refused.value) == (
            f"timer {key} has no date yet: a running cluster plans its schedule, unless it is paused; try again later"
        )
    assert len(await shift_timers(client.session, [key], Shift("PT1H"), operation="o")) == 0

    assert await only_timer(client) == before


async def test_a_timer_that_can_not_be_changed_stops_no_other_change(client: HolderClient) -> None:
    unplanned = await schedule(client, schedule="0 8 * * MON")
    plain = await add_timers(client.dsn, 2, "now() + interval '1 hour'")

    assert len(await shift_timers(client.session, [unplanned, *plain], Shift("PT1H"), operation="o")) == 2
