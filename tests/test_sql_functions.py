"""Prove that anyone can schedule in SQL, in their own transaction, and is told in one sentence what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store import Hand, add_holder, add_schedule, add_timers, query, value
from timers.duration import parse_duration
from timers.refusal import InvalidTimer
from timers.schedule import parse_schedule


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Hand]:
    """Give a client's connection."""
    async with Hand(dsn, plans={}) as hand:
        yield hand


async def schedule(client: Hand, **arguments: Any) -> int:
    """Call schedule_timer with named arguments."""
    named = ", ".join(f"{name} => ${number}" for number, name in enumerate(arguments, 1))
    return int(await client.value(f"select shardclock.schedule_timer({named})", *arguments.values()))


async def refusal(client: Hand, function: str, **arguments: str) -> str:
    """Call a function with SQL expressions; the sentence of its refusal comes back."""
    named = ", ".join(f"{name} => {expression}" for name, expression in arguments.items())
    async with client.session.connection() as connection:
        try:
            await connection.execute(f"select shardclock.{function}({named})")
        except asyncpg.PostgresError as error:
            return str(error)
    return "nothing"


async def test_a_timer_keeps_all_that_it_was_scheduled_with(each_dsn: str) -> None:
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
        "zone": "UTC",
    }
    async with Hand(each_dsn) as client:
        key = await schedule(client, **asked)

    row = dict((await query(each_dsn, "select * from shardclock.timers"))[0])
    assert {name: row[name] for name in asked} == asked
    assert row["timer_key"] == key
    assert row["slot"] == key % 840
    assert (row["occurrence"], row["repetitions"], row["schedule"], row["anchor"]) == (1, 1, None, None)
    assert (row["claimed_by"], row["claimed_until"]) == (None, None)


async def test_a_delay_is_counted_from_the_transaction_s_now_as_calendar_time_in_utc(each_dsn: str) -> None:
    async with Hand(each_dsn) as client:
        await client.begin()
        # Half a year from now its clocks stand an hour apart.
        await client.value("set local time zone 'America/New_York'")
        await schedule(client, delay="P182DT1H0.0000001S")
        now = await client.value("select now()")

        due = await client.value("select due_date from shardclock.timers")

    assert due == now + timedelta(days=182, hours=1, microseconds=1)


async def test_a_schedule_begins_one_period_from_now_and_gets_a_name_by_which_to_cancel_it(each_dsn: str) -> None:
    async with Hand(each_dsn) as client:
        await client.begin()
        key = await schedule(client, schedule="R5/PT1H30M")
        now = await client.value("select now()")
        await client.commit()
        row = dict((await query(each_dsn, "select * from shardclock.timers"))[0])

        assert row["due_date"] - now == timedelta(minutes=90)
        assert (row["anchor"], row["repetitions"], row["occurrence"]) == (now, 5, 1)
        assert row["name"] == f"schedule-{key}"
        assert await client.cancel(name=f"schedule-{key}") == "CANCELED"


@pytest.mark.parametrize(
    ("text", "repetitions"), [("R/PT1S", -1), ("R-1/PT1S", -1), ("R0/PT1S", 1), ("R1/PT1S", 1), ("R7/PT1S", 7)]
)
async def test_a_schedule_s_count_means_what_it_means_everywhere(client: Hand, text: str, repetitions: int) -> None:
    await schedule(client, schedule=text)

    assert await client.value("select repetitions from shardclock.timers") == repetitions
    assert parse_schedule(text).repetitions == repetitions


async def test_what_is_rolled_back_never_was(each_dsn: str) -> None:
    async with Hand(each_dsn) as client:
        kept = await schedule(client, delay="PT1H", name="kept")
        before = await query(each_dsn, "select * from shardclock.timers")
        await client.begin()
        await schedule(client, delay="PT1H")
        await client.reschedule(name="kept", delay="PT2H")
        await client.cancel(timer_key=kept)
        await client.rollback()

    assert await query(each_dsn, "select * from shardclock.timers") == before
    assert await value(each_dsn, "select count(*) from shardclock.command_log") == 0


