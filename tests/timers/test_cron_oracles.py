"""Compare random cron rules with cronsim, with a wall clock, and with a check of each day of the calendar."""

from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from shardclock_server.timers.cron import parse_cron
from shardclock_server.timers.moment import LATEST_DUE_DATE
from shardclock_server.timers.occurrence import CatchUp
from shardclock_server.timers.offsets import OffsetChange, clock_changes
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.zone import UTC_ZONE, to_local
from tests.support.cron_rules import moment, numbers, occurrences, spring_texts, unix_texts, zones

MICROSECOND = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def cronsim(text: str, start: datetime) -> Iterator[datetime]:
    """Step through a rule with cronsim, which refuses 30 February even if the day-of-week can match."""
    try:
        yield from CronSim(text, start)
    except CronSimError:
        reject()


@settings(deadline=None)  # cronsim steps through days one by one
@given(text=unix_texts, zone=zones, hours=st.integers(0, 1_000_000), second=st.integers(0, 3599))
def test_unix_cron_fires_when_cronsim_fires(text: str, zone: ZoneInfo, hours: int, second: int) -> None:
    cron = parse_cron(text, zone)
    start = moment("1970-01-01T00:00") + timedelta(hours=hours, seconds=second)
    found = [occurrence.due_date for occurrence in islice(occurrences(cron, start), 6)]
    # Three rules of cronsim differ from ours. If the clock skips a fixed time, cronsim fires right after the gap, as
    # Debian does. cronsim fires at a midnight that the clock skips. If cronsim starts in the second pass of an hour, it
    # fires in this hour again.
    around = clock_changes(zone, start - DAY, (found[-1] if found else start) + DAY)
    gaps = [change for change in around if change.after > change.before]
    assume(cron.fields.fires_twice or not gaps)
    assume(not any(skips_midnight(gap) for gap in gaps))
    assume(not start.astimezone(zone).fold)

    expected = [due_date.astimezone(UTC) for due_date in islice(cronsim(text, start.astimezone(zone)), 6)]

    assert found == expected


def skips_midnight(gap: OffsetChange) -> bool:
    low, high = (gap.at + offset - MICROSECOND for offset in (gap.before, gap.after))
    return low.date() != high.date()


