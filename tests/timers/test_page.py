"""What docs/when.md says in a line, timers do: the page's own examples, taken at their word."""

from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.occurrence import Occurrence
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import Missed, first_of, following, last_number, parse_schedule
from tests.support import ROOT

PAGE = " ".join((ROOT / "docs" / "when.md").read_text(encoding="utf-8").split())  # lines break anywhere
MADE = datetime(2031, 1, 31, 8, tzinfo=UTC)
DOWN, BACK = MADE + timedelta(hours=1, minutes=30), MADE + timedelta(hours=4, minutes=15)


def days(text: str, count: int, start: str = "2026-01-01") -> list[str]:
    """List the first days on which a cron rule fires."""
    rule = parse_schedule(text)
    occurrence = rule.first(datetime.fromisoformat(start).replace(tzinfo=UTC) - timedelta(seconds=1))
    found: list[str] = []
    while occurrence and len(found) < count:
        found.append(f"{occurrence.due_date:%Y-%m-%d %a}")
        occurrence = rule.next(occurrence)
    return found


def test_the_weekday_nearest_to_a_day_is_never_in_another_month() -> None:
    assert "for Saturday the 1st it is Monday the 3rd, for Sunday the 31st it is Friday the 29th" in PAGE
    assert days("0 0 0 1W 8 *", 1) == ["2026-08-03 Mon"]
    assert days("0 0 0 31W 5 *", 1) == ["2026-05-29 Fri"]
    assert days("0 0 0 30W 8 *", 1) == ["2026-08-31 Mon"]  # Sunday the 30th, and the month goes on
    assert days("0 0 0 30W 11 *", 2, "2024-11-01") == ["2024-11-29 Fri", "2025-11-28 Fri"]  # Saturday, Sunday the 30th
    assert days("0 0 0 15W 8 *", 1) == ["2026-08-14 Fri"]
    assert days("0 0 0 16W 8 *", 1) == ["2026-08-17 Mon"]


def test_the_weekday_nearest_to_the_31st_is_in_months_of_31_days_only() -> None:
    assert "in months of 31 days only" in PAGE
    assert [day[5:7] for day in days("0 0 0 31W * *", 7)] == ["01", "03", "05", "07", "08", "10", "12"]
    assert [day[5:7] for day in days("0 0 31W * *", 7)] == ["01", "03", "05", "07", "08", "10", "12"]
    assert [day[5:7] for day in days("0 0 0 LW * *", 3)] == ["01", "02", "03"]
    assert [day[5:] for day in days("0 0 0 29W 2 *", 1)] == ["02-29 Tue"]  # 2028


def test_a_question_mark_stands_alone_in_a_day_field_of_six() -> None:
    assert "any day, with six fields only, alone in one of the day fields or in both" in PAGE
    for text in ("0 0 8 ? * MON", "0 0 8 1 * ?", "0 0 8 ? * ?"):
        assert days(text, 1) == days(text.replace("?", "*"), 1)
    for text in ("0 8 ? * MON", "0 8 1 * ?", "0 ? 8 * * *", "0 0 8 ?,1 * *", "0 0 8 1 ? *"):
        with pytest.raises(InvalidTimer, match="'\\?', which only stands alone in a day field of six-field cron"):
            parse_schedule(text)


@pytest.mark.parametrize("fields", ["0 0 8 1,15 * MON", "0 8 1,15 * MON"])
def test_only_spaces_stand_between_fields(fields: str) -> None:
    assert "only spaces stand between fields" in PAGE
    assert days(f"  {fields.replace(' ', '   ')} ", 3) == days(fields, 3)
    for text in (fields.replace(" ", "\t"), f"{fields}\n", f"\t{fields}", "@daily\n"):
        with pytest.raises(InvalidTimer, match="holds a character that cron has no use for"):
            parse_schedule(text)


def test_a_step_that_is_longer_than_its_range_leaves_the_range_s_first() -> None:
    assert "| `*/90` as the minute | minute 0 alone" in PAGE
    assert days("*/90 */30 * * *", 2) == ["2026-01-01 Thu", "2026-01-02 Fri"]
    assert days("0 0 10-20/30 * *", 2) == ["2026-01-10 Sat", "2026-02-10 Tue"]


def test_every_other_day_of_the_week_begins_on_monday_or_on_sunday() -> None:
    assert "with six fields every other day from Monday (Monday, Wednesday, Friday, Sunday)" in PAGE
    assert "with five from Sunday (Sunday, Tuesday, Thursday, Saturday)" in PAGE
    assert [day[-3:] for day in days("0 0 0 * * */2", 5, "2026-01-05")] == ["Mon", "Wed", "Fri", "Sun", "Mon"]
    assert [day[-3:] for day in days("0 0 * * */2", 5, "2026-01-04")] == ["Sun", "Tue", "Thu", "Sat", "Sun"]