async def test_a_due_date_in_the_past_is_due_at_once(dsn: str, client: Hand) -> None:
    key = await schedule(client, due_date=datetime(1, 1, 2, tzinfo=UTC))
    await add_holder(dsn, 1)

    async with Hand(dsn, holder=1) as shard:
        assert (await shard.take(fuse=True)).fired == 1
    assert await client.value("select timer_key from shardclock.command_log") == key


async def test_a_payload_of_64_kib_is_taken(client: Hand) -> None:
    await schedule(client, delay="PT1H", payload='"' + "x" * 65_534 + '"')

    assert await client.value("select octet_length(payload::text) from shardclock.timers") == 65_536


DURATION_RULE = "is not an ISO 8601 duration: write it like PT15M or P3DT12H"
REPEAT_RULE = "is not a repeat of fixed length: write it like R/PT1H or R5/P1D (weeks, days, hours, minutes, seconds)"
DIGITS_RULE = (
    "has too many digits: a period has at most 5 of weeks, 6 of days, 7 of hours, 9 of minutes, 10 of seconds "
    "and 9 after the point"
)
YEARS_RULE = "is out of range: a timer is due in the years 1 to 9999"
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"due_date": "'infinity'"}, f'due_date "infinity" {YEARS_RULE}'),
    ({"due_date": "'-infinity'"}, f'due_date "-infinity" {YEARS_RULE}'),
    ({"due_date": "'20000-01-01T00:00:00Z'"}, f'due_date "20000-01-01 00:00:00+00" {YEARS_RULE}'),
    ({"due_date": "'9999-12-31 23:59:59.999999Z'"}, f'due_date "9999-12-31 23:59:59.999999+00" {YEARS_RULE}'),
    ({"due_date": "'0044-03-15 00:00:00Z BC'"}, f'due_date "0044-03-15 00:00:00+00 BC" {YEARS_RULE}'),
    ({"delay": "''"}, f'delay "" {DURATION_RULE}'),
    ({"delay": "'P'"}, f'delay "P" {DURATION_RULE}'),
    ({"delay": "'PT'"}, f'delay "PT" {DURATION_RULE}'),
    ({"delay": "'P1DT'"}, f'delay "P1DT" {DURATION_RULE}'),
    ({"delay": "'15 minutes'"}, f'delay "15 minutes" {DURATION_RULE}'),
    ({"delay": "'-PT1S'"}, f'delay "-PT1S" {DURATION_RULE}'),
    ({"delay": "'PT-1S'"}, f'delay "PT-1S" {DURATION_RULE}'),
    ({"delay": "'pt1s'"}, f'delay "pt1s" {DURATION_RULE}'),
    ({"delay": "E'PT1S\\n'"}, f'delay "PT1S\n" {DURATION_RULE}'),
    ({"delay": "'PT1S' || repeat('0', 100)"}, f'delay "PT1S{"0" * 56}" {DURATION_RULE}'),
    ({"delay": "'P9999Y'"}, f'delay "P9999Y" {YEARS_RULE}'),
    ({"delay": "'P999999999Y'"}, 'delay "P999999999Y" is too long: it must end before year 10000'),
    ({"delay": "'P299000Y'"}, 'delay "P299000Y" is too long: it must end before year 10000'),
    ({"schedule": "'R-2/PT1S'"}, f'schedule "R-2/PT1S" {REPEAT_RULE}'),
    ({"schedule": "'R/P1M'"}, f'schedule "R/P1M" {REPEAT_RULE}'),
    ({"schedule": "'R/P1Y'"}, f'schedule "R/P1Y" {REPEAT_RULE}'),
    ({"schedule": "'R3/2026-01-01T00:00:00Z/PT1H'"}, f'schedule "R3/2026-01-01T00:00:00Z/PT1H" {REPEAT_RULE}'),
    ({"schedule": "'0 0 8 * * MON'"}, f'schedule "0 0 8 * * MON" {REPEAT_RULE}'),
    ({"schedule": "'PT1H'"}, f'schedule "PT1H" {REPEAT_RULE}'),
    ({"schedule": "'R/PT'"}, f'schedule "R/PT" {REPEAT_RULE}'),
    ({"schedule": "'R/'"}, f'schedule "R/" {REPEAT_RULE}'),
    ({"schedule": "'R/PT0S'"}, 'schedule "R/PT0S" has a period of zero: it must be longer'),
    ({"schedule": "'R/P0DT0H'"}, 'schedule "R/P0DT0H" has a period of zero: it must be longer'),
    (
        {"schedule": "'R2147483648/PT1S'"},
        (
            'schedule "R2147483648/PT1S" repeats too often: the count is at most 2147483647 '
            "(leave it out to repeat without end)"
        ),
    ),
    ({"schedule": "'R/P999999D'"}, "nothing"),
    ({"schedule": "'R/P99999W'"}, "nothing"),
    ({"schedule": "'R/P9999999D'"}, f'schedule "R/P9999999D" {DIGITS_RULE}'),
    ({"schedule": "'R/PT00000001H'"}, f'schedule "R/PT00000001H" {DIGITS_RULE}'),
    ({"schedule": "'R/PT1.0000000001S'"}, f'schedule "R/PT1.0000000001S" {DIGITS_RULE}'),
    ({"schedule": "'R/P99999W999999D'"}, "nothing"),
    ({"payload": "to_jsonb(repeat('x', 65535))"}, "payload has 65537 bytes: the limit is 65536 (64 KiB)"),
    ({"target": "'nowhere'"}, 'target "nowhere" is unknown: the only target is log'),
    ({"target": "null"}, 'target "" is unknown: the only target is log'),
    (
        {"timer_type": "'CRON'"},
        'timer_type "CRON" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER',
    ),
    ({"timer_type": "null"}, 'timer_type "" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER'),
    ({"zone": "'Mars/Olympus'"}, 'zone "Mars/Olympus" is unknown: the only zone is UTC'),
    ({"zone": "null"}, 'zone "" is unknown: the only zone is UTC'),
    ({"name": "''"}, 'name "" must have 1 to 200 characters'),
    ({"name": "repeat('n', 201)"}, f'name "{"n" * 60}" must have 1 to 200 characters'),
    ({"name": "E'a\\tb'"}, "tenant_id and name must have no control characters"),
    ({"tenant_id": "''"}, 'tenant_id "" must have 1 to 200 characters'),
    ({"tenant_id": "null"}, 'tenant_id "" must have 1 to 200 characters'),
    ({"tenant_id": "repeat('t', 201)"}, f'tenant_id "{"t" * 60}" must have 1 to 200 characters'),
    ({"tenant_id": "E'a\\nb'"}, "tenant_id and name must have no control characters"),
    ({"target_element_id": "''"}, 'target_element_id "" must have 1 to 200 characters'),
    ({"due_date": "now()", "delay": "'PT1S'"}, "give exactly one of due_date, delay and schedule, not 2"),
    ({"delay": "'PT1S'", "schedule": "'R/PT1S'"}, "give exactly one of due_date, delay and schedule, not 2"),
    ({"delay": "null"}, "give exactly one of due_date, delay and schedule, not 0"),
    (
        {"name": "'taken'"},
        (
            'name "taken" is taken by a pending timer of tenant "default": '
            "cancel or reschedule that one, or choose another name"
        ),
    ),
]


