"""Prove that SQL reads delays and schedules as Python does, and accepts each text that Python can read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardclock_server.shards.firing import planning_of
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.schedule import first_of, parse_schedule
from shardclock_server.timers.zone import zone_of
from tests.support.factories import HolderClient, add_holder, sql
from tests.support.refused_rules import REFUSED_CRON, REFUSED_REPEATS, drawn_rule
from tests.support.roles import SUPERUSER
from tests.support.sql_client import refusal, schedule

MICROSECOND = timedelta(microseconds=1)


# By form


# SQL and Python read each text in the same way. SQL plans a schedule that needs no calendar; a shard plans all others.
BOTH_READ = [
    *("R/PT1H", "R3/P1W", "R10/PT0.5S", "R0/PT1S", "R2147483647/PT1S", "R5/P1M", "R/P1Y2M3W4DT5H6M7,8S", "R//PT10S"),
    *("R/2031-01-31T08:00:00Z/P1D", "R/2031-01-31T08:00Z/PT1H", "R3/2031-01-31T09:00:00+01:00/P1M", "R/PT0.5H"),
    *("R/2031-01-31T09:00[Europe/Berlin]/P1D", "R/2031-01-31T09:00+01:00[Europe/Berlin]/P1D", "R/P1DT0,25H"),
    *("R/P1D/2051-01-31T08:00:00Z", "R/2031-01-31T08:00:00.123456789Z/2031-02-01T08:00:00+0100"),
    *("R/PT1H/2051-01-01T00:00-05", "* * * * *", "*/15 9-17 * * MON-FRI", "0 8 * * 1-5", "0 0 1,15 * 5"),
    *("5 4 * * SUN", "0 22 * * 1-5/2", "0 0 * * 7", "0 0 8 * * MON-FRI", "* * * * * *", "0 0 0 1 1 *"),
    *("0 0 12 L * ?", "0 0 12 LW * *", "0 0 12 L-3 * *", "0 0 8 ? * 1", "0 0 12 15W * ?", "0 15 10 ? * 6L"),
    *("0 15 10 ? * FRIL", "0 15 10 ? * 6#3", "0 0 0 ? * SUN#5", "0 0 0 29 2 *", "0 0 0 1W JAN-MAR,DEC *"),
    *("5/15 0-30/5,59 */2 1-31 FEB/2 *", "00 08 * * 01", "0 8 * * mon", "  0  8 * * MON ", "@yearly", "@annually"),
    *("@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@DAILY", " @daily "),
    *("R3/pt5s", "R+3/PT1S", "R/+P1D", "R/P+1D", "R/PT+1.5S", "R/+p+1y+1m+1w+1dt+1h+1m+1s", "R//+PT1S"),
    *("R/2031-01-31t08:00:00z/p1m", "R/+P1D/2051-01-31T08:00:00Z", "R/PT+1H/2051-01-31t08:00z"),
    *(
        "007 * * * *",
        "0 8 001 * *",
        "* * * * 005",
        "0 0 8 015W * ?",
        "0 0 8 L-030 * ?",
        "0 0 8 ? * 05L",
        "0 0 8 ? * 05#02",
    ),
    *("0 0 8 ? * ?", "0 0 8 31W,L-30 * *", "0 8 * * MON#1,FRIL"),
    *("R/2031-03-30T02:30[Europe/Berlin]/P1D", "R/2031-03-30T02:30:00.5+01:00[Europe/Berlin]/P1D"),
]
BOTH_REFUSE = [
    *("", " ", "R", "R/", "R3", "R/PT", "R/P", "PT1H", "r/PT1H", "R-2/PT1S", "R1.5/PT1S", "R++1/PT1S", "R/-PT1S"),
    *("R+/PT1S", "R+-1/PT1S", "R/++P1D", "R/P++1D", "R/P1+D", "R/P-1D", "R/PT1+1S", "R/pt1ſ", "R/P1D+T1H", "+P1D"),
    *("R/PT1S ", "R/P1D/P1D", "R/2031-01-31T08:00:00Z", "R/2031-01-31/P1D", "R/31.1.2031/P1D", "R/PT1S/", "R/P1DT"),
    *("R/PT1S;", "R/2031-01-31T08:00:00Z/P1D/2032-01-31T08:00:00Z", "R/2031-01-31T08:00:00ZZ/P1D"),
    *("R/PT1H/2031-01-31T08:00[Eur ope]", "* * *", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *"),
    *("* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8", "* * * * FUN", "* * * FOO *", "a * * * *"),
    *("-1 * * * *", "1- * * * *", "*/0 * * * *", "*/ * * * *", "1,,2 * * * *", ",1 * * * *", "1, * * * *"),
    *("*-5 * * * *", "? * * * *", "* L * * *", "* * X * *", "* * * * MON#6", "* * * * MON#0", "0 0 W * *", "@never"),
    *("@ daily", "@daily 5", "0 8 * * MONDAY", "0 8 * * *; drop table timers", "every day", "0 0 8 * * ١"),
    *("１ * * * *", "* * * * *" + " " * 200, "R/PT1S" + "0" * 200, "0\t8 * * *", "* * * * *\n", "\t@daily", "@daily\n"),
    *("* * ? * *", "* * * * ?", "0 ? * * * *", "0 0 0 ?,1 * *", "0 0 0 1 ? *", "0 0 0 ? * ?/2", "0 0 0 ??? * *"),
    *("0 0 0 L-0 * *", "0 0 0 L-31 * *", "0 0 L-00 * *", "0 0 0 99W * *", "0 0 0 0W * *", "0 0 0 ? * L", "0 0 * * L"),
    *(
        "R2147483648/PT1S",
        "R/P0M",
        "R/PT0.0H",
        "R/PT1S0.5S",
        "R/P9999Y",
        "R/P99999Y",
        "R/P/2051-01-31T08:00:00Z",
        "R/2031-02-30T08:00:00Z/P1D",
        "R/2031-01-31T24:00:00Z/P1D",
    ),
    *(
        "R/2031-01-31T08:00:00/P1D",
        "R/2031-01-31T08:00:00Z/2031-01-31T08:00:00Z",
        "R/P1D/2021-01-31T08:00:00Z",
        "R/2031-07-31T09:00+01:00[Europe/Berlin]/P1D",
        "30-10 * * * *",
        "* * * * SAT-MON",
        "0 0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
    ),
    *("0 0 0 ? * MON#L", "0 0 * * 1#L", "0 0 * * 1#6", "0 0 * * 8L", "0 0 * * 08"),
]


async def planned_or_left(dsn: str, texts: Sequence[str]) -> dict[str, bool | None]:
    """Schedule each text: True if SQL planned it, False if a shard must plan it, None if SQL refused it."""
    async with HolderClient(dsn, plans={}, role=SUPERUSER) as hand, hand.session.connection() as connection:
        await connection.execute(READERS)
        text = "select given, read_schedule(given) from unnest($1::text[]) as given"
        return {row[0]: None if row[1] is None else row[1] != [] for row in await connection.fetch(text, texts)}


@pytest.mark.shared_database
async def test_sql_accepts_the_texts_that_python_reads_and_plans_the_texts_that_need_no_calendar(each_dsn: str) -> None:
    taken = await planned_or_left(each_dsn, BOTH_READ)

    assert [text for text in BOTH_READ if not python_reads(text)] == []
    assert [text for text, it in taken.items() if it is None] == []
    assert [text for text, it in taken.items() if it] == ["R/PT1H", "R3/P1W", "R10/PT0.5S", "R0/PT1S"]


@pytest.mark.shared_database
async def test_sql_and_python_refuse_nonsense_in_the_same_sentence(client: HolderClient) -> None:
    assert [text for text in BOTH_REFUSE if python_reads(text)] == []

    said = {text: await refusal(client, "schedule_timer", schedule=f"$t${text}$t$") for text in BOTH_REFUSE}

    assert {text: without_moment(it) for text, it in said.items()} == {text: sentence_of(text) for text in BOTH_REFUSE}


@pytest.mark.shared_database
async def test_each_rule_that_python_refuses_is_refused_in_sql_in_the_same_sentence(client: HolderClient) -> None:
    drawn_ones = [drawn_rule(Random(seed)) for seed in range(1_500)]
    listed = [text for text, _ in (*REFUSED_CRON, *REFUSED_REPEATS) if text.isprintable()]
    asked = [(text, zone) for text in (*listed, *drawn_ones) for zone in ("UTC", "Europe/Berlin")]
    each = "unnest($1::text[], $2::text[]) as a(rule, zone)"
    text = f"select 'schedule ' || shardclock.rule_refusal(a.rule, a.zone) from {each}"
    async with client.session.connection() as connection:
        said = [row[0] for row in await connection.fetch(text, *map(list, zip(*asked, strict=True)))]
    found = {which: without_moment(sentence or "") for which, sentence in zip(asked, said, strict=True)}

    expected = {(text, zone): sentence_of(text, zone) for text, zone in asked}
    assert {which: it for which, it in found.items() if it != expected[which]} == {}
    assert 300 < sum(sentence == "" for sentence in expected.values()) < len(expected) - 300, "some of each"


@pytest.mark.shared_database
@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "PT1", "1D", "-P1D", "P-1D", "P1Y-1M", "-pt-0.5s", "P1.5D", "P99999Y", "a'b", "PT1S\n"],
)
async def test_sql_and_python_refuse_a_delay_in_the_same_sentence(client: HolderClient, text: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        parse_duration(text)
    assert await refusal(client, "schedule_timer", delay=f"$t${text}$t$") == f"delay {refused.value}"


async def test_a_shard_plans_the_rules_that_sql_accepts(dsn: str) -> None:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, plans={}) as shard:
        for text in BOTH_READ:
            await schedule(shard, schedule=text)
        taken = (await shard.take(fire_overdue=True)).claimed

    assert len(taken) > len(BOTH_READ) / 2, "the others need no calendar"
    assert [timer.schedule for timer in taken if planning_of(timer) is None] == []


TWO_ZONES = "R/2031-01-31T08:00[Asia/Tokyo]/2031-02-01T08:00[Asia/Seoul]"
TOKYO = "R/PT1H/2031-01-31T08:00[Asia/Tokyo]"
ZONES_AT_FAULT = [
    ("R/2031-01-31T08:00[Mars/Olympus]/P1D", "UTC"),
    ("R/2031-01-31T08:00[europe/berlin]/P1D", "UTC"),
    ("R/2031-01-31T08:00[CEST]/P1D", "UTC"),
    (TWO_ZONES, "UTC"),
    (TOKYO, "Europe/Berlin"),
    ("R/2031-01-31T08:00/P1D", "UTC"),
    ("R/2031-07-31T09:00+01:00[Europe/Berlin]/P1D", "Europe/Berlin"),
]


@pytest.mark.shared_database
@pytest.mark.parametrize(("text", "zone"), ZONES_AT_FAULT)
async def test_a_zone_in_brackets_must_be_known_and_equal_the_separate_zone(
    client: HolderClient, text: str, zone: str
) -> None:
    key = await schedule(client, zone="Asia/Seoul")
    sentence = sentence_of(text, zone)

    assert await refusal(client, "schedule_timer", schedule=f"'{text}'", zone=f"'{zone}'") == sentence
    said = await refusal(client, "reschedule_timer", timer_key=f"{key}", schedule=f"'{text}'", zone=f"'{zone}'")
    assert said == sentence


@pytest.mark.shared_database
@pytest.mark.parametrize("zone", ["Mars/Olympus", "europe/berlin", "CEST", "localtime", ""])
async def test_sql_and_python_refuse_an_unknown_zone_in_the_same_sentence(client: HolderClient, zone: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        zone_of(zone)
    for when in ({"delay": "'P1D'"}, {"schedule": "'R/P1D'"}):
        assert await refusal(client, "schedule_timer", zone=f"'{zone}'", **when) == f"zone {refused.value}"


# By meaning


DURATIONS = [
    *("PT0S", "P0D", "PT1S", "PT0.5S", "PT0,5S", "P1Y2M3W4DT5H6M7.8S", "PT36H", "PT100M", "P1M", "PT1M", "P5W"),
    *("PT0.0000001S", "PT1.0000009S", "PT1.123456S", "PT1.1234561S", "PT1.999999999S", "PT59.9999999S", "P0001Y"),
    *("P1W1D", "PT1H1S", "P1YT1S", "P100Y", "PT999999999S", "P9998Y", "PT8000000H", "P1Y1Y", "PT1H1H", "PT1M1H"),
    *("", "P", "PT", "P1", "1D", "PT1", "P1S", "P1H", "PT1D", "P-1D", "-P1D", "+P1D", "PT+1S", "P1.5D", "PT1.S"),
    *(
        "p1d",
        "pt1s",
        "+p+1y+2m+3w+4dt+5h+6m+7,5s",
        "PT+1S",
        "+PT+1.5h",
        "P+1D",
        "++P1D",
        "P++1D",
        "P1+D",
        "P1D+T1S",
        "pt1ſ",
    ),
    *("-P-1D", "P1Y-1M", "PT-0.5S", "PT1.+5S", "PT+.5S", "+ P1D", "P+", "PT+", "+", "+P", "P+1", "pT1S", "Pt1s"),
    *("PT.5S", "P1DT", "P1D ", " P1D", "p1d", "P1D\n", "PT1e3S", "PT1_0S", "P١D", "PT1S;", "PT0x1S", "P T1S"),
    *("PT0.5H", "PT0.5M", "PT1H0.5M", "PT0.1234567891H", "PT1.5H30M", "P1DT0,25H", "PT00000000001S", "PT1.5.5S"),
]
COUNTS = ["R", "R-1", "R0", "R1", "R2147483647", "R2147483648", "R-2", "R-", "r", "", "R1.5", "R+1", "R9999999999"]
PARTS = [
    *"*0159",
    "10",
    "31",
    "23-5",
    "1-5",
    "*/2",
    "5/15",
    "00",
    "60",
    "?",
    "L",
    "LW",
    "L-3",
    "15W",
    "MON",
    "6#3",
    "FRIL",
    "jan",
    "1,2",
    "x",
]
texts = st.one_of(
    st.from_regex(
        r"\AP([0-9]{1,5}Y)?([0-9]{1,5}M)?([0-9]{1,6}W)?([0-9]{1,7}D)?"
        r"(T([0-9]{1,8}H)?([0-9]{1,9}M)?([0-9]{1,11}([.,][0-9]{1,12})?[HMS])?)?\Z",
        alphabet="PYMWDTHS0123456789.,",
    ),
    st.from_regex(
        r"\A\+?[Pp](\+?[0-9]{1,3}[Yy])?(\+?[0-9]{1,3}[Mm])?(\+?[0-9]{1,3}[Dd])?"
        r"([Tt](\+?[0-9]{1,3}[Hh])?(\+?[0-9]{1,3}(\.[0-9]{1,7})?[Ss])?)?\Z",
        alphabet="+PYMDTHSpymdths0123456789.",
    ),
    st.text(alphabet="PRYMWDTHSpymwdths0123456789.,-+/ \n", max_size=20),
)
cron_texts = st.lists(st.sampled_from(PARTS), min_size=4, max_size=7).map(" ".join)
# Texts for which SQL allows fewer digits than Python; the refusal names the limit.
FEW_DIGITS = re.compile(r"(?i)[0-9]{10,}[YMWDH]|[0-9]{13,}S|.{101,}")
LONGEST_DAYS = 3_652_425  # 10,000 years
FURTHEST_DAYS = 2_900_000  # from now to the end of year 9999
# Returns null for a text that SQL refuses, and {} for a text that it leaves to a shard; any other error is
# raised.
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
    return case
        when t.anchor_occurrence is null then array[]::bigint[]
        else array[t.repetitions, extract(epoch from t.due_date - t.anchor) * 1000000]
    end;
exception when invalid_parameter_value then
    return null;
end $$;
"""
drawn = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
SqlReads = Callable[[str, Sequence[str]], list[list[int] | None]]


