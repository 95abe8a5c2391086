"""Test that every machine reads local times in the same way, including skipped and repeated times."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.zone import (
    UTC_ZONE,
    agreed_zone,
    comes_twice,
    exists,
    offset_at,
    to_local,
    to_utc,
    zone_of,
)

BERLIN, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")
SKIPPED = datetime(2024, 3, 31, 2, 30)  # noqa: DTZ001 - local times have no offset, here and below
TWICE = datetime(2024, 10, 27, 2, 30)  # noqa: DTZ001


@pytest.mark.parametrize(
    "name",
    [
        *("localtime", "posixrules", "Factory", "", "UTC ", "utc", "europe/berlin", "CEST", "+01:00", "UTC+1"),
        *("../../etc/passwd", "/usr/share/zoneinfo/UTC", "Europe", "posix/UTC", "right/UTC", "UTC\0", "\ud800"),
        "Europe/" + "x" * 100_000,
    ],
    ids=shortened,
)
def test_a_name_that_iana_does_not_list_is_refused(name: str) -> None:
    with pytest.raises(InvalidTimer, match="is not an IANA time zone; write one such as UTC or Europe/Berlin"):
        zone_of(name)


def test_every_iana_zone_is_known_by_its_name() -> None:
    names = available_timezones() - {"localtime", "Factory"}

    assert len(names) > 400
    assert all(zone_of(name).key == name for name in names)


def test_a_skipped_time_moves_forward_by_the_clock_change() -> None:
    assert to_utc(SKIPPED, BERLIN) == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    assert to_local(to_utc(SKIPPED, BERLIN), BERLIN) == SKIPPED + timedelta(hours=1)
    assert not exists(SKIPPED, BERLIN)
    assert not comes_twice(SKIPPED, BERLIN)


def test_a_local_time_that_occurs_twice_means_its_first_occurrence() -> None:
    assert to_utc(TWICE, BERLIN) == datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    assert to_utc(TWICE.replace(fold=1), BERLIN) == to_utc(TWICE, BERLIN)
    assert exists(TWICE, BERLIN)
    assert comes_twice(TWICE, BERLIN)


def test_a_day_that_samoa_skipped_means_the_next_day() -> None:
    skipped, next_day = datetime(2011, 12, 30, 12), datetime(2011, 12, 31, 12)  # noqa: DTZ001

    assert not exists(skipped, APIA)
    assert to_utc(skipped, APIA) == to_utc(next_day, APIA)


def test_the_offset_depends_on_the_moment() -> None:
    assert offset_at(datetime(2024, 10, 27, 0, 59, tzinfo=UTC), BERLIN) == timedelta(hours=2)
    assert offset_at(datetime(2024, 10, 27, 1, tzinfo=UTC), BERLIN) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "beside", "zone"),
    [
        ("R/PT1H", UTC_ZONE, UTC_ZONE),
        ("R/PT1H", BERLIN, BERLIN),
        ("R/…[Europe/Berlin]/PT1H", UTC_ZONE, BERLIN),
        ("R/…[Europe/Berlin]/PT1H", BERLIN, BERLIN),
        ("R/…[Europe/Berlin]/…[Europe/Berlin]", UTC_ZONE, BERLIN),
        ("R/…[UTC]/PT1H", UTC_ZONE, UTC_ZONE),
    ],
)
def test_a_zone_in_brackets_takes_precedence_over_the_default_zone(text: str, beside: ZoneInfo, zone: ZoneInfo) -> None:
    assert agreed_zone(text, beside) == zone


@pytest.mark.parametrize(
    ("text", "beside", "sentence"),
    [
        ("R/…[UTC]/P1D", BERLIN, "names the time zone UTC, but its zone is Europe/Berlin; give only one"),
        ("R/…[Europe/Berlin]/…[UTC]", UTC_ZONE, "names the time zones Europe/Berlin and 'UTC'; write only one"),
        ("R/…[localtime]/P1D", UTC_ZONE, "'localtime' is not an IANA time zone"),
        ("R/…[]/P1D", UTC_ZONE, "'' is not an IANA time zone"),
    ],
)
def test_zones_that_disagree_are_refused(text: str, beside: ZoneInfo, sentence: str) -> None:
    with pytest.raises(InvalidTimer) as refused:
        agreed_zone(text, beside)

    assert sentence in str(refused.value)
