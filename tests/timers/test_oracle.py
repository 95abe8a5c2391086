"""Compare random schedules with an independent library, and check that the only error of a random text is a refusal.

The oracle is `whenever`, which has its own code for the zone database, and simple loops over days and numbers. Another
TEST_SEED in the environment draws other questions.
"""

import os
import time
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from zoneinfo import available_timezones

import pytest
from whenever import Instant, PlainDateTime, ZonedDateTime

from shardclock_server.timers.duration import Duration, parse_duration
from shardclock_server.timers.moment import LATEST_DUE_DATE, parse_due_date
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import parse_schedule

QUESTIONS = 25_000  # about forty questions in each zone
TEXTS = 100_000
TEXT_CHARS_MAX = 2_000
STEPS = 3
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3_600, 86_400))
LETTERS = "R/PTYMWDHS.,-+0123456789:Z[]*?LW#@ \t\n\0é٣abcptymwdhsrzſ"
TEXTS_READ = [
    *("+P1D", "P+1DT+2h", "pt5s", "R+3/+PT1S", "R/2026-03-29t02:30[Europe/Berlin]/p1d"),
    *("PT15M", "P1DT12H", "P1Y2M3W4DT5H6M7.5S", "PT0,5H", "R/PT1H", "R3/P1M", "R-1/PT5S", "R//PT10S", "R0/P1W"),
    *("2026-01-31T08:00:00Z", "2026-01-31T09:00:00.25+01:00", "2026-01-31T09:00[Europe/Berlin]", "@daily", "@hourly"),
    *("R5/2024-03-29T10:00:00+01:00[Europe/Berlin]/P1D", "R/2024-01-01T00:00Z/2024-01-02T00:00Z"),
    *("R/P1D/2031-01-01T00:00:00Z", "0 0 8 * * MON-FRI", "*/15 9-17 * * 1-5", "0 0 0 L-3 * ?", "0 0 0 15W 2 *"),
    *("0 30 23 29 2 5#2", "3-57 13-28 17,18 1,15 3-12 6#1", "0 0 0 ? * FRIL", "* * * * * *", "0 0 31 4 *"),
]
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@pytest.fixture
def random() -> Random:
    """Draw the same questions in each run, unless TEST_SEED is set."""
    return Random(os.environ.get("TEST_SEED", "a stitch in time"))


@dataclass(frozen=True)
class ScheduleQuestion:
    """A schedule, its creation, the moment at which missed occurrences are counted, and the correct due dates.

    shape:   `grid` ascends from the first due date on, and is complete up to `until`, which is not before `now`
    """

    text: str
    zone: str
    created: datetime
    now: datetime
    grid: list[datetime]
    until: datetime


@pytest.mark.exhaustive
def test_in_every_zone_schedules_have_the_occurrences_that_the_oracle_computes(random: Random) -> None:
    each = QUESTIONS // len(ZONES) // 2 + 1
    found = 0

    for zone in ZONES:
        changes = [change_in(random, zone) for _ in range(4)]
        for number in range(each):
            for ask in (ask_of_repeat, ask_of_cron):
                question = ask(random, zone, changes[number % len(changes)])
                assert answer_to(question) == right_answer_to(question), question
                found += len(question.grid)

    assert found > 5 * QUESTIONS


@pytest.mark.exhaustive
def test_a_hundred_thousand_texts_are_read_or_refused_in_no_time(random: Random) -> None:
    read = slowest_s = 0.0
    started_s = time.process_time()

    for _ in range(TEXTS):
        text = garbled(random)
        text_started_s = time.process_time()
        for parse in (parse_duration, parse_due_date, parse_schedule):
            try:
                parse(text)
            except InvalidTimer as refusal:
                assert str(refusal).isprintable(), text  # noqa: PT017 - either outcome is right
                assert len(str(refusal)) < 500, text  # noqa: PT017 - as above
            else:
                read += 1
        slowest_s = max(slowest_s, time.process_time() - text_started_s)

    assert 0.05 < read / TEXTS < 0.95  # the random texts must include valid and invalid texts
    assert (time.process_time() - started_s) / TEXTS < 0.001
    assert slowest_s < 0.25  # measured 0.002 s; a pattern that backtracks takes minutes


