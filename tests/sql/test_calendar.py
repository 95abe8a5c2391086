"""Prove that SQL reads local times and adds calendar time as Python does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.offsets import clock_changes
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.zone import NO_ZONES, to_utc, zone_of
from tests.support.factories import HolderClient, query
from tests.support.sql_client import refusal, schedule

HOUR = timedelta(hours=1)
# In Postgres these names are also abbreviations, with a constant offset, even in summer.
ALSO_ABBREVIATIONS = {"CET", "EET", "MET", "WET"}
MICROSECOND = timedelta(microseconds=1)


# Wall clocks


class Clocks:
    """List the zones that both Postgres and Python know; the two may have different histories of a zone."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.zone = ""

    async def changes(self, random: Random) -> list[tuple[str, datetime, timedelta]]:
        """Find some clock changes of each zone in both Postgres and Python: zone, moment, and difference."""
        found = []
        for zone in [row["zone"] for row in await query(self.dsn, "select zone from shardclock.zones order by 1")]:
            try:
                clock = zone_of(zone)
            except InvalidTimer:
                continue
            # Moments in all years, and moments to which the current rules apply; the current rules are equal in
            # Postgres and Python.
            for year in (random.randint(1970, 2037), 2030):
                start = datetime(year, 1, 1, tzinfo=UTC)
                changes = list(clock_changes(clock, start, start + timedelta(days=1_000)))[:2]
                found += [(zone, change.at, change.after - change.before) for change in changes]
        known = await self.agree([(zone, at) for zone, at, _ in found])
        return [change for change, is_known in zip(found, known, strict=True) if is_known]

    async def agree(self, moments: Sequence[tuple[str, datetime]]) -> list[bool]:
        """Return for each moment whether Postgres and Python agree on the local time in the hours around it."""
        self.zone = ""
        hours = [hour * HOUR for hour in range(-27, 28)]
        same = []
        async with HolderClient(self.dsn, plans={}) as hand:
            for zone, moment in moments:
                near = [moment + hour for hour in (*hours, -timedelta(seconds=1))]
                shown = await self.shown(hand, zone, near)
                same.append(shown == [it.astimezone(zone_of(zone)).replace(tzinfo=None) for it in near])
        return same

    async def shown(self, hand: HolderClient, zone: str, moments: list[datetime]) -> list[datetime]:
        """Read a local time in the session's zone: Postgres never parses this setting as an abbreviation."""
        if zone != self.zone:
            await hand.value("select set_config('timezone', $1, false)", zone)
            self.zone = zone
        found = await hand.value("select array_agg(m::timestamp order by i) from unnest($1::timestamptz[])"
            " with ordinality u (m, i)", moments)  # fmt: skip
        return list(found)


@pytest.mark.exhaustive
async def test_a_local_time_near_a_change_of_the_clock_is_the_same_moment_in_sql_and_python(each_dsn: str) -> None:
    random = Random(2031)
    asked: list[tuple[str, datetime]] = []
    for zone, at, by in await Clocks(each_dsn).changes(random):
        local = at.astimezone(zone_of(zone)).replace(tzinfo=None)
        # Within the skipped or repeated time, at its edges, and up to a day away from it.
        away = [-by * random.random(), -by, -by - MICROSECOND, MICROSECOND, random.uniform(-26, 26) * HOUR]
        asked += [(zone, local), *((zone, local + it) for it in away)]

    text = (
        "select shardclock.to_utc(l, z) from unnest($1::text[], $2::timestamp[]) with ordinality u (z, l, i) order by i"
    )
    found = await query(each_dsn, text, *map(list, zip(*asked, strict=True)))

    assert len(asked) > 1_000
    assert {zone for zone, _ in asked} >= ALSO_ABBREVIATIONS
    for (zone, local), in_sql in zip(asked, found, strict=True):
        assert in_sql[0] == to_utc(local, zone_of(zone)), (zone, local)


LENGTHS = ["P1D", "P1M", "P1Y", "P2W", "PT36H", "P1DT0.000001S", "P11M30DT23H", "P4Y1M", "PT0S", "P100Y"]


@pytest.mark.exhaustive
async def test_a_moment_plus_a_duration_is_the_same_moment_in_sql_and_python(each_dsn: str) -> None:
    random = Random(2032)
    clocks = Clocks(each_dsn)
    asked = []
    for zone, at, _ in await clocks.changes(random):
        # A moment half a year after a change of the clock is in the other season.
        for length in map(parse_duration, (random.choice(LENGTHS), "P6M")):
            # For the first start, the end is near the change; the second start itself is near the change.
            starts = at - length.average() + random.uniform(-3, 3) * HOUR, at + random.uniform(-26, 2) * HOUR
            asked += [(zone, start, length) for start in starts]
    expected = [add_duration(moment, length, zone_of(zone)) for zone, moment, length in asked]

    text = (
        "select shardclock.later(m, p::interval, z) from unnest($1::text[], $2::timestamptz[], $3::text[])"
        " with ordinality u (z, m, p, i) order by i"
    )
    columns = [list(column) for column in zip(*((zone, moment, str(it)) for zone, moment, it in asked), strict=True)]
    found = [row[0] for row in await query(each_dsn, text, *columns)]

    known_at_start = await clocks.agree([(zone, start) for zone, start, _ in asked])
    known_at_end = await clocks.agree([(zone, end) for (zone, _, _), end in zip(asked, expected, strict=True)])
    known = [all(both) for both in zip(known_at_start, known_at_end, strict=True)]
    assert sum(known) > 300
    assert {zone for (zone, _, _), both_know in zip(asked, known, strict=True) if both_know} >= ALSO_ABBREVIATIONS
    for asked_for, in_sql, in_python, both_know in zip(asked, found, expected, known, strict=True):
        assert in_sql == in_python or not both_know, asked_for