async def test_each_refusal_is_one_sentence_with_the_value_and_the_rule_and_nothing_is_stored(each_dsn: str) -> None:
    async with Hand(each_dsn, plans={}) as client:
        await client.value("set time zone 'UTC'")
        await schedule(client, delay="PT1H", name="taken")
        said, meant = {}, {}
        for arguments, sentence in REFUSED:
            when = {} if arguments.keys() & {"due_date", "delay", "schedule"} else {"delay": "'PT1H'"}
            meant[str(arguments)] = sentence
            said[str(arguments)] = await refusal(client, "schedule_timer", **when, **arguments)

    assert said == meant
    taken = sum(sentence == "nothing" for _, sentence in REFUSED)
    assert await value(each_dsn, "select count(*) from shardclock.timers") == 1 + taken


MISSED: list[tuple[str, dict[str, str], str]] = [
    ("cancel_timer", {}, "say which timer: give either timer_key or name (with its tenant_id)"),
    (
        "cancel_timer",
        {"timer_key": "1", "name": "'n'"},
        "say which timer: give either timer_key or name (with its tenant_id)",
    ),
    ("reschedule_timer", {}, "say which timer: give either timer_key or name (with its tenant_id)"),
    ("reschedule_timer", {"timer_key": "1"}, "say when: give either due_date or delay"),
    (
        "reschedule_timer",
        {"timer_key": "1", "due_date": "now()", "delay": "'PT1S'"},
        "say when: give either due_date or delay",
    ),
    ("reschedule_timer", {"timer_key": "1", "due_date": "'infinity'"}, f'due_date "infinity" {YEARS_RULE}'),
    ("reschedule_timer", {"timer_key": "1", "delay": "'P9999Y'"}, f'delay "P9999Y" {YEARS_RULE}'),
    ("reschedule_timer", {"timer_key": "1", "delay": "'soon'"}, f'delay "soon" {DURATION_RULE}'),
]


