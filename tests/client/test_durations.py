"""Test that a duration is parsed exactly, or refused with its value."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock.durations import seconds_of


@pytest.mark.parametrize(
    ("length", "seconds"),
    [
        *(("PT30S", 30), ("PT0S", 0), ("PT15M", 900), ("PT1H", 3_600), ("P1D", 86_400), ("P2W", 1_209_600)),
        *(("P1W2DT3H4M5.5S", 788_645.5), ("PT0,25S", 0.25), ("PT0.000001S", 0.000001), ("PT090M", 5_400)),
        (timedelta(minutes=5, microseconds=1), 300.000001),
    ],
    ids=str,
)
def test_a_duration_has_a_length_in_seconds(length: str | timedelta, seconds: float) -> None:
    assert seconds_of(length) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "P",
            "PT",
            "P1DT",
            "PT1S\n",
            " PT1S",
            "1S",
            "PT1",
            "P1H",
            "-PT1S",
            "PT-1S",
            "+PT1S",
            "pt1s",
            "30",
            "30x",
            "1s2m",
            "m",
        ),
        *("PT.5S", "PT1.S", "PT0.5M", "P0.5D", "PT1.0000001S", "PT1M1H", "P1D1W", "P٣D", "PT1S\0", "P\ud800"),
        *("PT" + "1" * 10 + "S", "P" + "1" * 10_000 + "D"),
    ],
    ids=ascii,
)
def test_an_invalid_duration_is_refused_with_its_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an ISO 8601 duration; write one such as PT30S") as refused:
        seconds_of(text)
    assert str(refused.value).isprintable()
    assert str(refused.value).startswith(("'", '"'))


@pytest.mark.parametrize(
    ("text", "iso"), [("15m", "PT15M"), ("2h30m", "PT2H30M"), ("90s", "PT90S"), ("3d", "P3D"), ("1d12h", "P1DT12H")]
)
def test_a_short_form_is_refused_with_its_iso_8601_form(text: str, iso: str) -> None:
    with pytest.raises(ValueError, match=rf"^'{text}' is not an ISO 8601 duration; write {iso}$"):
        seconds_of(text)
    assert seconds_of(iso) > 0


@pytest.mark.parametrize("text", ["P1M", "P1Y", "P1Y2M3W4DT5H", "P0M", "P2M1DT0.5S"])
def test_years_and_months_are_refused_because_they_differ_in_length(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' has years or months, whose length depends on the date; write"):
        seconds_of(text)


@pytest.mark.parametrize("value", [30, 0.5, None, b"PT1S", ["PT1S"]], ids=repr)
def test_a_number_without_a_unit_is_refused(value: Any) -> None:
    refusal = re.escape(f"{value!r} is neither an ISO 8601 duration nor a timedelta; write one such as PT30S")
    with pytest.raises(ValueError, match=f"^{refusal}$"):
        seconds_of(value)


def test_a_negative_timedelta_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^datetime\.timedelta\(days=-1.* is negative; give a length of 0 or more$"):
        seconds_of(timedelta(seconds=-1))


@given(
    parts=st.tuples(*[st.integers(0, 999_999_999)] * 5),
    microseconds=st.integers(0, 999_999),
)
def test_each_part_of_a_duration_has_its_length(parts: tuple[int, ...], microseconds: int) -> None:
    weeks, days, hours, minutes, seconds = parts
    text = f"P{weeks}W{days}DT{hours}H{minutes}M{seconds}.{microseconds:06}S"
    whole_s = weeks * 604_800 + days * 86_400 + hours * 3_600 + minutes * 60 + seconds

    assert seconds_of(text) == (whole_s * 1_000_000 + microseconds) / 1_000_000


@given(length=st.timedeltas(timedelta(0), timedelta(days=365)))
def test_a_timedelta_and_its_iso_8601_text_are_equal(length: timedelta) -> None:
    days, rest = divmod(length, timedelta(days=1))
    text = f"P{days}DT{rest.seconds}.{rest.microseconds:06}S"

    assert seconds_of(text) == seconds_of(length)


@given(text=st.text(alphabet="P0123456789YMWDTHS.,-+", max_size=30) | st.text(st.characters(codec=None)))
def test_any_text_is_a_duration_or_refused_in_one_line(text: str) -> None:
    try:
        assert seconds_of(text) >= 0
    except ValueError as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - either outcome is right
        assert len(str(refusal)) < 250  # noqa: PT017 - as above
