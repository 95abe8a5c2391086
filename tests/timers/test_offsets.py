"""Test that a far year has the clock changes of an earlier year of its kind."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shardclock_server.timers.offsets import END, RULES_FROM_YEAR, _searched_spans, offset_spans
from shardclock_server.timers.zone import zone_of

ZONES = [
    "UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Africa/Casablanca", "Australia/Lord_Howe",
    "Asia/Jerusalem", "America/Santiago", "Africa/Cairo", "America/Nuuk", "Asia/Gaza", "Pacific/Chatham",
]  # fmt: skip
YEARS = [2101, 2128, 2129, 2130, 2156, 2200, 2201, 2400, 2401, 2499, 2500, 3000, 4004, 9600, 9996, 9998, 9999]


@pytest.mark.parametrize("zone", ZONES)
def test_a_far_year_has_the_spans_that_a_search_finds(zone: str) -> None:
    for year in YEARS:
        assert offset_spans(zone_of(zone), year) == _searched_spans(zone_of(zone), year), year


def test_the_spans_of_all_years_have_no_gaps() -> None:
    spans = [span for year in range(RULES_FROM_YEAR, 10_000) for span in offset_spans(zone_of("Europe/Berlin"), year)]

    assert all(before.end == after.start for before, after in pairwise(spans))
    assert spans[-1].end == END