async def test_cancel_and_reschedule_say_what_they_refuse_and_change_nothing(client: Hand) -> None:
    await client.value("set time zone 'UTC'")
    await schedule(client, delay="PT1H", name="n")
    before = await client.value("select t::text from shardclock.timers t")

    for function, arguments, sentence in MISSED:
        assert await refusal(client, function, **arguments) == sentence

    assert await client.value("select t::text from shardclock.timers t") == before


async def test_cancel_says_how_a_timer_ended_by_key_and_by_name(each_dsn: str) -> None:
    async with Hand(each_dsn, plans={}) as client:
        key = await schedule(client, delay="PT1H", name="n", tenant_id="acme", payload='{"a": 1}')

        assert await client.cancel(name="n") == "UNKNOWN", "it is another tenant's"
        assert await client.cancel(timer_key=key + 1) == "UNKNOWN"
        assert await client.cancel(name="n", tenant_id="acme", reason="paid") == "CANCELED"
        assert await client.cancel(name="n", tenant_id="acme") == "CANCELED"
        assert await client.cancel(timer_key=key) == "CANCELED"

    (record,) = await query(each_dsn, "select * from shardclock.command_log")
    assert (record["timer_key"], record["intent"], record["holder"]) == (key, "CANCELED", None)
    assert (record["payload"], record["detail"]) == ('{"a": 1}', '{"by": "postgres", "reason": "paid"}')


async def test_reschedule_moves_a_timer_and_records_both_moments(each_dsn: str) -> None:
    old, new = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    async with Hand(each_dsn, plans={}) as client:
        key = await schedule(client, due_date=old, name="n")

        assert await client.reschedule(name="n", due_date=new) == "RESCHEDULED"
        assert await client.reschedule(timer_key=key + 1, due_date=new) == "UNKNOWN"
        assert await client.reschedule(name="n", tenant_id="other", due_date=new) == "UNKNOWN"
        assert await client.cancel(timer_key=key) == "CANCELED"
        assert await client.reschedule(timer_key=key, due_date=new) == "CANCELED"

    records = await query(each_dsn, "select due_date, intent, detail from shardclock.command_log order by position")
    assert [(row["due_date"], row["intent"]) for row in records] == [(old, "RESCHEDULED"), (new, "CANCELED")]
    assert records[0]["detail"] == '{"by": "postgres", "due_date": "2031-01-01T00:00:00+00:00"}'


