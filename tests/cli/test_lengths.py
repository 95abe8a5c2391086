"""The command line reads durations in everyday notation and in ISO 8601, and refuses an ambiguous M."""

from __future__ import annotations

import pytest

from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.options import repeat_of
from shardclock_server.timers.refusal import InvalidTimer


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("15m", "PT15M"),
        ("90s", "PT1M30S"),
        ("2h30m", "PT2H30M"),
        ("3d", "P3D"),
        ("1w", "P7D"),
        ("1w2d3h4m5s", "P9DT3H4M5S"),
        ("0.5s", "PT0.5S"),
        ("1,5h", "PT1H30M"),
        ("0s", "PT0S"),
        ("2H", "PT2H"),
        ("3D", "P3D"),
        ("PT15M", "PT15M"),
        ("P1M", "P1M"),
        ("P1DT12H", "P1DT12H"),
    ],
)
def test_a_length_is_read_in_short_form_and_in_iso_8601(text: str, iso: str) -> None:
    assert str(read_length("--in", text)) == iso


def test_a_day_is_calendar_time_and_24_hours_are_not() -> None:
    assert read_length("--in", "1d") != read_length("--in", "24h")


@pytest.mark.parametrize("text", ["15M", "2h30M", "3M", "1d1M"])
def test_a_capital_m_is_refused_because_it_is_ambiguous(text: str) -> None:
    with pytest.raises(InvalidTimer, match=rf"--in '{text}' may mean minutes or months; write 15m .*P1M"):
        read_length("--in", text)


@pytest.mark.parametrize(
    "text",
    ["", "m", "15", "15 m", "15min", "m15", "30m2h", "1.5h30m", "1.5d", "1..5s", "-15m", "-PT1S", "soon", "9" * 50],
)
def test_an_invalid_length_is_refused_with_the_option_s_name(text: str) -> None:
    with pytest.raises(InvalidTimer, match=r"--in '.*' is not a length of time .*such as 15m, 2h30m, 90s or 3d.*PT15M"):
        read_length("--in", text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("1h", "R/PT1H"),
        ("90s", "R/PT1M30S"),
        ("1d", "R/P1D"),
        ("PT1H", "R/PT1H"),
        ("p1d", "R/P1D"),
        ("0 8 * * *", None),
        ("R5/PT1H", None),
        ("@daily", None),
        ("8 * * *", None),
    ],
)
def test_a_rule_may_be_a_length(text: str, rule: str | None) -> None:
    assert repeat_of("--every", text) == (rule or text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0s", "is zero; give a longer time"),
        ("P0D", "is zero"),
        ("1M", "may mean minutes or months"),
        ("P1X", "is not a length of time"),
        ("1h30", "is neither a length of time such as 1h30m nor a rule"),
        ("1mo", "is neither a length of time such as 1h30m nor a rule"),
        ("1 hour", "is neither a length of time such as 1h30m nor a rule"),
    ],
)
def test_the_refusal_of_a_rule_that_is_an_invalid_duration_quotes_the_input(text: str, why: str) -> None:
    with pytest.raises(InvalidTimer, match=f"--every '{text}' {why}"):
        repeat_of("--every", text)


def test_a_length_is_shown_with_its_sign() -> None:
    with pytest.raises(InvalidTimer, match="--shift '-soon' is"):
        read_length("--shift", "soon", sign="-")


@pytest.mark.parametrize("text", ["9999999d", "P10000Y"])
def test_a_duration_that_ends_after_the_year_9999_is_refused(text: str) -> None:
    with pytest.raises(InvalidTimer, match=f"'{text}' is not a length of time from zero to 10,000 years"):
        read_length("--in", text)