@pytest.mark.slow
def test_each_valid_schedule_answers_for_all_moments(random: Random) -> None:
    earliest, latest = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    answered = 0

    for _ in range(TEXTS // 10):
        try:
            rule = parse_schedule(garbled(random), random.choice(ZONES))
        except InvalidTimer:
            continue
        for created in (earliest, latest, LATEST_DUE_DATE, latest.replace(year=random.randint(1_800, 9_999))):
            if first := rule.first(created):
                now = first.due_date + min(random.random() * 1_000 * DAY, latest - first.due_date)
                for occurrence in (rule.next(first), rule.after(first, earliest).next, rule.after(first, now).next):
                    assert occurrence is None or occurrence.due_date <= LATEST_DUE_DATE
                    assert occurrence is None or occurrence.number > first.number
                answered += 1

    assert answered > TEXTS / 100


def garbled(random: Random) -> str:
    """Draw a text: random characters, or a valid text with a few changes."""
    if random.random() < 0.1:
        return "".join(chr(random.randrange(0x110000)) for _ in range(random.randrange(40)))
    text = random.choice(TEXTS_READ)
    for _ in range(random.choice([0, 1, 1, 2, 3, 8])):
        place, end = sorted(random.randint(0, len(text)) for _ in range(2))
        other = random.choice(TEXTS_READ)
        text = random.choice(
            [
                text[:place] + random.choice(LETTERS) + text[place:],
                text[:place] + random.choice(LETTERS) + text[place + 1 :],
                text[:place] + text[end:],
                text[:end] + text[place:],
                text[:place] + other[random.randint(0, len(other)) :],
                text[:place] + text[place:end] * random.choice([2, 3, 50]) + text[end:],
            ]
        )[:TEXT_CHARS_MAX]
    return text


def answer_to(question: ScheduleQuestion) -> tuple[list[datetime], int, datetime | None]:
    """Return the first due dates, the number of missed occurrences after the first, and the next due date."""
    rule = parse_schedule(question.text, question.zone)
    first = occurrence = rule.first(question.created)
    due_dates: list[datetime] = []
    while occurrence and occurrence.due_date <= question.until and len(due_dates) < STEPS:
        due_dates.append(occurrence.due_date)
        occurrence = rule.next(occurrence)
    if first is None or not due_dates:
        return [], 0, None
    missed, after = rule.after(first, question.now)
    assert after is None or after.number == first.number + missed + 1
    return due_dates, missed, after.due_date if after and after.due_date <= question.until else None


def right_answer_to(question: ScheduleQuestion) -> tuple[list[datetime], int, datetime | None]:
    """Return the same values as `answer_to`, but from the oracle's grid."""
    later_ones = question.grid[1:]
    missed = sum(due_date <= question.now for due_date in later_ones)
    return question.grid[:STEPS], missed, next(iter(later_ones[missed:]), None)


def change_in(random: Random, zone: str) -> ZonedDateTime:
    """Find a moment at which a zone's clock changes, or any moment if the clock never changes."""
    year = random.randint(1840, 1970) if random.random() < 0.3 else random.randint(1970, 2050)
    start = Instant.from_utc(year, 1, 1).to_tz(zone).add(hours=random.randint(0, 8_760))
    return start.next_transition() or start.prev_transition() or start


def ask_of_repeat(random: Random, zone: str, change: ZonedDateTime) -> ScheduleQuestion:
    """Draw a repeat that has an occurrence near a change of the clock."""
    period = period_of(random)
    steps = random.randint(0, 12)
    near = change.to_plain().to_stdlib() + random.randint(-104, 104) * 15 * MINUTE
    start = PlainDateTime(near).subtract(months=steps * period.months, days=steps * period.days)
    anchor = moment_of(start, zone)
    created = anchor
    text = f"R/{period}"
    grid = sums(anchor, period, zone)
    until = grid[-1]
    match random.randrange(3):
        case 0:
            created += random.uniform(-3, 14) * period.average()
            text = f"R/{start.format_iso()}[{zone}]/{period}"
            # The clock may skip the start's local time; the other occurrences are counted from it.
            whole = sums(anchor, period, zone, local=start)
            grid, until = [due_date for due_date in whole if due_date >= created], whole[-1]
        case 1:
            grid = grid[1:]
        case _:
            end = change.to_instant().to_stdlib() + random.randint(-9, 90) * DAY
            text = f"R/{period}/{end.isoformat()}"
            grid = [due_date for due_date in grid[1:] if due_date <= end]
    now = min(created + random.uniform(-1, 12) * period.average(), until)
    return ScheduleQuestion(text, zone, created, now, grid, until)


def period_of(random: Random) -> Duration:
    """Draw a period, mostly of calendar time."""
    months, days = random.choice([0, 0, 1, 2, 3, 12]), random.choice([0, 1, 1, 2, 7, 30])
    elapsed = random.choice([timedelta(0)] * 3 + [HOUR, 12 * HOUR, 36 * HOUR, 1.5 * SECOND])
    return Duration(months, days, elapsed if months or days or elapsed else DAY)


def sums(anchor: datetime, period: Duration, zone: str, *, local: PlainDateTime | None = None) -> list[datetime]:
    """Add a period 0 to 40 times: months and days on the wall clock, the rest as elapsed time."""
    local = local or Instant(anchor).to_tz(zone).to_plain()
    found = [anchor]
    for steps in range(1, 41):
        moment = anchor
        if period.months or period.days:
            moment = moment_of(local.add(months=steps * period.months, days=steps * period.days), zone)
        found.append(moment + steps * period.elapsed)
    return found


def moment_of(local: PlainDateTime, zone: str) -> datetime:
    """Find the moment of a local time: later if the clock skips it, the first if it comes twice."""
    return local.assume_tz(zone, disambiguation="compatible").to_instant().to_stdlib()


@dataclass(frozen=True)
class Times:
    """The times of day of a cron rule, and whether a local time that occurs twice fires twice."""

    hours: list[int]
    minutes: list[int]
    seconds: list[int]
    fires_twice: bool

    def between(self, day: date, start: datetime, until: datetime) -> Iterator[datetime]:
        """List the times of a day that lie between two local times."""
        for hour in self.hours:
            if not start - HOUR <= at(day, hour) <= until:
                continue
            for minute in self.minutes:
                for second in self.seconds:
                    local = at(day, hour, minute, second)
                    if start <= local <= until:
                        yield local


def at(day: date, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001 - as local times have it


def ask_of_cron(random: Random, zone: str, change: ZonedDateTime) -> ScheduleQuestion:
    """Draw a cron rule, and request the matches around a change of the clock."""
    is_spring = random.random() < 0.6
    second = random.choice([("0", {0}), ("30", {30}), numbers(random, 0, 59)]) if is_spring else ("0", {0})
    minute, hour = numbers(random, 0, 59), numbers(random, 0, 23)
    day_fields, is_day = days_of(random, is_spring=is_spring)
    text = " ".join([*([second[0]] if is_spring else []), minute[0], hour[0], *day_fields])
    twice = minute[0].startswith("*") or hour[0].startswith("*")
    times = Times(sorted(hour[1]), sorted(minute[1]), sorted(second[1]), fires_twice=twice)

    span = min(max(DAY * 12 / (len(second[1]) * len(minute[1]) * len(hour[1])), 10 * SECOND), 40 * DAY)
    created = change.to_instant().to_stdlib() - random.uniform(-0.1, 1.1) * span
    until = created + span
    return ScheduleQuestion(
        text, zone, created, created + random.random() * span, matches(times, is_day, zone, created, until), until
    )


def matches(
    times: Times, is_day: Callable[[date], bool], zone: str, created: datetime, until: datetime
) -> list[datetime]:
    """Find all matches after one moment and up to another: try every local time that the clock may show."""
    shown = [Instant(moment).to_tz(zone).to_plain().to_stdlib() for moment in (created, until)]
    # The clock may have been set back between the two moments.
    start, end = min(shown[0], shown[1] - (until - created)), max(shown[1], shown[0] + (until - created))
    found = []
    for number in range(start.toordinal(), end.toordinal() + 1):
        day = date.fromordinal(number)
        if is_day(day):
            for local in times.between(day, start, end):
                found += shown_at(local, zone, twice=times.fires_twice)
    return sorted(moment for moment in found if created < moment <= until)


def shown_at(local: datetime, zone: str, *, twice: bool) -> list[datetime]:
    """Find the moments at which a clock shows a local time: no moment, one or two."""
    earlier, later = (PlainDateTime(local).assume_tz(zone, disambiguation=which) for which in ("earlier", "later"))
    if earlier.to_plain().to_stdlib() != local:
        return []
    return sorted({moment.to_instant().to_stdlib() for moment in ([earlier, later] if twice else [earlier])})


def numbers(random: Random, low: int, high: int) -> tuple[str, set[int]]:
    """Draw a field of numbers, and the numbers that it matches."""
    first = random.randint(low, high)
    last, step = random.randint(first, high), random.randint(2, 20)
    some = sorted({random.randint(low, high) for _ in range(random.randint(1, 4))})
    return random.choice(
        [
            ("*", set(range(low, high + 1))),
            (f"*/{step}", set(range(low, high + 1, step))),
            (f"{first}", {first}),
            (",".join(map(str, some)), set(some)),
            (f"{first}-{last}", set(range(first, last + 1))),
            (f"{first}-{last}/{step}", set(range(first, last + 1, step))),
            (f"{first}/{step}", set(range(first, high + 1, step))),
        ]
    )


def days_of(random: Random, *, is_spring: bool) -> tuple[list[str], Callable[[date], bool]]:
    """Draw the fields for day of month, month and day of week, and the predicate for matching days."""
    day_text, is_day = day_of_month(random) if random.random() < 0.4 else ("*", lambda _: True)
    weekday_text, is_weekday = day_of_week(random) if random.random() < 0.4 else ("*", lambda _: True)
    month_text, months = numbers(random, 1, 12) if random.random() < 0.1 else ("*", set(range(1, 13)))
    both = is_spring or "*" in {day_text[0], weekday_text[0]}
    if is_spring and random.random() < 0.3:
        day_text, weekday_text = ("?" if text == "*" else text for text in (day_text, weekday_text))

    def matches_both(day: date) -> bool:
        return day.month in months and is_day(day) and is_weekday(day)

    def matches_either(day: date) -> bool:
        return day.month in months and (is_day(day) or is_weekday(day))

    return [day_text, month_text, weekday_text], matches_both if both else matches_either


def day_of_month(random: Random) -> tuple[str, Callable[[date], bool]]:
    """Draw a day of the month, and the predicate for matching days."""
    number = random.randint(1, 31)
    listed, chosen = numbers(random, 1, 31)
    return random.choice(
        [
            (listed, lambda day: day.day in chosen),
            ("L", lambda day: day.day == length_of(day)),
            (f"L-{min(number, 30)}", lambda day: day.day == length_of(day) - min(number, 30)),
            ("LW", lambda day: day.day == max(workdays_of(day))),
            (
                f"{number}W",
                lambda day: (
                    number <= length_of(day)
                    and day.day == min(workdays_of(day), key=lambda workday: abs(workday - number))
                ),
            ),
        ]
    )


def day_of_week(random: Random) -> tuple[str, Callable[[date], bool]]:
    """Draw a day of the week, and the predicate for matching days; Sunday is 0 and 7."""
    number, nth = random.randint(0, 7), random.randint(1, 5)
    name = random.choice([WEEKDAYS[number % 7], WEEKDAYS[number % 7].lower(), str(number)])
    other = random.randint(0, 7)

    def is_it(day: date) -> bool:
        return day.isoweekday() % 7 == number % 7

    return random.choice(
        [
            (name, is_it),
            (f"{name},{other}", lambda day: is_it(day) or day.isoweekday() % 7 == other % 7),
            ("MON-FRI", lambda day: day.isoweekday() <= 5),
            (f"{name}L", lambda day: is_it(day) and day.day + 7 > length_of(day)),
            (f"{name}#{nth}", lambda day: is_it(day) and (day.day - 1) // 7 == nth - 1),
        ]
    )


def length_of(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def workdays_of(day: date) -> list[int]:
    """List the Mondays to Fridays of a day's month."""
    return [number for number in range(1, length_of(day) + 1) if day.replace(day=number).isoweekday() <= 5]
