"""Prove that a client can schedule in SQL, in its own transaction, and that one sentence explains each refusal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from shardclock_server.timers.refusal import shortened
from shardclock_server.timers.schedule import first_of, parse_schedule
from tests.support.factories import HolderClient, add_holder, add_schedule, add_timers, ended_rule, query, value
from tests.support.roles import OPERATOR
from tests.support.sql_client import refusal, schedule

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


async def test_a_timer_keeps_all_values_that_it_was_scheduled_with(each_dsn: str) -> None:
    asked: dict[str, Any] = {
        "due_date": datetime(2030, 1, 31, 8, tzinfo=UTC),
        "name": "order-7",
        "tenant_id": "acme",
        "payload": '{"order": 7}',
        "target": "log",
        "timer_type": "BOUNDARY",
        "target_element_id": "boundary-1",
        "process_instance_key": 2**40,
        "element_instance_key": 2**41,
        "zone": "Europe/Berlin",
    }
    async with HolderClient(each_dsn, plans={}) as client:
        key = await schedule(client, **asked, missed="fire_once")

    row = dict((await query(each_dsn, "select * from shardclock.timers"))[0])
    assert {name: row[name] for name in asked} == asked
    assert row["timer_key"] == key
    assert row["slot"] == key % 840
    assert (row["occurrence"], row["repetitions"], row["schedule"], row["anchor"]) == (1, 1, None, None)
    assert row["missed"] is None, "only a schedule has that"
    assert (row["claimed_by"], row["claimed_until"], row["paused_due_date"]) == (None, None, None)


async def test_a_schedule_begins_one_period_from_now_and_gets_a_name_for_its_cancellation(each_dsn: str) -> None:
    async with HolderClient(each_dsn, plans={}) as client:
        await client.begin()
        key = await schedule(client, schedule="R5/PT1H30M", zone="Asia/Tokyo", missed="fire_all")
        now = await client.value("select now()")
        await client.commit()
        row = dict((await query(each_dsn, "select * from shardclock.timers"))[0])

        assert row["due_date"] - now == timedelta(minutes=90)
        assert (row["anchor"], row["anchor_occurrence"], row["repetitions"], row["occurrence"]) == (now, 0, 5, 1)
        assert (row["zone"], row["missed"], row["name"]) == ("Asia/Tokyo", "fire_all", f"schedule-{key}")
        assert await client.cancel(name=f"schedule-{key}") == "CANCELED"


@pytest.mark.parametrize("text", ["0 8 * * MON", "R/P1M", "R/P1D", "R3/2031-01-01T00:00:00Z/PT1H"])
async def test_a_schedule_that_needs_a_calendar_waits_for_a_shard_to_plan_it(client: HolderClient, text: str) -> None:
    await client.begin()
    await schedule(client, schedule=text, zone="Europe/Berlin", name="n")

    columns = "schedule, zone, due_date = now() and anchor = now(), anchor_occurrence, repetitions"
    row = (await client.connection.fetch(f"select {columns} from shardclock.timers"))[0]

    assert tuple(row) == (text, "Europe/Berlin", True, None, -1)


async def test_a_payload_of_64_kib_is_accepted(client: HolderClient) -> None:
    await schedule(client, payload='"' + "x" * 65_534 + '"')

    assert await client.value("select octet_length(payload::text) from shardclock.timers") == 65_536


DURATION_RULE = "is not an ISO 8601 duration; write one such as PT15M, P1DT12H or PT0.5S"
LENGTH_OF_DELAY_RULE = "is too long; a duration must be shorter than 10,000 years"
YEARS_RULE = "is out of range: a timer is due in the years 1 to 9999"
TYPE_RULE = "is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER"
ZONE_RULE = "is not an IANA time zone; write one such as UTC or Europe/Berlin"
MISSED_RULE = "is unknown: use fire_once, fire_all or skip"
LENGTH_RULE = "must have 1 to 200 characters, none of them a control character"
TAKEN_RULE = "choose another name, or set on_conflict to ignore or replace"
ONCE_RULE = "give exactly one of due_date, delay and schedule, not {}"
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"due_date": "'infinity'"}, f"due_date 'infinity' {YEARS_RULE}"),
    ({"due_date": "'-infinity'"}, f"due_date '-infinity' {YEARS_RULE}"),
    ({"due_date": "'0001-01-01T00:00Z'"}, f"due_date '0001-01-01 00:00:00+00' {YEARS_RULE}"),
    ({"due_date": "'20000-01-01T00:00:00Z'"}, f"due_date '20000-01-01 00:00:00+00' {YEARS_RULE}"),
    ({"due_date": "'9999-12-31 23:59:59.999999Z'"}, f"due_date '9999-12-31 23:59:59.999999+00' {YEARS_RULE}"),
    ({"due_date": "'0044-03-15 00:00:00Z BC'"}, f"due_date '0044-03-15 00:00:00+00 BC' {YEARS_RULE}"),
    ({"delay": "'15 minutes'"}, f"delay '15 minutes' {DURATION_RULE}"),
    ({"delay": "'PT1S' || repeat('0', 100)"}, f"delay {shortened('PT1S' + '0' * 100)} {DURATION_RULE}"),
    ({"delay": "'P9999Y'"}, f"delay 'P9999Y' {YEARS_RULE}"),
    ({"delay": "'P9999Y'", "zone": "'Asia/Tokyo'"}, f"delay 'P9999Y' {YEARS_RULE}"),
    ({"delay": "'P999999999Y'"}, f"delay 'P999999999Y' {LENGTH_OF_DELAY_RULE}"),
    ({"delay": "'P299000Y'"}, f"delay 'P299000Y' {LENGTH_OF_DELAY_RULE}"),
    ({"delay": "'P299000Y'", "zone": "'Asia/Tokyo'"}, f"delay 'P299000Y' {LENGTH_OF_DELAY_RULE}"),
    ({"schedule": "'R/PT9999999H'"}, "nothing"),
    ({"schedule": "'R/P999999D'"}, "nothing"),
    ({"schedule": "'R/P99999W'"}, "nothing"),
    ({"schedule": "'R/P99999W999999D'"}, "nothing"),
    ({"payload": "to_jsonb(repeat('x', 65535))"}, "payload has 65537 bytes: the limit is 65536 (64 KiB)"),
    (
        {"target": "'nowhere'"},
        (
            "target 'nowhere' is unknown: the only target is log; an app has more (shardclock up --app), "
            "and so has a tenant with endpoints (shardclock endpoints add)"
        ),
    ),
    ({"target": "null"}, "target null is unknown: leave it out, or name one"),
    ({"timer_type": "'CRON'"}, f"timer_type 'CRON' {TYPE_RULE}"),
    ({"timer_type": "null"}, f"timer_type NULL {TYPE_RULE}"),
    ({"zone": "null"}, f"zone null {ZONE_RULE}"),
    ({"missed": "'never'", "schedule": "'R/PT1S'"}, f"missed 'never' {MISSED_RULE}"),
    ({"missed": "null"}, f"missed NULL {MISSED_RULE}"),
    ({"missed": "'skip'"}, "missed 'skip' needs a schedule: leave it out"),
    ({"name": "''"}, f"name '' {LENGTH_RULE}"),
    ({"name": "repeat('n', 201)"}, f"name '{60 * 'n'}' {LENGTH_RULE}"),
    ({"name": "E'a\\tb'"}, f"name 'a\tb' {LENGTH_RULE}"),
    ({"tenant_id": "''"}, f"tenant_id '' {LENGTH_RULE}"),
    ({"tenant_id": "null"}, f"tenant_id NULL {LENGTH_RULE}"),
    ({"tenant_id": "repeat('t', 201)"}, f"tenant_id '{'t' * 60}' {LENGTH_RULE}"),
    ({"tenant_id": "E'a\\nb'"}, f"tenant_id 'a\nb' {LENGTH_RULE}"),
    ({"target_element_id": "''"}, f"target_element_id '' {LENGTH_RULE}"),
    ({"target_element_id": "E'\\x07'"}, f"target_element_id '\x07' {LENGTH_RULE}"),
    ({"process_instance_key": "0"}, "process_instance_key 0 must be at least 1"),
    ({"element_instance_key": "-1"}, "element_instance_key -1 must be at least 1"),
    ({"due_date": "now()", "delay": "'PT1S'"}, ONCE_RULE.format(2)),
    ({"delay": "'PT1S'", "schedule": "'R/PT1S'"}, ONCE_RULE.format(2)),
    ({"delay": "null"}, ONCE_RULE.format(0)),
    ({"name": "'taken'"}, f"name 'taken' is taken by a pending timer of tenant 'default': {TAKEN_RULE}"),
]  # fmt: skip


async def test_each_refusal_is_one_sentence_with_the_value_and_the_rule_and_nothing_is_stored(each_dsn: str) -> None:
    async with HolderClient(each_dsn, plans={}) as client:
        await client.value("set time zone 'UTC'")
        await schedule(client, name="taken")
        said, meant = {}, {}
        for arguments, sentence in REFUSED:
            when = {} if arguments.keys() & {"due_date", "delay", "schedule"} else {"delay": "'PT1H'"}
            meant[str(arguments)] = sentence
            said[str(arguments)] = await refusal(client, "schedule_timer", **when, **arguments)

    assert said == meant
    taken = sum(sentence == "nothing" for _, sentence in REFUSED)
    assert await value(each_dsn, "select count(*) from shardclock.timers") == 1 + taken


# Direct writes to the table


RULES = "select sum(length(conbin::text)) from pg_constraint where conrelid = 'shardclock.timers'::regclass"
UNCHECKED = """
    select array_agg(a.attname::text order by a.attname)
    from pg_attribute a
    join pg_trigger t on t.tgrelid = a.attrelid and t.tgname = 'check_changed_timer'
    where a.attrelid = 'shardclock.timers'::regclass and a.attnum > 0 and not a.attisdropped
        and a.attnum <> all (t.tgattr::int2[])