@pytest.fixture
def sql_reads(dsn: str) -> SqlReads:
    """Return a function that reads many texts with one of the SQL functions above."""

    async def make() -> None:
        async with HolderClient(dsn, role=SUPERUSER) as hand, hand.session.connection() as connection:
            await connection.execute(READERS)

    def read(function: str, given: Sequence[str]) -> list[list[int] | None]:
        text = f"select {function}(g.text) from unnest($1::text[]) with ordinality as g (text, i) order by i"
        return [row[0] for row in sql(dsn, text, given)]

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
            # SQL refuses a text that is too long later, when it computes the due date.
            months, days, elapsed_us = in_sql
            assert months / 12 * 365.2425 + days + elapsed_us / 86_400e6 >= LONGEST_DAYS - 1, text
        else:
            assert in_sql == in_python, text


@drawn
@given(more=st.lists(texts, max_size=300))
def test_sql_reads_the_delays_that_python_writes(sql_reads: SqlReads, more: list[str]) -> None:
    read = [text for text in [*DURATIONS, *more] if delay_of(text)]

    written = sql_reads("read_delay", [str(parse_duration(text)) for text in read])

    assert written == [delay_of(text) for text in read]


@drawn
@given(
    more=st.lists(st.one_of(texts, st.builds("{}/{}".format, st.sampled_from(COUNTS), texts), cron_texts), max_size=300)
)
def test_sql_plans_a_schedule_like_python_and_refuses_no_schedule_that_python_reads(
    sql_reads: SqlReads, more: list[str]
) -> None:
    asked = [*(f"{count}/PT1S" for count in COUNTS), *(f"R/{text}" for text in DURATIONS), *more]

    for text, in_sql in zip(asked, sql_reads("read_schedule", asked), strict=True):
        if in_sql:
            assert in_sql == period_of(text), text
        elif in_sql is None and python_reads(text):
            period = period_of(text) or [0, 0]
            assert period[1] > FURTHEST_DAYS * 86_400e6, text


