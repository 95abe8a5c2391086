"""Test how durations are read, written and added."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.duration import Duration, add_duration, parse_duration
from shardclock_server.timers.refusal import InvalidTimer, shortened

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "months", "days", "elapsed"),
    [
        ("PT0S", 0, 0, timedelta(0)),
        ("PT15M", 0, 0, timedelta(minutes=15)),
        ("P1D", 0, 1, timedelta(0)),
        ("PT24H", 0, 0, 24 * HOUR),
        ("P1W2D", 0, 9, timedelta(0)),
        ("P1Y2M3DT4H5M6S", 14, 3, timedelta(hours=4, minutes=5, seconds=6)),
        ("PT05S", 0, 0, timedelta(seconds=5)),
        ("PT0.5H", 0, 0, HOUR / 2),
        ("PT0,5H", 0, 0, HOUR / 2),
        ("PT1H1.5M", 0, 0, timedelta(minutes=61, seconds=30)),
        # The result is exact to a microsecond; a float would be wrong by several microseconds.
        ("PT123456789012.123456S", 0, 0, timedelta(seconds=123456789012, microseconds=123456)),
    ],
    ids=shortened,
)
def test_a_duration_keeps_calendar_and_elapsed_time_apart(
    text: str, months: int, days: int, elapsed: timedelta
) -> None:
    assert parse_duration(text) == Duration(months, days, elapsed)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("PT0.000000001S", 1), ("PT0.0000010S", 1), ("PT0.0000010001S", 2), ("PT0.9999999S", 1_000_000)],
)
def test_fractions_of_a_microsecond_are_rounded_up(text: str, microseconds: int) -> None:
    assert parse_duration(text).elapsed == timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "PT1S\n", " PT1S", "1S", "P1", "PT1", "P1H", "T1S", "PTS", "PT1S2"),
        *(
            "++PT1S",
            "PT++1S",
            "PT1+S",
            "PT1+1S",
            "P+",
            "P1D+T1S",
            "PT1.+5S",
            "+ PT1S",
            "pt1ſ",
            "P0.5D",
            "P0.5M",
            "P1.5Y",
            "PT0.5H1M",
            "PT1H0.5M1S",
            "PT1M0.5H",
        ),
        *("PT.5S", "PT1.S", "PT1.5.5S", "PT1M1H", "PT5M5M", "P1D1W", "P٣D", "PT1S\0", "P0018-09-04T11:09:08"),
        *("PT" + "1" * 100 + "S", "P\ud800", "PT1TS", "infinity", "NaN", "15 minutes"),
    ],
    ids=shortened,
)
def test_a_wrong_duration_is_refused_with_its_value(text: str) -> None:
    with pytest.raises(InvalidTimer, match="is not an ISO 8601 duration; write one such as PT15M"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["-PT1S", "PT-1S", "P-1D", "-P-1D", "P1Y-1M", "P1DT-1H", "+P-1D", "-pt0s", "PT-0.5S"])
def test_a_minus_sign_is_refused_as_a_minus_sign(text: str) -> None:
    with pytest.raises(InvalidTimer, match="has a minus sign, and nothing is due before now; write a duration without"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        *(("+P1D", "P1D"), ("P+1D", "P1D"), ("+P+1D", "P1D"), ("PT+1S", "PT1S"), ("PT+1.5S", "PT1.5S")),
        *(("P+1Y+2M+3W+4DT+5H+6M+7,5S", "P1Y2M3W4DT5H6M7.5S"), ("+PT+01S", "PT1S")),
        *(("pt1s", "PT1S"), ("p1y2m3w4dt5h6m7.5s", "P1Y2M3W4DT5H6M7.5S"), ("P1dT0,5h", "P1DT0.5H")),
        ("+p+1dt+1h", "P1DT1H"),
    ],
)  # fmt: skip
def test_plus_signs_and_small_letters_are_read_as_java_reads_them(text: str, plain: str) -> None:
    assert parse_duration(text) == parse_duration(plain)


@pytest.mark.parametrize(
    "text",
    ["P10000Y", "P120000M", "P3652425D", "PT87658200H", "P" + "9" * 60 + "Y", "PT" + "9" * 60 + "S"],
    ids=shortened,
)
def test_ten_thousand_years_are_too_long(text: str) -> None:
    with pytest.raises(InvalidTimer, match=r"must be shorter than 10,000 years"):
        parse_duration(text)


def test_just_under_ten_thousand_years_is_accepted() -> None:
    assert str(parse_duration("P9999Y")) == "P9999Y"
    assert str(parse_duration("PT87658199H")) == "PT87658199H"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("P0D", "PT0S"),
        ("P14M", "P1Y2M"),
        ("P2W", "P14D"),
        ("PT36H", "PT36H"),
        ("PT90S", "PT1M30S"),
        ("PT1,50S", "PT1.5S"),
        ("PT0.0000001S", "PT0.000001S"),
        ("P1DT0.25S", "P1DT0.25S"),
    ],
    ids=shortened,
)
def test_postgres_reads_the_canonical_text_to_the_same_value(text: str, canonical: str) -> None:
    assert str(parse_duration(text)) == canonical


@pytest.mark.parametrize(
    ("start", "text", "zone", "end"),
    [
        ("2024-01-31T00:00:00Z", "P1M", "UTC", "2024-02-29T00:00:00Z"),
        ("2024-02-29T00:00:00Z", "P1Y", "UTC", "2025-02-28T00:00:00Z"),
        # Months are added before days, so this is 29 February plus a day, not 1 February plus a month.
        ("2024-01-31T00:00:00Z", "P1M1D", "UTC", "2024-03-01T00:00:00Z"),
        # A day on the clock and 24 hours give different moments in the night of a clock change.
        ("2024-03-30T12:00:00+01:00", "P1D", "Europe/Berlin", "2024-03-31T12:00:00+02:00"),
        ("2024-03-30T12:00:00+01:00", "PT24H", "Europe/Berlin", "2024-03-31T13:00:00+02:00"),
        ("2024-10-26T12:00:00+02:00", "P1D", "Europe/Berlin", "2024-10-27T12:00:00+01:00"),
        ("2024-10-26T12:00:00+02:00", "PT24H", "Europe/Berlin", "2024-10-27T11:00:00+01:00"),
        # The result falls into a skipped hour, and into a repeated hour.
        ("2024-03-30T02:30:00+01:00", "P1D", "Europe/Berlin", "2024-03-31T03:30:00+02:00"),
        ("2024-10-26T02:30:00+02:00", "P1D", "Europe/Berlin", "2024-10-27T02:30:00+02:00"),
        ("2024-03-30T01:30:00+01:00", "P1DT1H", "Europe/Berlin", "2024-03-31T03:30:00+02:00"),
        # Without months and days, the second pass of an hour stays the second pass.
        ("2024-10-27T02:30:00+01:00", "PT1M", "Europe/Berlin", "2024-10-27T02:31:00+01:00"),
        ("2011-12-29T22:00:00-10:00", "P1DT1H", "Pacific/Apia", "2011-12-31T23:00:00+14:00"),
    ],
)
def test_a_duration_is_added_on_the_wall_clock_and_then_as_elapsed_time(
    start: str, text: str, zone: str, end: str
) -> None:
    sum_ = add_duration(datetime.fromisoformat(start).astimezone(UTC), parse_duration(text), ZoneInfo(zone))

    assert sum_ == datetime.fromisoformat(end)
    assert sum_.tzinfo is UTC


def test_a_duration_is_added_many_times_at_once() -> None:
    start = datetime(2024, 1, 31, tzinfo=UTC)
    length = Duration(months=1, days=1, elapsed=HOUR)

    sums = [add_duration(start, length, ZoneInfo("UTC"), times=times) for times in (0, 1, 2, -2)]

    assert sums == [
        start,
        datetime(2024, 3, 1, 1, tzinfo=UTC),
        datetime(2024, 4, 2, 2, tzinfo=UTC),
        datetime(2023, 11, 27, 22, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("length", "times"),
    [
        (Duration(12, 0, timedelta(0)), 7_977),
        (Duration(12, 0, timedelta(0)), -2_024),
        (Duration(0, 1, timedelta(0)), 3_000_000),
        (Duration(0, 0, HOUR), 10**12),
        (Duration(1, 1, HOUR), 10**30),
        # The wall clock leaves the year 9999 before UTC does.
        (Duration(0, 2_913_173, timedelta(0)), 1),
    ],
)
def test_a_sum_outside_the_years_1_to_9999_overflows(length: Duration, times: int) -> None:
    with pytest.raises(OverflowError):
        add_duration(datetime(2024, 1, 1, 12, tzinfo=UTC), length, ZoneInfo("Pacific/Kiritimati"), times=times)


@given(
    months=st.integers(0, 12 * 3_000),
    days=st.integers(0, 1_000_000),
    elapsed=st.timedeltas(timedelta(0), timedelta(days=1_000_000)),
)
def test_the_canonical_text_reads_back_to_the_same_duration(months: int, days: int, elapsed: timedelta) -> None:
    duration = Duration(months, days, elapsed)

    assert parse_duration(str(duration)) == duration


@given(text=st.text(alphabet="P0123456789YMWDTHS.,-+", max_size=30) | st.text(st.characters(codec=None)))
def test_any_text_is_a_duration_or_refused_in_one_line(text: str) -> None:
    try:
        duration = parse_duration(text)
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert parse_duration(str(duration)) == duration