@pytest.mark.parametrize("fields", ["0 0 0 * *", "0 0 * *"])
def test_a_range_from_sunday_to_sunday_is_refused_and_others_may_begin_or_end_there(fields: str) -> None:
    for text in ("7-7", "SUN-SUN"):
        assert f"`{text}`" in PAGE
        with pytest.raises(InvalidTimer, match="write SUN for Sundays, or \\* for every day"):
            parse_schedule(f"{fields} {text}")
    with pytest.raises(InvalidTimer, match="runs backwards"):
        parse_schedule(f"{fields} FRI-TUE")
    for text in ("5-7", "FRI-SUN"):
        assert [day[-3:] for day in days(f"{fields} {text}", 3, "2026-01-05")] == ["Fri", "Sat", "Sun"]
    for text in ("0-2", "SUN-TUE"):
        assert [day[-3:] for day in days(f"{fields} {text}", 3, "2026-01-04")] == ["Sun", "Mon", "Tue"]


def test_utc_is_the_same_as_no_zone_and_a_local_time_needs_another() -> None:
    assert "`--zone UTC` is the same as no zone" in PAGE
    for fields in ({"due_date": "2031-01-31T09:00"}, {"schedule": "R/2031-01-31T09:00/P1D"}):
        for zone in ({}, {"zone": "UTC"}):
            with pytest.raises(InvalidTimer, match="has no offset from UTC; add one, such as Z"):
                NewTimer.from_fields({**fields, **zone})
        NewTimer.from_fields({**fields, "zone": "Europe/Berlin"})


def test_z_goes_with_any_zone_and_other_offsets_must_agree_with_theirs() -> None:
    text = "2031-01-31T08:00Z[Europe/Berlin]"
    assert f"but for `Z`, which goes with any zone: `{text}` is 08:00 in UTC, and 09:00 on Berlin's clock" in PAGE
    found = NewTimer.from_fields({"due_date": text})
    assert (found.due_date, found.zone) == (MADE, "Europe/Berlin")
    assert first_of(parse_schedule(f"R/{text}/P1D"), MADE).due_date == MADE
    for offset in ("+00:00", "+02:00"):
        with pytest.raises(InvalidTimer, match="has another offset than Europe/Berlin at that time"):
            NewTimer.from_fields({"due_date": text.replace("Z", offset)})


def test_the_period_between_a_start_and_an_end_is_elapsed_time() -> None:
    assert "every 36 hours, the elapsed time between the two, whatever the calendar says" in PAGE
    # The clock is put forward on 30 March: from midnight to midnight it is 23 hours, for ever.
    rule = parse_schedule("R/2031-03-30T00:00[Europe/Berlin]/2031-03-31T00:00[Europe/Berlin]")
    first = first_of(rule, MADE)
    second = rule.next(first)

    assert second
    third = rule.next(second)
    assert third
    assert [after.due_date - before.due_date for before, after in ((first, second), (second, third))] == [
        timedelta(hours=23)
    ] * 2


@pytest.mark.parametrize("text", ["pt5s", "+P1D", "P1DT+12H"])
def test_small_letters_and_plus_signs_are_read(text: str) -> None:
    assert f"`{text}`" in PAGE
    assert NewTimer.from_fields({"delay": text}).delay
    assert NewTimer.from_fields({"schedule": f"R3/{text}"}).schedule


def test_a_start_that_the_clock_skips_moves_alone() -> None:
    text = "R/2031-03-30T02:30[Europe/Berlin]/P1D"
    assert f"`{text}`" in PAGE
    rule = parse_schedule(text)
    first = first_of(rule, MADE)
    second = rule.next(first)

    assert second
    assert [f"{it.due_date.astimezone(rule.zone):%d %H:%M}" for it in (first, second)] == ["30 03:30", "31 02:30"]


def test_one_of_several_occurrences_less_than_a_minute_late_fires_under_skip() -> None:
    assert "of several that are less late one fires, and the others are skipped" in PAGE
    rule = parse_schedule("R/PT10S")
    first = first_of(rule, MADE)

    found = following(rule, first, repetitions=-1, now=first.due_date + timedelta(seconds=35), missed=Missed.SKIP)

    assert (found.fires, found.skipped) == (True, 3)
    assert found.next
    assert found.next.due_date == first.due_date + timedelta(seconds=40)


@pytest.mark.parametrize("missed", list(Missed))
def test_three_firings_are_three_whatever_was_missed(missed: Missed) -> None:
    """Follow the page's example: made at 8:00, nothing runs from 9:30 to 12:15."""
    rule = parse_schedule("R3/PT1H")
    occurrence: Occurrence | None = first_of(rule, MADE)
    last, fired, skipped = rule.repetitions, [], 0

    while occurrence:
        runs_at = max(occurrence.due_date, BACK) if occurrence.due_date >= DOWN else occurrence.due_date
        found = following(rule, occurrence, repetitions=last, now=runs_at, missed=missed)
        fired += [(f"{occurrence.due_date:%H}", f"{runs_at:%H:%M}")] if found.fires else []
        occurrence, last = found.next, last_number(last, found.skipped)
        skipped += found.skipped

    told = {
        Missed.FIRE_ONCE: ([("09", "09:00"), ("10", "12:15"), ("13", "13:00")], 2, 5, "three firings, two skipped"),
        Missed.FIRE_ALL: ([("09", "09:00"), ("10", "12:15"), ("11", "12:15")], 0, 3, "three firings, none skipped"),
        Missed.SKIP: ([("09", "09:00"), ("13", "13:00"), ("14", "14:00")], 3, 6, "three firings, three skipped"),
    }[missed]
    assert (fired, skipped, last) == told[:3]
    assert f"| {told[3]} |" in PAGE
