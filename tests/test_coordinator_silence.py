"""Only who stays silent while there is news of others is called silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from coordinator.silence import Silence

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = FIRST + timedelta(seconds=1)


def test_who_shows_no_new_sign_of_life_for_longer_than_the_limit_is_silent() -> None:
    silence = Silence(4.0)

    assert silence.of({"one": FIRST, "other": FIRST}, now_s=100.0) == set()
    assert silence.of({"one": FIRST, "other": SECOND}, now_s=104.0) == set()
    assert silence.of({"one": FIRST, "other": SECOND}, now_s=104.1) == {"one"}


def test_any_change_is_a_sign_of_life_even_to_an_earlier_time() -> None:
    silence = Silence(4.0)
    silence.of({"one": SECOND}, now_s=100.0)
    silence.of({"one": FIRST}, now_s=103.0)

    assert silence.of({"one": FIRST}, now_s=106.0) == set()


def test_after_an_outage_everyone_gets_the_whole_interval_again() -> None:
    silence = Silence(4.0)
    silence.of({"one": FIRST}, now_s=100.0)
    silence.forget()

    assert silence.of({"one": FIRST}, now_s=200.0) == set()
    assert silence.of({"one": FIRST}, now_s=204.1) == {"one"}


def test_who_comes_back_under_its_name_is_not_held_to_its_past() -> None:
    silence = Silence(4.0)
    silence.of({"one": FIRST}, now_s=100.0)
    silence.of({}, now_s=101.0)

    assert silence.of({"one": FIRST}, now_s=110.0) == set()