@st.composite
def changes(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """Choose a zone, and a moment near a change of the zone's clock, if the clock ever changes."""
    zone = draw(zones)
    year = draw(st.sampled_from([1867, 1900, 1945, 1980, 2011, 2024, 2026, 2087, 2300, 9998]) | st.integers(1867, 2037))
    start = datetime(year, 1, 1, tzinfo=UTC)
    found = [change.at for change in clock_changes(zone, start, start + 365 * DAY)]
    return zone, draw(st.sampled_from(found)) if found else start


@pytest.mark.exhaustive
@given(
    change=changes(),
    seconds=st.sets(st.integers(0, 59), min_size=1, max_size=2),
    minutes=st.none() | st.sets(st.integers(0, 59), min_size=1, max_size=9),
    hours=st.none() | st.sets(st.integers(0, 23), min_size=1, max_size=9),
    minutes_before=st.integers(0, 26 * 60),
)
@settings(deadline=None)  # the oracle checks each minute of two days
def test_near_a_change_a_rule_fires_when_the_clock_shows_its_times(
    change: tuple[ZoneInfo, datetime],
    seconds: set[int],
    minutes: set[int] | None,
    hours: set[int] | None,
    minutes_before: int,
) -> None:
    zone, at = change
    start = at - minutes_before * MINUTE - timedelta(seconds=1)
    end = at + 26 * 60 * MINUTE
    text = " ".join(",".join(map(str, sorted(field))) if field else "*" for field in (seconds, minutes, hours))

    def fires(moment: datetime) -> bool:
        local = to_local(moment, zone)
        both_times = minutes is None or hours is None
        return (
            (hours is None or local.hour in hours)
            and (minutes is None or local.minute in minutes)
            and local.second in seconds
            and (both_times or not local.fold)
        )

    # Old offsets have odd seconds, so check in each UTC minute only the seconds at which the rule can fire.
    odd = {(second - int(offset)) % 60 for second in seconds for offset in offsets(zone, start, end)}
    whole = start.replace(second=0)
    all_moments = (
        whole + n * MINUTE + timedelta(seconds=s) for n in range((end - whole) // MINUTE) for s in sorted(odd)
    )
    expected = [moment for moment in all_moments if moment > start and fires(moment)]

    found = occurrences(parse_cron(f"{text} * * ?", zone), start)
    assert [occurrence.due_date for occurrence in islice(found, len(expected))] == expected


def offsets(zone: ZoneInfo, start: datetime, end: datetime) -> set[float]:
    """Find a zone's offsets near a change, in seconds."""
    return {offset.total_seconds() for at in (start, end) if (offset := at.astimezone(zone).utcoffset()) is not None}


@given(
    text=spring_texts | unix_texts,
    change=changes(),
    before=st.timedeltas(timedelta(0), 3 * DAY),
    steps=st.integers(0, 40),
    nudge=st.sampled_from([timedelta(0), MICROSECOND, MINUTE / 7]),
)
def test_counting_missed_occurrences_equals_stepping(
    text: str, change: tuple[ZoneInfo, datetime], before: timedelta, steps: int, nudge: timedelta
) -> None:
    zone, at = change
    cron = parse_cron(text, zone)
    stepped = list(islice(occurrences(cron, at - before), steps + 3))
    assume(len(stepped) > steps)
    current, last = stepped[0], stepped[steps]
    following = stepped[steps + 1] if steps + 1 < len(stepped) else None
    now = last.due_date + nudge
    assume(following is None or now < following.due_date)

    later = cron.after(current, now)

    assert later == CatchUp(steps, following)
    if following:  # an occurrence counts as missed from its due date on
        assert cron.after(current, following.due_date).missed == steps + 1


DAY_RULES = ["?", "L", "LW", "L-1", "L-7", "L-29", "1W", "2W", "15W", "30W", "31W", "1", "31", "1-7", "*/10", "5/9"]
WEEKDAY_RULES = [
    "?",
    "0",
    "7",
    "MON",
    "MON-FRI",
    "FRI-SUN",
    "5L",
    "SUNL",
    "0#1",
    "6#5",
    "TUE#2",
    "1/2",
    "*/2",
    "SUN-TUE",
]


@given(day=st.sampled_from(DAY_RULES), weekday=st.sampled_from(WEEKDAY_RULES), year=st.integers(1, 9999))
@settings(deadline=None)  # the oracle checks each day of a year
def test_cron_matches_the_days_that_a_check_of_each_day_finds(day: str, weekday: str, year: int) -> None:
    new_year = date(year, 1, 1)
    all_days = [new_year + n * DAY for n in range(sum(monthrange(year, month)[1] for month in range(1, 13)))]
    expected = [found for found in all_days if is_day(found, day) and is_weekday(found, weekday)]

    cron = parse_cron(f"0 0 12 {day} * {weekday}", UTC_ZONE)
    start = datetime(year, 1, 1, tzinfo=UTC)
    found = [occurrence.due_date.date() for occurrence in islice(occurrences(cron, start), len(expected) + 1)]

    assert [each for each in found if each.year == year] == expected


def is_day(found: date, rule: str) -> bool:
    """Return whether a day-of-month matches a day, in the simplest way."""
    last = monthrange(found.year, found.month)[1]
    workdays = [n for n in range(1, last + 1) if found.replace(day=n).weekday() < 5]
    if rule == "LW":
        return found.day == max(workdays)
    if rule.endswith("W"):
        goal = int(rule[:-1])
        # The nearest workday to a Saturday is the Friday before it, and to a Sunday the Monday after it.
        return goal <= last and found.day == min(workdays, key=lambda n: abs(n - goal))
    if rule.startswith("L"):
        return found.day == last - int(rule[2:] or 0)
    return found.day in {"?": range(1, 32), "1-7": range(1, 8), "*/10": (1, 11, 21, 31), "5/9": (5, 14, 23)}.get(
        rule, [int(rule)] if rule.isdigit() else []
    )


def is_weekday(found: date, rule: str) -> bool:
    """Return whether a day-of-week matches a day, in the simplest way."""
    name = found.strftime("%a").upper()
    last = monthrange(found.year, found.month)[1]
    same = [n for n in range(1, last + 1) if (n - found.day) % 7 == 0]
    if rule in {"5L", "SUNL"}:
        return name == {"5L": "FRI", "SUNL": "SUN"}[rule] and found.day == same[-1]
    if "#" in rule:
        wanted, nth = rule.split("#")
        return name == {"0": "SUN", "6": "SAT"}.get(wanted, wanted) and same.index(found.day) + 1 == int(nth)
    chosen = {
        **dict.fromkeys(["?"], "MON TUE WED THU FRI SAT SUN"),
        **dict.fromkeys(["0", "7"], "SUN"),
        **dict.fromkeys(["1/2", "*/2"], "MON WED FRI SUN"),
        "MON-FRI": "MON TUE WED THU FRI",
        "FRI-SUN": "FRI SAT SUN",
        "SUN-TUE": "SUN MON TUE",
    }
    return name in chosen.get(rule, rule)


pieces = st.text("0123456789*/,-?LW#@SUNMOJA", max_size=6) | numbers(0, 70, ["FRI#2", "SUN-TUE", "LW", "3W", "@daily"])
near_cron = st.lists(pieces, max_size=8).map(" ".join)


@pytest.mark.exhaustive
@settings(max_examples=2_000)
@given(text=near_cron | st.text(st.characters(codec=None), max_size=300) | spring_texts, zone=zones)
def test_any_text_is_cron_or_refused_in_one_line(text: str, zone: ZoneInfo) -> None:
    try:
        cron = parse_cron(text, zone)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert parse_cron(str(cron), zone) == cron
        first = cron.first(datetime(2026, 1, 1, tzinfo=UTC))
        assert first is None or first.due_date <= LATEST_DUE_DATE
