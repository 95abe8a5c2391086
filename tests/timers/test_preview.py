"""Test that a preview lists the next occurrences, with a note at each effect of a clock change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import shardclock_server.timers.offsets
import shardclock_server.timers.preview
from shardclock_server.timers.cron import parse_cron
from shardclock_server.timers.occurrence import ScheduleRule
from shardclock_server.timers.preview import GAP_MAX, PreviewedOccurrence, preview
from shardclock_server.timers.repeat import parse_repeat
from shardclock_server.timers.zone import UTC_ZONE, zone_of

BERLIN = zone_of("Europe/Berlin")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def edges(rule: ScheduleRule, created: str, count: int) -> list[tuple[str, str | None]]:
    """List the local time and the note of each next occurrence."""
    return [(previewed.local, previewed.edge) for previewed in preview(rule, moment(created), count=count)]


def test_a_preview_numbers_the_next_occurrences_and_shows_them_on_the_wall_clock() -> None:
    previewed = preview(parse_cron("0 9 * * MON-FRI", BERLIN), moment("2026-01-02T12:00Z"), count=2)

    assert previewed == [
        PreviewedOccurrence(1, moment("2026-01-05T08:00Z"), "2026-01-05T09:00:00+01:00", None),
        PreviewedOccurrence(2, moment("2026-01-06T08:00Z"), "2026-01-06T09:00:00+01:00", None),
    ]


@pytest.mark.parametrize(("text", "count", "shown"), [("R3/PT1H", 10, 3), ("R3/PT1H", 2, 2), ("R/PT1H", 0, 0)])
def test_a_preview_is_limited_by_the_count_and_by_the_repetitions(text: str, count: int, shown: int) -> None:
    previewed = preview(parse_repeat(text, UTC_ZONE), moment("2026-01-01T00:00Z"), count=count)

    assert [each.number for each in previewed] == [1, 2, 3][:shown]


def test_a_preview_of_a_rule_that_never_matches_is_empty() -> None:
    assert preview(parse_cron("0 0 0 30 2 ?", BERLIN), moment("2026-01-01T00:00Z"), count=3) == []


def test_a_preview_does_not_search_gaps_of_decades_for_skipped_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[timedelta] = []

    def note(_zone: ZoneInfo, since: datetime, until: datetime) -> tuple[()]:
        looked_at.append(until - since)
        return ()

    monkeypatch.setattr(shardclock_server.timers.preview, "clock_changes", note)
    lisbon = zone_of("Europe/Lisbon")
    assert len(preview(parse_cron("0 0 0 29 2 MON", lisbon), moment("2026-01-01T00:00Z"), count=20)) == 20
    assert looked_at == []
    preview(parse_cron("0 0 0 29 2 ?", lisbon), moment("2026-01-01T00:00Z"), count=20)
    assert looked_at.pop(0) == GAP_MAX  # the search for the rule's date before the first one
    assert len(looked_at) == 20
    assert max(looked_at) < timedelta(days=3_000)


# Rules that match on few days; and rules that match only times that the clock skips.
RARE = [
    ("0 0 0 29 2 MON", "Europe/Lisbon"),
    ("0 0 29 2 *", "America/New_York"),
    ("0 30 2 29 2 ?", "Africa/Casablanca"),
    ("0 0 0 29 2 SUN#5", "America/St_Johns"),
    ("0 30 2 25-31 3 SUN", "Europe/Berlin"),
    ("0 30 2 8-14 3 SUN", "America/New_York"),
    ("0 15 2 1-7 10 SUN", "Australia/Lord_Howe"),
    ("0 0 30 2 *", "Europe/Berlin"),
]


@pytest.mark.parametrize(("text", "zone"), RARE, ids=str)
def test_a_preview_of_a_rare_rule_searches_each_year_once(
    text: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    offset = shardclock_server.timers.offsets._offset

    def counted(zone: ZoneInfo, second: int) -> int:
        looked_at.append(second)
        return offset(zone, second)

    monkeypatch.setattr(shardclock_server.timers.offsets, "_offset", counted)
    shardclock_server.timers.offsets._searched_spans.cache_clear()
    preview(parse_cron(text, zone_of(zone)), moment("2026-01-01T00:00Z"), count=1_000)

    assert len(looked_at) < 105 * 200  # the years from 2026 to 2129, each searched once


def test_the_search_for_times_that_are_always_skipped_ends_after_one_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []
    spans = shardclock_server.timers.offsets.offset_spans

    def noted(zone: ZoneInfo, year: int) -> tuple[shardclock_server.timers.offsets.OffsetSpan, ...]:
        searched.append(year)
        return spans(zone, year)

    monkeypatch.setattr("shardclock_server.timers.cron.offset_spans", noted)
    assert parse_cron("0 30 2 25-31 3 SUN", BERLIN).first(moment("2026-01-01T00:00Z")) is None
    assert len(searched) == len(set(searched)) < 500


def test_a_preview_notes_a_clock_change_since_the_previous_occurrence() -> None:
    assert edges(parse_cron("0 9 * * *", BERLIN), "2026-03-27T12:00Z", 3) == [
        ("2026-03-28T09:00:00+01:00", None),
        ("2026-03-29T09:00:00+02:00", "clock +01:00 → +02:00"),
        ("2026-03-30T09:00:00+02:00", None),
    ]


def test_a_preview_compares_the_first_occurrence_with_the_previous_one_of_the_rule() -> None:
    assert edges(parse_cron("0 9 * * *", BERLIN), "2026-03-28T12:00Z", 1) == [
        ("2026-03-29T09:00:00+02:00", "clock +01:00 → +02:00")
    ]


@pytest.mark.parametrize(
    ("rule", "created", "first"),
    [
        ("0 9 * * MON-FRI", "2026-03-28T12:00Z", ("2026-03-30T09:00:00+02:00", "clock +01:00 → +02:00")),
        ("0 9 * * MON-FRI", "2026-10-24T12:00Z", ("2026-10-26T09:00:00+01:00", "clock +02:00 → +01:00")),
        ("*/5 8-17 * * *", "2026-03-28T20:00Z", ("2026-03-29T08:00:00+02:00", "clock +01:00 → +02:00")),
        ("* * 8-17 * * *", "2026-10-24T20:00Z", ("2026-10-25T08:00:00+01:00", "clock +02:00 → +01:00")),
        ("0 9 1,2 * *", "2026-03-15T12:00Z", ("2026-04-01T09:00:00+02:00", "clock +01:00 → +02:00")),
        ("0 3 29 3,4 *", "2026-03-01T12:00Z", ("2026-03-29T03:00:00+02:00", None)),
        ("0 9 29 2 *", "2026-07-01T12:00Z", ("2028-02-29T09:00:00+01:00", None)),
        ("0 0 9 29 2 SUN", "2026-07-01T12:00Z", ("2032-02-29T09:00:00+01:00", None)),
    ],
)
def test_the_first_occurrence_of_a_cron_rule_is_compared_with_the_rules_previous_date(
    rule: str, created: str, first: tuple[str, str | None]
) -> None:
    assert edges(parse_cron(rule, BERLIN), created, 1) == [first]


@pytest.mark.parametrize(
    ("rule", "edge"),
    [
        ("R/2026-10-28T09:00/P7M", None),  # 28 March 2026 is before the change to summer time
        ("R/2026-10-30T09:00/P7M", "clock +02:00 → +01:00"),
        ("R/2026-07-01T09:00/P6M", "clock +01:00 → +02:00"),
        ("R/2026-07-01T09:00/P1Y", None),
        ("R/2026-03-01T09:00/P1M", None),
    ],
)
def test_the_start_of_a_repeat_is_compared_with_the_grid_point_before_it(rule: str, edge: str | None) -> None:
    (found,) = edges(parse_repeat(rule, BERLIN), "2026-01-15T12:00Z", 1)

    assert found[1] == edge


@pytest.mark.parametrize(
    ("rule", "created", "shown"),
    [
        ("0 9 1 7 *", "2026-01-15T12:00Z", [("2026-07-01T09:00:00+02:00", None), ("2027-07-01T09:00:00+02:00", None)]),
        ("0 9 1 1 *", "2026-07-15T12:00Z", [("2027-01-01T09:00:00+01:00", None)]),
        (
            "0 9 1 * *",
            "2026-03-02T12:00Z",
            [("2026-04-01T09:00:00+02:00", "clock +01:00 → +02:00"), ("2026-05-01T09:00:00+02:00", None)],
        ),
        (
            "0 9 1 * *",
            "2026-10-02T12:00Z",
            [("2026-11-01T09:00:00+01:00", "clock +02:00 → +01:00"), ("2026-12-01T09:00:00+01:00", None)],
        ),
    ],
)
def test_a_preview_notes_no_clock_change_between_now_and_a_first_occurrence_far_away(
    rule: str, created: str, shown: list[tuple[str, str | None]]
) -> None:
    assert edges(parse_cron(rule, BERLIN), created, len(shown)) == shown


@pytest.mark.parametrize(
    ("text", "local", "left_out"),
    [
        ("30 2 * * *", "2026-03-30T02:30:00+02:00", "2026-03-29 02:30:00"),
        ("*/15 2-3 * * *", "2026-03-29T03:00:00+02:00", "2026-03-29 02:00:00 and 3 more"),
        ("0 2,3 * * *", "2026-03-29T03:00:00+02:00", "2026-03-29 02:00:00"),
    ],
)
def test_a_preview_notes_the_times_of_a_cron_rule_that_the_clock_skips(text: str, local: str, left_out: str) -> None:
    found = edges(parse_cron(text, BERLIN), "2026-03-28T12:00Z", 1)

    assert found == [(local, f"clock +01:00 → +02:00; left out {left_out}, which the clock skips")]


def test_a_preview_notes_the_day_of_a_cron_rule_that_the_clock_skips() -> None:
    assert edges(parse_cron("0 12 30 12 *", zone_of("Pacific/Apia")), "2011-01-31T00:00Z", 2) == [
        (
            "2012-12-30T12:00:00+14:00",
            "clock -10:00 → +14:00; left out 2011-12-30 12:00:00, which the clock skips",
        ),
        ("2013-12-30T12:00:00+14:00", None),
    ]


def test_a_preview_notes_that_a_time_of_a_repeat_moved_forward() -> None:
    assert edges(parse_repeat("R/P1D", BERLIN), "2026-03-28T01:30Z", 2) == [
        (
            "2026-03-29T03:30:00+02:00",
            "clock +01:00 → +02:00; moved forward from 2026-03-29 02:30:00, which the clock skips",
        ),
        ("2026-03-30T02:30:00+02:00", None),
    ]


def test_a_preview_notes_that_only_the_start_moved_forward() -> None:
    assert edges(parse_repeat("R/2026-03-29T02:30[Europe/Berlin]/P1D", UTC_ZONE), "2026-03-28T12:00Z", 2) == [
        (
            "2026-03-29T03:30:00+02:00",
            "clock +01:00 → +02:00; moved forward from 2026-03-29 02:30:00, which the clock skips",
        ),
        ("2026-03-30T02:30:00+02:00", None),
    ]
    assert edges(parse_repeat("R/2026-03-29T02:30/PT1H", BERLIN), "2026-03-29T01:00Z", 2) == [
        (
            "2026-03-29T03:30:00+02:00",
            "clock +01:00 → +02:00; moved forward from 2026-03-29 02:30:00, which the clock skips",
        ),
        ("2026-03-29T04:30:00+02:00", None),
    ]


@pytest.mark.parametrize(("text", "created"), [("R/PT24H", "2026-03-28T01:30Z"), ("R/P1DT1H", "2026-03-28T00:30Z")])
def test_a_preview_notes_no_move_for_periods_of_elapsed_time(text: str, created: str) -> None:
    assert edges(parse_repeat(text, BERLIN), created, 1) == [("2026-03-29T03:30:00+02:00", "clock +01:00 → +02:00")]


def test_a_preview_notes_the_first_and_the_second_pass_of_an_hour() -> None:
    assert edges(parse_cron("30 * * * *", BERLIN), "2026-10-25T00:00Z", 3) == [
        ("2026-10-25T02:30:00+02:00", "2026-10-25 02:30:00 comes twice: first time round"),
        (
            "2026-10-25T02:30:00+01:00",
            "clock +02:00 → +01:00; 2026-10-25 02:30:00 comes twice: second time round",
        ),
        ("2026-10-25T03:30:00+01:00", None),
    ]


@pytest.mark.parametrize("created", ["0001-01-01T00:00+00:00", "9999-12-31T20:00+00:00"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_a_preview_works_at_both_ends_of_the_calendar(created: str, zone: str) -> None:
    for rule in (parse_cron("@hourly", zone_of(zone)), parse_repeat("R/PT1H", zone_of(zone))):
        previewed = preview(rule, moment(created), count=5)

        assert [each.moment for each in previewed] == sorted(each.moment for each in previewed)
