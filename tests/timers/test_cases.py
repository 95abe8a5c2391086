"""Run other projects' test cases for durations, repeats and cron; different answers have a stated reason."""

import csv
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.schedule import first_of, following, parse_schedule
from shardclock_server.timers.zone import zone_of
from tests.support import ROOT

CASES = ROOT.parent / "shared" / "cases" / "when-cases.csv"
DOCS = ROOT / "docs" / "when.md"

Row = dict[str, str]
Answer = object

T0 = datetime(2024, 1, 1, tzinfo=UTC)
# Expected values of rows that describe their result in words: lengths of durations, two Fridays, and for a late firing
# the times of this firing and of the next due date, in seconds since creation.
LENGTHS: dict[str, Answer] = {
    "period=P1Y2M4D; duration=0": (14, 4, 0),
    "period=P-1Y-2M-4D; duration=-PT1H2M3S": (-14, -4, -3_723),
    "timedelta -15d9h36m": (0, 0, -(15 * 86_400 + 9 * 3_600 + 36 * 60)),
    "timedelta 22.22s": (0, 0, Decimal("22.22")),
    "18y,9mo,4d11h9m8s": (18 * 12 + 9, 4, 11 * 3_600 + 9 * 60 + 8),
}
FRIDAYS_13 = ["2019-09-13", "2019-12-13"]
LATE_S = {"T0066": (20, 30), "T0068": (5, 10), "T0072": (2, 3)}

REFUSED = "ERROR"
NEVER = "NONE"
END = "end"

NEGATIVE = "A minus sign before or within a duration is refused: a timer can't be due before the present."
ROUNDED = "A fraction of a microsecond is rounded up, so that no timer is early."
DIGITS = "A decimal point or comma needs a digit on each side."
ALTERNATIVE = "A duration without units (P0018-09-04T11:09:08) is refused."
CALENDAR = "Durations have only one format: years, months and weeks are allowed wherever days are allowed."
YEARS = "A due date after the year 9999 is refused."
END_GIVEN = "A repeat may have an end; no occurrence comes after the end."
FROM_ANCHOR = (
    "Each occurrence is computed from the schedule's start, so a short month or a skipped hour moves no later date."
)
PAST_START = "If the start is in the past, the first occurrence is the next date of the rule, not the present moment."
ON_GRID = "After a late firing the next occurrence is the next date of the rule, not one period later."
UNIX_CRON = "A rule with five fields has the meaning of Unix cron, a rule with six fields the meaning of Spring."
TWICE = (
    "If the clock shows a time twice, a rule with * as the start of its minute or hour fires twice, other rules once."
)
ANY_DAY = "Both day fields may be ?, which means any day, like *."

# For each reason, the rows for which our answer differs; docs/when.md lists the reasons for users.
DIFFERS = {
    row_id: reason
    for reason, row_ids in {
        NEGATIVE: "T0122 T0268 T0272 T0284 T0286 T0290 T0316 T0318 T0326 T0328 T0352 T0356 T0358 T0360"
        " T0428 T0434 T0436 T0438 T0446 T0464 T0470 T0472 T0478 T0580 T0624 T0626",
        ROUNDED: "T0270 T0364",
        DIGITS: "T0280",
        ALTERNATIVE: "T0482",
        CALENDAR: "T0308 T0310 T0312",
        YEARS: "T0638",
        END_GIVEN: "T0586",
        FROM_ANCHOR: "T0574 T0576 T0600",
        PAST_START: "T0578",
        ON_GRID: "T0608 T0610",
        UNIX_CRON: "T0088 T0154",
        TWICE: "T0542",
        ANY_DAY: "T0560",
    }.items()
    for row_id in row_ids.split()
}


def rows() -> list[Row]:
    """Read all rows; return an empty list if the file is absent."""
    if not CASES.exists():
        return []
    with CASES.open(newline="") as file:
        return list(csv.DictReader(file))


ROWS = rows()
needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"no cases at {CASES}")


@needs_cases
def test_the_file_has_all_rows_and_each_listed_difference_names_a_row() -> None:
    assert Counter(row["kind"] for row in ROWS) == {
        "duration_parse": 89,
        "cron_next": 69,
        "duration_add": 33,
        "cron_error": 13,
        "cycle_parse": 13,
        "duration_due": 12,
        "cycle_sequence": 12,
        "cycle_reschedule": 5,
        "interval_due": 1,
    }
    assert len({row["id"] for row in ROWS}) == len(ROWS) == 247
    assert DIFFERS.keys() <= {row["id"] for row in ROWS}
    assert len(DIFFERS) == 45


def test_the_docs_list_exactly_the_reasons_to_differ() -> None:
    told = DOCS.read_text(encoding="utf-8").partition("## Differences from other implementations")[2]

    assert re.findall(r"^\* (.+)$", told, re.MULTILINE) == list(dict.fromkeys(DIFFERS.values()))
    assert not re.search(r"\bT\d{4}\b", told), "the numbers of facts stand here, where they are tested"


@pytest.mark.parametrize("row", [row for row in ROWS if row["id"] not in DIFFERS], ids=lambda row: row["id"])
def test_our_answer_equals_the_expected_answer(row: Row) -> None:
    assert our_answer(row) == their_answer(row)


@pytest.mark.parametrize("row", [row for row in ROWS if row["id"] in DIFFERS], ids=lambda row: row["id"])
def test_each_listed_difference_differs(row: Row) -> None:
    assert our_answer(row) != their_answer(row)