async def test_moving_an_occurrence_leaves_its_schedule_s_grid(dsn: str, client: Hand) -> None:
    await add_schedule(dsn, "R/PT1H")
    before = (await query(dsn, "select anchor, occurrence from shardclock.timers"))[0]

    await client.reschedule(name="beat", delay="PT10M")

    assert (await query(dsn, "select anchor, occurrence from shardclock.timers"))[0] == before


# The table's own door


POISON: list[tuple[dict[str, str], str]] = [
    ({"due_date": "'infinity'"}, "due_date_is_in_years_1_to_9999"),
    ({"due_date": "'20000-01-01'"}, "due_date_is_in_years_1_to_9999"),
    ({"due_date": "'9999-12-31 23:59:59.999999+00'"}, "due_date_is_in_years_1_to_9999"),
    ({"due_date": "'0044-03-15 BC'"}, "due_date_is_in_years_1_to_9999"),
    ({"created_at": "'infinity'"}, "created_at_is_in_years_1_to_9999"),
    ({"anchor": "'-infinity'", "schedule": "'R/PT1S'", "name": "'n'"}, "anchor_is_in_years_1_to_9999"),
    ({"timer_key": "0"}, "timer_key_is_positive"),
    ({"timer_key": "-840"}, "timer_key_is_positive"),
    ({"claimed_by": "1"}, "claim_is_whole"),
    ({"claimed_until": "now()"}, "claim_is_whole"),
    ({"claimed_by": "1", "claimed_until": "'infinity'"}, "claim_ends"),
    ({"tenant_id": "''"}, "tenant_id_is_1_to_200_characters"),
    ({"name": "E'\\x07'"}, "name_is_1_to_200_characters"),
    ({"name": "repeat('n', 201)"}, "name_is_1_to_200_characters"),
    ({"target_element_id": "''"}, "target_element_id_is_1_to_200_characters"),
    ({"timer_type": "'CRON'"}, "timer_type_is_known"),
    ({"target": "'http'"}, "target_is_known"),
    ({"zone": "'Europe/Berlin'"}, "zone_is_known"),
    ({"payload": "to_jsonb(repeat('x', 65535))"}, "payload_is_at_most_64_kib"),
    ({"repetitions": "2"}, "schedule_is_whole"),
    ({"occurrence": "2"}, "occurrence_is_within_repetitions"),
    ({"anchor": "now()"}, "schedule_is_whole"),
    ({"schedule": "'R/PT1S'"}, "schedule_is_whole"),
    ({"schedule": "'R/PT1S'", "anchor": "now()"}, "schedule_is_whole"),
    *(
        ({"schedule": f"'{text}'", "anchor": "now()", "name": "'n'"}, "schedule_is_a_repeat_of_fixed_length")
        for text in ["", "R/PT0S", "R/P", "R/PT", "R-2/PT1S", "R/P1M", "R/P1Y", "R/P1DT", "R/P9999999D", "R/PT1S "]
    ),
    (
        {"schedule": "'R2/PT1S'", "anchor": "now()", "name": "'n'", "occurrence": "3", "repetitions": "2"},
        "occurrence_is_within_repetitions",
    ),
    (
        {"schedule": "'R/PT1S'", "anchor": "now()", "name": "'n'", "repetitions": "0"},
        "occurrence_is_within_repetitions",
    ),
    (
        {"schedule": "'R/PT1S'", "anchor": "now()", "name": "'n'", "repetitions": "-2"},
        "occurrence_is_within_repetitions",
    ),
]


async def test_a_row_that_would_poison_a_batch_is_stopped_at_the_door(dsn: str) -> None:
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


