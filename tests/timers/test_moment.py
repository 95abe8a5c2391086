"""Test that a due date is one moment in all zones, and never earlier than its text."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.moment import LATEST_DUE_DATE, canonical_moment, parse_due_date
from shardclock_server.timers.refusal import InvalidTimer, shortened


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T08:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31t08:00:00z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T09:00:00+01:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T09:00:00+01", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T02:30:00-0530", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T08:00:00.25Z", datetime(2026, 1, 31, 8, 0, 0, 250_000, UTC)),
        ("2026-01-31T08:00:00,000001Z", datetime(2026, 1, 31, 8, 0, 0, 1, UTC)),
        ("2026-01-31T08:00:00.000000001Z", datetime(2026, 1, 31, 8, 0, 0, 1, UTC)),
        ("2026-12-31T23:59:59.9999999Z", datetime(2027, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00.000001Z", datetime(1, 1, 1, 0, 0, 0, 1, UTC)),
        ("9999-12-31T23:59:59.999997Z", LATEST_DUE_DATE),
    ],
    ids=shortened,
)
def test_a_due_date_is_read_into_utc_and_rounded_up(text: str, moment: datetime) -> None:
    assert parse_due_date(text) == moment
    assert parse_due_date(text).tzinfo is UTC


@pytest.mark.parametrize("text", ["2026-01-31T08:00", "2026-01-31T08:00:00", "2026-01-31T08:00:00.5"])
def test_a_due_date_without_an_offset_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(InvalidTimer, match="has no offset from UTC; add one, such as Z"):
        parse_due_date(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T09:00[Europe/Berlin]", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T09:00:00.5+01:00[Europe/Berlin]", datetime(2026, 1, 31, 8, 0, 0, 500_000, UTC)),
        ("2026-01-31T08:00Z[Europe/Berlin]", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T08:00[UTC]", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        # The hour that comes twice: the first pass, unless the offset selects the second.
        ("2024-10-27T02:30[Europe/Berlin]", datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
        ("2024-10-27T02:30+02:00[Europe/Berlin]", datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
        ("2024-10-27T02:30+01:00[Europe/Berlin]", datetime(2024, 10, 27, 1, 30, tzinfo=UTC)),
        # The hour that is skipped: an hour later. The offset before the gap gives the same moment.
        ("2024-03-31T02:30[Europe/Berlin]", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
        ("2024-03-31T02:30+01:00[Europe/Berlin]", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
        ("0001-01-01T00:01Z[America/New_York]", datetime(1, 1, 1, 0, 1, tzinfo=UTC)),
    ],
)
def test_a_zone_in_brackets_selects_the_clock(text: str, moment: datetime) -> None:
    assert parse_due_date(text) == moment
    assert parse_due_date(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("2026-01-31T09:00:00+02:00[Europe/Berlin]", r"\+01:00"),
        ("2026-07-31T09:00:00+01:00[Europe/Berlin]", r"\+02:00"),
        ("2024-03-31T02:30:00+02:00[Europe/Berlin]", r"\+01:00"),
        ("2024-10-27T02:30:00+03:00[Europe/Berlin]", r"\+02:00"),
        ("2026-01-31T09:00:00+00:00[America/St_Johns]", "-03:30"),
    ],
)
def test_a_wrong_offset_is_refused_with_the_right_offset(text: str, offset: str) -> None:
    with pytest.raises(InvalidTimer, match=rf"has another offset than \S+ at that time; write {offset}, or none"):
        parse_due_date(text)


def test_a_local_time_is_read_in_the_zone_that_is_given_separately() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    assert parse_due_date("2026-07-31T09:00", berlin) == datetime(2026, 7, 31, 7, tzinfo=UTC)
    assert parse_due_date("2026-07-31T09:00[Europe/Berlin]", berlin) == datetime(2026, 7, 31, 7, tzinfo=UTC)
    assert parse_due_date("2026-07-31T09:00-04:00", berlin) == datetime(2026, 7, 31, 13, tzinfo=UTC)
    with pytest.raises(InvalidTimer, match="names the time zone UTC, but its zone is Europe/Berlin"):
        parse_due_date("2026-07-31T09:00[UTC]", berlin)


@pytest.mark.parametrize("text", ["2026-01-31T08:00:00Z", "2026-01-31T08:00:00.25Z", "0001-01-01T00:00:00.000001Z"])
def test_the_canonical_text_of_a_moment_reads_back(text: str) -> None:
    assert canonical_moment(parse_due_date(text)) == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        *[(text, "is not an ISO 8601 date-time") for text in ("", "infinity", "-infinity", "now", "2026-01-31")],
        ("20000-01-01T00:00:00Z", "is not an ISO 8601 date-time"),
        ("+20000-01-01T00:00:00Z", "is not an ISO 8601 date-time"),
        ("2026-01-31T24:00:00Z", "is not an ISO 8601 date-time"),
        ("2026-01-31T08:00:60Z", "is not an ISO 8601 date-time"),
        ("2026-01-31T08:00:00Z\n", "is not an ISO 8601 date-time"),
        ("2026-01-31 08:00:00Z", "is not an ISO 8601 date-time"),
        ("2026-01-31T08:00:00+24:00", "is not an ISO 8601 date-time"),
        ("2026-01-31T08:00:00Z[Europe/Berlin][UTC]", "is not an ISO 8601 date-time"),
        ("2026-01-31T08:00:00Z[]", "'' is not an IANA time zone"),
        ("2026-01-31T08:00:00[localtime]", "'localtime' is not an IANA time zone"),
        ("2026-01-31T08:00:00Z[" + "x" * 100_000 + "]", "is not an ISO 8601 date-time"),
        ("0001-01-01T00:00:00[Asia/Tokyo]", "falls outside the years 0001 to 9999 in UTC"),
        ("9999-12-31T23:59:59[America/New_York]", "falls outside the years 0001 to 9999 in UTC"),
        ("٢٠٢٦-01-31T08:00:00Z", "is not an ISO 8601 date-time"),
        ("2026-01-31T08:00:00." + "0" * 100_000 + "Z", "is not an ISO 8601 date-time"),
        ("0000-01-01T00:00:00Z", "names a day that is not in the calendar"),
        ("2026-02-29T00:00:00Z", "names a day that is not in the calendar"),
        ("0001-01-01T00:00:00Z", "falls outside the years 0001 to 9999 in UTC"),
        ("0001-01-01T00:00:00+00:01", "falls outside the years 0001 to 9999 in UTC"),
        ("9999-12-31T23:59:59-00:01", "falls outside the years 0001 to 9999 in UTC"),
        ("9999-12-31T23:59:59.9999971Z", "falls outside the years 0001 to 9999 in UTC"),
    ],
    ids=shortened,
)
def test_a_text_without_a_moment_of_the_years_1_to_9999_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        parse_due_date(text)

    assert rule in str(refused.value)


@given(
    moment=st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),  # noqa: DTZ001 - the zone is added below
    offset_minutes=st.integers(-1_439, 1_439),
)
def test_a_moment_written_with_any_offset_is_the_same_moment(moment: datetime, offset_minutes: int) -> None:
    written = moment.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))

    assert parse_due_date(written.isoformat()) == written


@given(text=st.text(alphabet="0123456789-:TZ.,+[]UC", max_size=35) | st.text(st.characters(codec=None)))
def test_any_text_is_a_due_date_or_refused_in_one_line(text: str) -> None:
    try:
        assert parse_due_date(text).tzinfo is UTC
    except InvalidTimer as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