"""
RULE = {"schedule": "'R/PT1S'", "anchor": "now()", "name": "'n'"}
END_OF_TIME = "'9999-12-31 23:59:59.999998+00'"
POISON: list[tuple[dict[str, str], str]] = [
    ({"due_date": "'infinity'"}, "invalid_due_date"),
    ({"due_date": "'20000-01-01'"}, "invalid_due_date"),
    ({"due_date": "'9999-12-31 23:59:59.999999+00'"}, "invalid_due_date"),
    ({"due_date": "'0044-03-15 BC'"}, "invalid_due_date"),
    ({"created_at": "'infinity'"}, "invalid_created_at"),
    ({**RULE, "anchor": "'-infinity'"}, "invalid_anchor"),
    ({"due_date": END_OF_TIME, "paused_due_date": "'infinity'"}, "invalid_paused_due_date"),
    ({"paused_due_date": "now()"}, "invalid_row"),
    (
        {"due_date": END_OF_TIME, "paused_due_date": "now()", "claimed_by": "1", "claimed_until": "now()"},
        "invalid_row",
    ),
    *(
        ({"due_date": END_OF_TIME, "paused_due_date": "now()", **it}, "invalid_row")
        for it in (
            {"resume_at": "'infinity'"}, {"resume_missed": "'skip'"},
            {"resume_at": "now()", "resume_missed": "'policy'"},
        )
    ),
    ({"resume_at": "now()"}, "invalid_row"),
    ({"timer_key": "0"}, "invalid_timer_key"),
    ({"timer_key": "-840"}, "invalid_timer_key"),
    ({"claimed_by": "1"}, "claim_is_whole"),
    ({"claimed_until": "now()"}, "claim_is_whole"),
    ({"claimed_by": "1", "claimed_until": "'infinity'"}, "claim_ends"),
    ({"tenant_id": "''"}, "invalid_tenant_id"),
    ({"name": "E'\\x07'"}, "invalid_name"),
    ({"name": "repeat('n', 201)"}, "invalid_name"),
    ({"target_element_id": "''"}, "invalid_target_element_id"),
    ({"timer_type": "'CRON'"}, "invalid_timer_type"),
    ({"target": "'http'"}, "unknown_target"),
    *(({"zone": it}, "invalid_zone") for it in ("''", "'UTC+2;'", "'<+02>-2'", "repeat('z', 65)")),
    ({"missed": "'never'"}, "invalid_missed"),
    ({"payload": "to_jsonb(repeat('x', 65535))"}, "invalid_payload"),
    ({"repetitions": "2"}, "invalid_row"),
    ({"occurrence": "2"}, "invalid_occurrence"),
    ({"anchor": "now()"}, "invalid_row"),
    ({"schedule": "'R/PT1S'"}, "invalid_row"),
    ({"schedule": "'R/PT1S'", "anchor": "now()"}, "invalid_row"),
    *(
        ({**RULE, "schedule": text}, "invalid_schedule")
        for text in ("''", "E'R/PT1S\\n'", "repeat('*', 201)")
    ),
    *(
        ({**RULE, "occurrence": occurrence, "repetitions": count}, "invalid_occurrence")
        for occurrence, count in (("3", "2"), ("1", "0"), ("1", "-2"), ("0", "-1"))
    ),
]  # fmt: skip


async def test_a_row_that_would_fail_a_batch_is_refused_when_it_is_written(dsn: str) -> None:
    stopped_by, rules = {}, {}
    for columns, rule in POISON:
        rules[str(columns)] = rule
        rest = {"due" if name == "due_date" else name: it for name, it in columns.items()}
        try:
            await add_timers(dsn, 1, **rest)
        except asyncpg.CheckViolationError as refused:
            stopped_by[str(columns)] = refused.constraint_name

    assert stopped_by == rules
    assert await value(dsn, "select count(*) from shardclock.timers") == 0


async def test_the_table_refuses_a_row_in_a_sentence_and_writes_nothing(dsn: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await add_timers(dsn, 3, name="case when i = 3 then E'late\\t3' else 'n' || i end")

    assert str(refused.value) == f"name 'late\t3' {LENGTH_RULE}"
    assert refused.value.table_name == "timers"
    assert await value(dsn, "select count(*) from shardclock.timers") == 0


async def test_a_timer_is_checked_when_any_column_but_its_lease_changes(dsn: str) -> None:
    await add_timers(dsn, 1)

    with pytest.raises(asyncpg.CheckViolationError, match="'infinity' is out of range"):
        await query(dsn, "update shardclock.timers set due_date = 'infinity'")
    with pytest.raises(asyncpg.CheckViolationError, match="claim_is_whole"):
        await query(dsn, "update shardclock.timers set claimed_by = 1")
    assert await value(dsn, UNCHECKED) == ["claimed_by", "claimed_until", "slot"]


async def test_a_write_of_a_row_does_not_first_plan_a_long_rule(dsn: str) -> None:
    """If the table's rules were check constraints, Postgres would need 50 µs to plan each statement: 0021."""
    assert await value(dsn, RULES) < 1_000