async def test_the_longest_periods_that_the_table_lets_in_can_be_read_by_a_shard(dsn: str) -> None:
    for text in ("R/P99999W", "R/P999999D", "R/PT9999999H", "R/PT999999999M", "R/PT9999999999,9S"):
        await add_timers(dsn, 1, schedule=f"'{text}'", anchor="now()", name=f"'{text}'", repetitions="-1")

        assert parse_schedule(text).period < timedelta(days=LONGEST_DAYS)


# SQL reads what Python reads

DURATIONS = [
    *("PT0S", "P0D", "PT1S", "PT0.5S", "PT0,5S", "P1Y2M3W4DT5H6M7.8S", "PT36H", "PT100M", "P1M", "PT1M", "P5W"),
    *("PT0.0000001S", "PT1.0000009S", "PT1.123456S", "PT1.1234561S", "PT1.999999999S", "PT59.9999999S", "P0001Y"),
    *("P1W1D", "PT1H1S", "P1YT1S", "P100Y", "PT999999999S", "P9998Y", "PT8000000H", "P1Y1Y", "PT1H1H", "PT1M1H"),
    *("", "P", "PT", "P1", "1D", "PT1", "P1S", "P1H", "PT1D", "P-1D", "-P1D", "+P1D", "PT+1S", "P1.5D", "PT1.S"),
    *("PT.5S", "P1DT", "P1D ", " P1D", "p1d", "P1D\n", "PT1e3S", "PT1_0S", "P١D", "PT1S;", "PT0x1S", "P T1S"),
    *("PT0.5H", "PT0.5M", "PT1H0.5M", "PT0.1234567891H", "PT1.5H30M", "P1DT0,25H", "PT00000000001S", "PT1.5.5S"),
]
COUNTS = ["R", "R-1", "R0", "R1", "R2147483647", "R2147483648", "R-2", "R-", "r", "", "R1.5", "R+1", "R9999999999"]
texts = st.one_of(
    st.from_regex(
        r"\AP([0-9]{1,5}Y)?([0-9]{1,5}M)?([0-9]{1,6}W)?([0-9]{1,7}D)?"
        r"(T([0-9]{1,8}H)?([0-9]{1,9}M)?([0-9]{1,11}([.,][0-9]{1,12})?[HMS])?)?\Z",
        alphabet="PYMWDTHS0123456789.,",
    ),
    st.text(alphabet="PRYMWDTHS0123456789.,-+/ \n", max_size=20),
)
# Where SQL allows fewer digits than Python, and says so.
FEW_DIGITS = re.compile(r"[0-9]{10,}[YMWDH]|[0-9]{13,}S|.{101,}")
FEW_DIGITS_OF_A_PERIOD = re.compile(
    r"[0-9]{6,}W|[0-9]{7,}D|[0-9]{8,}H|[0-9]{10,}M|[0-9]{11,}[.,S]|[.,][0-9]{10,}|[.,][0-9]+[HM]"
)
LONGEST_DAYS = 3_652_425  # 10,000 years
FURTHEST_DAYS = 2_900_000  # from now to the end of year 9999
# Answers a text that SQL refuses with null; any trouble but a refusal comes through.
READERS = """
create function read_delay(given text) returns bigint[] language plpgsql as $$
declare
    i interval;
begin
    i := shardclock.parse_delay(given, 'delay');
    return array[
        extract(year from i) * 12 + extract(month from i), extract(day from i),
        extract(hour from i) * 3600000000 + extract(minute from i) * 60000000 + extract(microseconds from i)
    ];
exception when invalid_parameter_value then
    return null;
end $$;
create function read_schedule(given text) returns bigint[] language plpgsql as $$
declare
    t shardclock.timers;
begin
    perform shardclock.schedule_timer(schedule => given);
    delete from shardclock.timers returning * into t;
    return array[t.repetitions, extract(epoch from t.due_date - t.anchor) * 1000000];
exception when invalid_parameter_value then
    return null;
end $$;
"""
drawn = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
SqlReads = Callable[[str, Sequence[str]], list[list[int] | None]]