def delay_of(text: str) -> list[int] | None:
    """Read a delay in Python; return its months, days and microseconds."""
    try:
        it = parse_duration(text)
    except InvalidTimer:
        return None
    return [it.months, it.days, it.elapsed // MICROSECOND]


def period_of(text: str) -> list[int] | None:
    """Read a repeat in Python; return its repetitions, and its period in microseconds."""
    try:
        it = parse_schedule(text)
    except InvalidTimer:
        return None
    if not isinstance(it, Repeat):
        return None
    return [it.repetitions, it.period.average() // MICROSECOND]


def python_reads(text: str) -> bool:
    """Return whether Python can read a schedule, and finds its first occurrence."""
    return sentence_of(text) == ""


def sentence_of(text: str, zone: str = "UTC") -> str:
    """Return the sentence with which Python refuses a schedule, or "" if Python accepts it."""
    try:
        first_of(parse_schedule(text, zone), datetime.now(UTC))
    except InvalidTimer as refused:
        return without_moment(f"schedule {str(refused).removeprefix('schedule ')}")
    return ""


def without_moment(sentence: str) -> str:
    """Remove the known differences: the moment, and Python's own text for a repeat that never occurs."""
    return re.sub(r"'.* never occurs after \S+;", "it never occurs;", sentence)