async def test_the_table_accepts_a_schedule_that_only_a_shard_finds_unreadable(dsn: str) -> None:
    for number, text in enumerate(["R/PT0S", "R/P", "R-2/PT1S", "R/PT1S ", "every now and then"]):
        await add_schedule(dsn, text, name=f"'n{number}'")

    assert await value(dsn, "select count(*) from shardclock.timers") == 5


async def test_a_shard_can_read_the_longest_periods_that_sql_plans(client: HolderClient) -> None:
    for text in ("R/P99999W", "R/P999999D", "R/PT9999999H", "R/PT999999999M", "R/PT9999999999,9S"):
        key = await schedule(client, schedule=text)

        planned = await client.value("select due_date - anchor from shardclock.timers where timer_key = $1", key)
        assert first_of(parse_schedule(text), BEGINNING).due_date - BEGINNING == planned


# The view


async def test_timer_history_gives_every_timer_its_state(each_dsn: str) -> None:
    await add_holder(each_dsn, 1)
    async with HolderClient(each_dsn, holder=1, role=OPERATOR) as client:
        pending = await schedule(client, name="a", payload='{"a": 1}')
        canceled = await schedule(client, name="b")
        fired = await schedule(client, delay="PT0S", name="c")
        due = datetime(2031, 1, 1, tzinfo=UTC)
        paused = await schedule(client, due_date=due, name="d")
        skipped = await add_schedule(
            each_dsn, due="now() - interval '5 hours'", schedule=ended_rule(), name="'e'", missed="'skip'",
            anchor="now() - interval '6 hours'",
        )  # fmt: skip
        once = await add_schedule(
            each_dsn, due="now() - interval '5 hours'", schedule=ended_rule(), name="'f'",
            anchor="now() - interval '6 hours'",
        )  # fmt: skip
        await client.reschedule(timer_key=pending, delay="PT2H")
        await client.cancel(timer_key=canceled, reason="paid")
        await client.value("select shardclock.pause_timer(timer_key => $1)", paused)
        await client.fire((await client.take(fire_overdue=True)).claimed)
        rows = await query(each_dsn, "select * from shardclock.timer_history order by timer_key")

    states = [(row["timer_key"], row["state"], row["name"], row["holder"]) for row in rows]
    assert states == [
        (pending, "PENDING", "a", None),
        (canceled, "CANCELED", "b", None),
        (fired, "TRIGGERED", "c", 1),
        (paused, "PAUSED", "d", None),
        (skipped, "SKIPPED", "e", 1),
        (once, "TRIGGERED", "f", 1),
    ]
    assert [row["ended_at"] is None for row in rows] == [True, False, False, True, False, False]
    assert (rows[0]["payload"], rows[3]["due_date"]) == ('{"a": 1}', due)