@pytest.fixture
def sql_reads(dsn: str) -> SqlReads:
    """Give what reads many texts with one of the functions above."""

    async def make() -> None:
        async with Hand(dsn) as hand, hand.session.connection() as connection:
            await connection.execute(READERS)

    def read(function: str, given: Sequence[str]) -> list[list[int] | None]:
        text = f"select {function}(g.text) from unnest($1::text[]) with ordinality as g (text, i) order by i"
        return [row[0] for row in asyncio.run(query(dsn, text, given))]

    asyncio.run(make())
    return read


@drawn
@given(more=st.lists(texts, max_size=300))
def test_sql_reads_a_delay_as_python_does(sql_reads: SqlReads, more: list[str]) -> None:
    asked = [*DURATIONS, *more]

    for text, in_sql in zip(asked, sql_reads("read_delay", asked), strict=True):
        in_python = delay_of(text)
        if in_sql is None:
            assert in_python is None or FEW_DIGITS.search(text), text
        elif in_python is None:
            # SQL finds out with the due date that it is too long.
            months, days, elapsed_us = in_sql
            assert months / 12 * 365.2425 + days + elapsed_us / 86_400e6 >= LONGEST_DAYS - 1, text
        else:
            assert in_sql == in_python, text


@drawn
@given(more=st.lists(texts, max_size=300))
def test_sql_reads_what_python_writes_of_a_delay(sql_reads: SqlReads, more: list[str]) -> None:
    read = [text for text in [*DURATIONS, *more] if delay_of(text)]

    written = sql_reads("read_delay", [str(parse_duration(text)) for text in read])

    assert written == [delay_of(text) for text in read]


@drawn
@given(more=st.lists(st.one_of(texts, st.builds("{}/{}".format, st.sampled_from(COUNTS), texts)), max_size=300))
def test_sql_reads_a_schedule_as_python_does(sql_reads: SqlReads, more: list[str]) -> None:
    asked = [*(f"{count}/PT1S" for count in COUNTS), *(f"R/{text}" for text in DURATIONS), *more]

    for text, in_sql in zip(asked, sql_reads("read_schedule", asked), strict=True):
        in_python = schedule_of(text)
        if in_sql is not None:
            assert in_sql == in_python, text
        elif in_python is not None:
            assert in_python[1] > FURTHEST_DAYS * 86_400e6 or FEW_DIGITS_OF_A_PERIOD.search(text), text


def delay_of(text: str) -> list[int] | None:
    """Read a delay in Python: its months, days and microseconds."""
    try:
        it = parse_duration(text)
    except InvalidTimer:
        return None
    return [it.months, it.days, it.elapsed // timedelta(microseconds=1)]


def schedule_of(text: str) -> list[int] | None:
    """Read a schedule in Python: its repetitions and its period in microseconds."""
    try:
        it = parse_schedule(text)
    except InvalidTimer:
        return None
    return [it.repetitions, it.period // timedelta(microseconds=1)]


# The view


async def test_timer_history_gives_every_timer_its_state(each_dsn: str) -> None:
    await add_holder(each_dsn, 1)
    async with Hand(each_dsn, holder=1) as client:
        pending = await schedule(client, delay="PT1H", name="a", payload='{"a": 1}')
        canceled = await schedule(client, delay="PT1H", name="b")
        fired = await schedule(client, delay="PT0S", name="c")
        await client.reschedule(timer_key=pending, delay="PT2H")
        await client.cancel(timer_key=canceled, reason="paid")
        await client.take(fuse=True)
        rows = await query(each_dsn, "select * from shardclock.timer_history order by timer_key")

    states = [(row["timer_key"], row["state"], row["name"], row["holder"]) for row in rows]
    assert states == [(pending, "PENDING", "a", None), (canceled, "CANCELED", "b", None), (fired, "TRIGGERED", "c", 1)]
    assert [row["ended_at"] is None for row in rows] == [True, False, False]
    assert rows[0]["payload"] == '{"a": 1}'