# Settings of a client's session; they decide the meaning of an abbreviation there.
SETTINGS = ["set timezone = 'Asia/Tokyo'", "set timezone_abbreviations = 'Australia'", "set timezone = 'Europe/Moscow'"]


@pytest.mark.shared_database
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("zone", [*sorted(ALSO_ABBREVIATIONS), "EST", "MST", "HST", "EST5EDT", "GB", "Europe/Brussels"])
async def test_a_name_that_is_both_a_zone_and_an_abbreviation_means_the_zone(
    each_dsn: str, zone: str, setting: str
) -> None:
    winter, summer = datetime(2027, 1, 31, 10, tzinfo=UTC), datetime(2027, 7, 31, 10, tzinfo=UTC)
    length = parse_duration("P6M")
    async with HolderClient(each_dsn, plans={}) as client:
        await client.begin()
        await client.value(setting.replace("set ", "set local "))
        before = await client.value("show timezone")
        now = await client.value("select now()")
        found = [
            [
                await client.value("select shardclock.later($1, 'P6M', $2)", moment, zone),
                await client.value("select shardclock.to_utc($1, $2)", moment.replace(tzinfo=None), zone),
            ]
            for moment in (winter, summer)
        ]
        key = await schedule(client, delay="P6M", zone=zone)
        due = await client.value("select due_date from shardclock.timers")
        await client.reschedule(timer_key=key, shift="P3M")
        shifted = await client.value("select due_date from shardclock.timers")
        assert await client.value("show timezone") == before

    clock = zone_of(zone)
    assert found == [
        [add_duration(moment, length, clock), to_utc(moment.replace(tzinfo=None), clock)] for moment in (winter, summer)
    ]
    assert due == add_duration(now, length, clock)
    assert shifted == add_duration(due, parse_duration("P3M"), clock)


async def test_subtracting_a_duration_equals_adding_the_negative_duration(client: HolderClient) -> None:
    rows = {
        "2031-03-31 10:00+02": ("-P1M", "2031-02-28 10:00+01"),
        "2031-03-31 10:00:00.5+02": ("-P1DT0.5S", "2031-03-30 10:00+02"),
        "2031-03-30 10:00+02": ("-P1D", "2031-03-29 10:00+01"),
        "2031-03-30 03:00+02": ("-PT24H", "2031-03-29 02:00+01"),
        "2031-03-31 02:30+02": ("-P1D", "2031-03-30 03:30+02"),
    }
    for moment, (shift, expected) in rows.items():
        text = (
            "select shardclock.later($1::text::timestamptz, shardclock.shift_length($2), 'Europe/Berlin')"
            " = $3::text::timestamptz"
        )
        assert await client.value(text, moment, shift, expected), (moment, shift)


@pytest.mark.shared_database
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
async def test_a_delay_is_counted_on_the_zone_s_calendar_from_the_transaction_s_now(
    client: HolderClient, zone: str
) -> None:
    await client.begin()
    await client.value("set local time zone 'Asia/Tokyo'")
    now = await client.value("select now()")
    delays = ["P182DT1H0.0000001S", "P1M", "P6M", "P1YT1S", "PT4380H", "PT0S"]
    for delay in delays:
        await schedule(client, delay=delay, zone=zone)

    dues = await client.value("select array_agg(due_date order by timer_key) from shardclock.timers")

    assert dues == [add_duration(now, parse_duration(delay), zone_of(zone)) for delay in delays]


async def test_zones_are_names_of_places_and_no_zone_means_this_machine(each_dsn: str) -> None:
    zones = {row["zone"] for row in await query(each_dsn, "select zone from shardclock.zones")}

    assert zones >= {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12"}
    assert zones & (NO_ZONES | {"CEST", "PDT", "posix/UTC", "right/UTC"}) == set()
    for zone in ("CEST", "localtime", "europe/berlin", "UTC+2", "", "<+02>-2"):
        async with HolderClient(each_dsn, plans={}) as client:
            assert await refusal(client, "schedule_timer", delay="'PT1H'", zone=f"'{zone}'") == (
                f"zone '{zone}' is not an IANA time zone; write one such as UTC or Europe/Berlin"
            )
