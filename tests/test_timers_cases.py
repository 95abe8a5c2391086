"""What other projects' tests state of durations and of repeats of fixed length holds here too."""

import csv
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import pytest

from timers.duration import Duration, parse_duration
from timers.refusal import InvalidTimer
from timers.schedule import WITHOUT_END, following, parse_schedule

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "when-cases.csv"

Row = dict[str, str]

# Where upstream accepts and we refuse, and why.
NEGATIVE = re.compile(r"-.*P|P.*-|R-?\d*/-")
REFUSED_HERE = {
    "PT1.S": "ISO 8601 wants a digit after the decimal sign",
    "P0018-09-04T11:09:08": "the alternative format is isodate's alone",
}
# What java.time.Duration refuses and Camunda reads all the same, through java.time.Period.
PERIODS = {"P0Y", "P1M", "P3W"}


def rows(*kinds: str) -> list[Row]:
    """Read the rows of these kinds, or none where the file is absent."""
    if not CASES.exists():
        return []
    with CASES.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["kind"] in kinds]


def is_fixed(row: Row) -> bool:
    """Tell a repeat of fixed length in UTC, without start or end, from what a later issue promises."""
    return (
        row["input"].count("/") == 1
        and row["zone"] in {"", "UTC"}
        and not re.search(r"P[^T]*[YM]", row["input"])
        and not NEGATIVE.search(row["input"])
    )


DURATIONS = [row for row in rows("duration_parse") if row["input"] not in PERIODS]
REFUSED = [
    row
    for row in DURATIONS
    if row["expected"] == "ERROR" or NEGATIVE.search(row["input"]) or row["input"] in REFUSED_HERE
]
ACCEPTED = [row for row in DURATIONS if row not in REFUSED]
SEQUENCES = [row for row in rows("cycle_sequence") if is_fixed(row)]
# Two slashes are a start or an end: a later issue's.
REFUSED_REPEATS = [row for row in rows("cycle_parse") if row["expected"] == "ERROR" and row["input"].count("/") < 2]

needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"no cases at {CASES}")


def by_id(row: Row) -> str:
    """Name a test by its row."""
    return row["id"]


@needs_cases
def test_the_rows_that_are_promised_now_are_all_there() -> None:
    counts = [len(part) for part in (DURATIONS, ACCEPTED, REFUSED, SEQUENCES, REFUSED_REPEATS)]

    assert counts == [86, 22, 64, 3, 8]


@pytest.mark.parametrize("row", ACCEPTED, ids=by_id)
def test_a_duration_that_others_read_is_read_to_the_same_value(row: Row) -> None:
    duration = parse_duration(row["input"])

    if row["dialect"] == "java.time.Duration":  # knows elapsed time only, so its days are 24 hours
        duration = Duration(0, 0, timedelta(days=duration.days) + duration.elapsed)
    assert duration == expected_duration(row["expected"])


@pytest.mark.parametrize("row", REFUSED, ids=by_id)
def test_a_duration_that_is_malformed_or_negative_is_refused(row: Row) -> None:
    with pytest.raises(InvalidTimer):
        parse_duration(row["input"])


@pytest.mark.parametrize("row", REFUSED_REPEATS, ids=by_id)
def test_a_repeat_that_others_refuse_is_refused(row: Row) -> None:
    with pytest.raises(InvalidTimer):
        parse_schedule(row["input"])


@needs_cases
def test_a_repeat_without_a_count_is_without_end() -> None:
    row = next(row for row in rows("cycle_parse") if row["id"] == "T0056")

    assert row["expected"] == "repetitions=-1 (infinite); period=PT5S"
    assert parse_schedule(row["input"]).repetitions == WITHOUT_END
    assert parse_schedule(row["input"]).period == timedelta(seconds=5)


@pytest.mark.parametrize("row", SEQUENCES, ids=by_id)
def test_a_repeat_fires_when_others_fire(row: Row) -> None:
    repeat = parse_schedule(row["input"])
    anchor = now = datetime.fromisoformat(row["base_time"]).astimezone(UTC)

    for number, expected in enumerate(row["expected"].split("|")):
        after = following(repeat, anchor=anchor, occurrence=number, now=now).next
        if expected == "end":
            assert after is None
            return
        assert after is not None
        assert after.due_date == datetime.fromisoformat(expected)
        now = after.due_date


def expected_duration(text: str) -> Duration:
    """Read the four ways in which the rows write a duration."""
    if text.startswith("seconds="):
        return Duration(0, 0, nanoseconds_up(text.removeprefix("seconds=")))
    if period := re.fullmatch(r"(\d+)y(\d+)m(\d+)d", text):
        years, months, days = map(int, period.groups())
        return Duration(years * 12 + months, days, timedelta(0))
    if text == "period=P1Y2M4D; duration=0":
        return Duration(14, 4, timedelta(0))
    if text == "timedelta 22.22s":
        return Duration(0, 0, timedelta(seconds=22, milliseconds=220))
    parts = {unit: int(number) for unit, number in (part.split("=") for part in text.split(","))}
    part = parts.get
    elapsed = timedelta(hours=part("h", 0), minutes=part("mi", 0), seconds=part("s", 0))
    elapsed += timedelta(milliseconds=part("ms", 0), microseconds=part("us", 0) + (1 if part("ns") else 0))
    return Duration(part("y", 0) * 12 + part("mo", 0), part("w", 0) * 7 + part("d", 0), elapsed)


def nanoseconds_up(seconds: str) -> timedelta:
    """Read decimal seconds, rounded up to microseconds."""
    return timedelta(microseconds=int((Decimal(seconds) * 1_000_000).to_integral_value(ROUND_CEILING)))
