"""Only who stays silent while there is news of others is called silent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from coordinator.silence import UNSEEN_S, Silence

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = FIRST + timedelta(seconds=1)
LIMIT_S = 4.0


def look(silence: Silence, at_s: float, signs: dict[str, datetime]) -> set[str]:
    """Look once, and say who is silent."""
    silence.look(signs, now_s=at_s)
    return silence.longer_than(LIMIT_S)


def watch(silence: Silence, signs: dict[str, datetime], *, at_s: Sequence[float]) -> set[str]:
    """Look at the same signs at several moments; the silent of the last look come back."""
    return [look(silence, moment_s, signs) for moment_s in at_s][-1]


def test_who_shows_no_new_sign_of_life_for_longer_than_the_limit_is_silent() -> None:
    silence = Silence()

    assert look(silence, 100.0, {"one": FIRST, "other": FIRST}) == set()
    both = {"one": FIRST, "other": SECOND}
    assert watch(silence, both, at_s=[101.0, 102.0, 103.0, 104.0]) == set()
    assert look(silence, 104.1, both) == {"one"}
    assert silence.longer_than(5.0) == set()
    assert silence.longer_than(3.0) == {"one", "other"}, "one look is measured against more than one limit"


def test_any_change_is_a_sign_of_life_even_to_an_earlier_time() -> None:
    silence = Silence()
    watch(silence, {"one": SECOND}, at_s=[100.0, 101.0, 102.0])

    assert watch(silence, {"one": FIRST}, at_s=[103.0, 104.0, 105.0, 106.0, 107.0]) == set()


def test_after_an_outage_everyone_gets_the_whole_interval_again() -> None:
    silence = Silence()
    look(silence, 100.0, {"one": FIRST})
    silence.forget()

    assert watch(silence, {"one": FIRST}, at_s=[200.0, 201.0, 202.0, 203.0, 204.0]) == set()
    assert look(silence, 204.1, {"one": FIRST}) == {"one"}


def test_a_watcher_that_was_away_blames_nobody_for_that_time() -> None:
    silence = Silence()
    watch(silence, {"one": FIRST, "frozen": FIRST}, at_s=[100.0, 100.5])

    assert look(silence, 160.5, {"one": FIRST, "frozen": FIRST}) == set()
    assert silence.longer_than(0.5 + UNSEEN_S - 0.1) == {"one", "frozen"}, "but for what it would have seen anyway"
    assert silence.longer_than(0.5 + UNSEEN_S + 0.1) == set()
    assert watch(silence, {"one": SECOND, "frozen": FIRST}, at_s=[161.5, 162.5, 163.1]) == {"frozen"}


def test_who_comes_back_under_its_name_is_not_held_to_its_past() -> None:
    silence = Silence()
    look(silence, 100.0, {"one": FIRST})
    look(silence, 101.0, {})

    assert look(silence, 110.0, {"one": FIRST}) == set()


def test_who_was_never_heard_is_known_from_who_was_heard_and_fell_silent() -> None:
    silence = Silence()
    look(silence, 100.0, {"one": FIRST, "other": FIRST})
    assert silence.unheard(["one", "other"]) == {"one", "other"}

    watch(silence, {"one": FIRST, "other": SECOND}, at_s=[100.2, 101.2, 102.2])

    assert silence.unheard(["one", "other", "nobody"]) == {"one", "nobody"}
    silence.forget()
    assert silence.unheard(["other"]) == {"other"}