def our_answer(row: Row) -> Answer:
    """Compute our answer for a row, in the format of `their_answer`."""
    answers = {
        "duration_parse": our_length,
        "duration_add": our_sum,
        "duration_due": our_sum,
        "cycle_parse": our_repeat,
        "cycle_sequence": our_sequence,
        "cycle_reschedule": our_next_after_a_late_one,
        "interval_due": our_start,
        "cron_next": our_sequence,
        "cron_error": our_sequence,
    }
    try:
        return answers[row["kind"]](row)
    except InvalidTimer:
        return REFUSED


def our_length(row: Row) -> Answer:
    length = parse_duration(row["input"])
    seconds = Decimal(length.elapsed // timedelta(microseconds=1)).scaleb(-6)
    if row["dialect"] == "java.time.Duration":  # this type has only elapsed time, so a day is 24 hours
        return (length.months, 0, seconds + length.days * 86_400)
    return (length.months, length.days, seconds)


def our_sum(row: Row) -> Answer:
    length = parse_duration(row["input"])
    try:
        return [add_duration(base_of(row), length, zone_of(zone_name(row)))]
    except OverflowError:
        return NEVER


def our_repeat(row: Row) -> Answer:
    repeat = parse_schedule(row["input"])
    assert isinstance(repeat, Repeat)
    return (repeat.repetitions, repeat.start, repeat.zone.key, str(repeat.period))


def our_sequence(row: Row) -> Answer:
    """Fire the number of occurrences that the row expects, each occurrence on time."""
    rule = parse_schedule(row["input"], zone_name(row))
    occurrence = rule.first(base_of(row))
    if occurrence is None:
        return NEVER
    answer: list[datetime | str] = []
    while occurrence:
        answer.append(occurrence.due_date)
        if len(answer) == len(moments_in(row)):
            return answer
        occurrence = following(rule, occurrence, repetitions=rule.repetitions, now=occurrence.due_date).next
    return [*answer, END]


def our_next_after_a_late_one(row: Row) -> Answer:
    """Fire the first occurrence at the row's moment, and find the next occurrence."""
    repeat = parse_schedule(row["input"].replace("<start 30 days ago>", "2023-12-02T00:00:00Z"))
    created, now, _ = late_firing(row)
    first = first_of(repeat, created)
    following_one = following(repeat, first, repetitions=repeat.repetitions, now=now).next
    return [following_one.due_date] if following_one else NEVER


def our_start(row: Row) -> Answer:
    """Find the first occurrence of a repeat that starts an hour from now."""
    assert row["input"] == "PT10S with start = now+1h"
    return [first_of(parse_schedule("R/2024-01-01T01:00:00Z/PT10S"), T0).due_date]


def their_answer(row: Row) -> Answer:
    """Read a row's expected answer, in the format of `our_answer`."""
    expected = row["expected"]
    if expected in {REFUSED, NEVER}:
        return expected
    match row["kind"]:
        case "duration_parse":
            return their_length(expected)
        case "cycle_parse":
            return their_repeat(expected)
        case "cycle_reschedule":
            return [late_firing(row)[2]]
        case "interval_due":
            assert expected == "now+1h"
            return [T0 + timedelta(hours=1)]
    return [part if part == END else their_moment(part) for part in moments_in(row)]


def their_length(expected: str) -> Answer:
    if expected in LENGTHS:
        return LENGTHS[expected]
    if expected.startswith("seconds="):
        return (0, 0, Decimal(expected.removeprefix("seconds=")))
    if period := re.fullmatch(r"(-?\d+)y(-?\d+)m(-?\d+)d", expected):
        years, months, days = map(int, period.groups())
        return (years * 12 + months, days, 0)
    parts = Counter({unit: int(number) for unit, number in (part.split("=") for part in expected.split(","))})
    fraction = Decimal(parts["ms"]).scaleb(-3) + Decimal(parts["us"]).scaleb(-6) + Decimal(parts["ns"]).scaleb(-9)
    elapsed = parts["h"] * 3_600 + parts["mi"] * 60 + parts["s"] + fraction
    return (parts["y"] * 12 + parts["mo"], parts["w"] * 7 + parts["d"], elapsed)


def their_repeat(expected: str) -> Answer:
    """Read count, start and period, such as `repetitions=-1; no start; period=PT10S`."""
    match = re.fullmatch(r"repetitions=(-?\d+)(?: \(infinite\))?;(?: no start;| start=(.+);)? period=(\w+)", expected)
    assert match
    repetitions, start, period = match.groups()
    zone = start.partition("[")[2].rstrip("]") if start else "UTC"
    return (int(repetitions), their_moment(start.partition("[")[0]) if start else None, zone, period)


def their_moment(text: str) -> datetime | str:
    """Read a moment; a text without an offset is in UTC."""
    if text.startswith("+"):
        return text  # the moment has a year past 9999
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def moments_in(row: Row) -> list[str]:
    return FRIDAYS_13 if "Friday" in row["expected"] else row["expected"].split("|")


def late_firing(row: Row) -> tuple[datetime, datetime, datetime]:
    """Read three moments: creation, firing of the first occurrence, and the expected next due date."""
    if row["id"] in LATE_S:
        fired_s, expected_s = LATE_S[row["id"]]
        return T0, T0 + timedelta(seconds=fired_s), T0 + timedelta(seconds=expected_s)
    created, now = (re.search(r"(?:created|processed) (\S+)", row[field]) for field in ("base_time", "now"))
    assert created
    assert now
    return tuple(datetime.fromisoformat(text) for text in (created[1], now[1], row["expected"]))  # type: ignore[return-value]


def base_of(row: Row) -> datetime:
    moment = their_moment(row["base_time"]) if row["base_time"] else T0
    assert isinstance(moment, datetime)
    return moment


def zone_name(row: Row) -> str:
    """Return a row's zone; neutral and naive rows are in UTC."""
    return row["zone"] if "/" in row["zone"] else "UTC"
