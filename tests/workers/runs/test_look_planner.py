"""A look is made when a start may begin, and not when none can; and it reads no more than it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shardclock_server.sql.jobs.runs import DUE_MAX, Begun, DuePlace, Look
from shardclock_server.workers.runs.look_planner import PART, SHORT_S, WHOLE_S, LookPlanner
from tests.support.handlers import NOON
from tests.support.runs import begun_run

POLL_S = 0.125
ALL_FREE, NONE_FREE = (4, 4), (0, 4)


def begun(runs: int = 0, **facts: Any) -> Begun:
    """Make an answer to a look."""
    said: dict[str, Any] = {
        "dropped": 0,
        "replaced": 0,
        "saturated": False,
        "short": False,
        "short_reserving": False,
        "queued": False,
    }
    said |= {"last_at": NOON, "last_key": 7}
    return Begun(server_time=NOON, runs=[begun_run()] * runs, **(said | facts))


def planner(seen: Begun, *, free: int = 4) -> LookPlanner:
    """Make a planner whose first look, of all, was at 0."""
    it = LookPlanner(POLL_S, 4)
    it.learn(0.0, seen, look=it.begin(0.0, free=ALL_FREE), free=free)
    return it


def look(it: LookPlanner, now_s: float) -> Look:
    """Begin a look with all places free."""
    return it.begin(now_s, free=ALL_FREE)


def test_the_first_look_is_at_once_and_reads_all() -> None:
    it = LookPlanner(POLL_S, 4)

    assert it.wait_s(7.0, free=ALL_FREE) == 0.0
    assert it.begin(7.0, free=ALL_FREE).starts == DUE_MAX


def test_without_a_reason_the_next_look_is_a_poll_and_reads_a_part() -> None:
    it = planner(begun(1))

    assert it.wait_s(0.02, free=ALL_FREE, has_ended=True) == POLL_S - 0.02
    assert it.wait_s(POLL_S, free=ALL_FREE) == 0.0
    assert [it.begin(POLL_S, free=ALL_FREE).starts, it.begin(WHOLE_S, free=ALL_FREE).starts] == [PART, DUE_MAX]


def test_a_whole_look_that_begins_nothing_is_followed_by_one_behind_what_it_has_read() -> None:
    it = planner(begun(saturated=True))
    assert look(it, WHOLE_S) == (DUE_MAX, DuePlace(NOON, 7))

    # Behind the last start, and after one that has begun something, it goes on with the first
    it.learn(WHOLE_S, begun(), look=Look(DUE_MAX, DuePlace(NOON, 7)), free=4)
    assert look(it, WHOLE_S) == (PART, None)
    assert look(it, 2 * WHOLE_S) == (DUE_MAX, None)
    it.learn(2 * WHOLE_S, begun(saturated=True), look=Look(DUE_MAX), free=4)
    it.learn(3 * WHOLE_S, begun(1, saturated=True, last_key=9), look=look(it, 3 * WHOLE_S), free=4)
    assert look(it, 4 * WHOLE_S) == (DUE_MAX, None)


def test_what_was_asked_for_is_looked_for_at_once_and_once() -> None:
    it = planner(begun())
    it.ask()
    assert it.wait_s(0.125, free=ALL_FREE) == 0.0

    read = it.begin(0.125, free=ALL_FREE)
    it.learn(0.25, begun(), look=read, free=4)
    assert it.wait_s(0.25, free=ALL_FREE) == POLL_S

    it.begin(0.375, free=ALL_FREE)
    it.ask()  # during the look, which may have been too early for it
    it.learn(0.5, begun(), look=read, free=4)
    assert it.wait_s(0.5, free=ALL_FREE) == 0.0


def test_a_hint_that_comes_while_a_look_is_under_way_leads_to_another() -> None:
    it = planner(begun(1))
    under_way = look(it, 0.01)
    assert it.hint(0.012) is None

    it.learn(0.015, begun(1), look=under_way, free=4)

    assert it.wait_s(0.015, free=ALL_FREE) == 0.0
    it.learn(0.03125, begun(1), look=look(it, 0.016), free=4)
    assert it.wait_s(0.03125, free=ALL_FREE) == POLL_S


def test_while_places_are_short_a_hint_tells_nothing_and_free_places_are_filled_together() -> None:
    it = planner(begun(4, short=True), free=0)
    it.ask()

    assert it.wait_s(0.005, free=NONE_FREE) == POLL_S - 0.005
    assert it.wait_s(0.005, free=(1, 4)) == SHORT_S - 0.005
    assert it.wait_s(0.005, free=(2, 4)) == 0.0
    assert it.wait_s(0.005, free=(2, 4), ahead=4) == SHORT_S - 0.005, "half of those that are ahead, too"
    assert it.wait_s(0.005, free=(4, 4), ahead=4) == 0.0


def test_plain_starts_do_not_wait_because_others_wait_for_what_they_reserve() -> None:
    it = planner(begun(4, short_reserving=True), free=4)
    assert it.wait_s(0.005, free=(4, 0)) == POLL_S - 0.005

    it.ask()

    assert it.wait_s(0.005, free=(4, 0)) == 0.0


def test_a_start_that_waits_for_its_job_s_run_is_looked_for_when_a_run_has_ended() -> None:
    it = planner(begun(1, queued=True))

    assert it.wait_s(0.005, free=ALL_FREE) == POLL_S - 0.005
    assert it.wait_s(0.005, free=ALL_FREE, has_ended=True) == 0.0


def test_a_part_that_leaves_places_free_is_followed_by_a_look_at_all() -> None:
    it = planner(begun())
    it.learn(0.5, begun(saturated=True), look=it.begin(0.4, free=ALL_FREE), free=1)

    assert it.wait_s(0.5, free=(1, 4)) == 0.0
    assert it.begin(0.5, free=ALL_FREE).starts == DUE_MAX

    it.learn(0.625, begun(saturated=True), look=Look(DUE_MAX), free=1)
    assert it.wait_s(0.625, free=(1, 4)) == POLL_S, "there is nothing that could begin"


def test_a_part_that_fills_the_places_is_enough() -> None:
    it = planner(begun())
    it.learn(0.5, begun(4, saturated=True, short=True), look=it.begin(0.4, free=ALL_FREE), free=0)

    assert it.wait_s(0.5, free=NONE_FREE) == POLL_S
    assert it.begin(0.6, free=ALL_FREE).starts == PART

    it.learn(0.625, begun(4, saturated=True, short=True), look=Look(PART), free=1)
    assert it.wait_s(0.625, free=(1, 4)) == pytest.approx(SHORT_S), "the place became free while it looked"
    assert it.begin(0.645, free=ALL_FREE).starts == PART


def test_looks_without_a_place_do_not_use_up_the_one_that_finds_an_urgent_start() -> None:
    it = planner(begun(4, saturated=True, short=True), free=0)
    for now_s in (0.5, 1.0, 1.5):
        read = it.begin(now_s, free=NONE_FREE)
        it.learn(now_s, begun(saturated=True, short=True), look=read, free=0)

    assert it.begin(1.625, free=NONE_FREE).starts == PART
    assert it.begin(1.625, free=(1, 4)).starts == DUE_MAX


def test_looks_for_plain_starts_do_not_use_up_the_one_that_finds_an_urgent_start_that_reserves_something() -> None:
    it = planner(begun())
    read = it.begin(WHOLE_S, free=(4, 0))
    it.learn(WHOLE_S, begun(saturated=True, short_reserving=True), look=read, free=4)
    assert read.starts == DUE_MAX

    assert it.begin(WHOLE_S + POLL_S, free=(4, 0)).starts == PART
    assert it.begin(WHOLE_S + POLL_S, free=(4, 1)).starts == DUE_MAX


def test_hints_lead_to_as_few_looks_as_polls_if_more_wait_than_a_look_reads() -> None:
    it, looks = planner(begun()), 0
    ask_at_s = None
    for now_s in (number / 128 for number in range(128)):
        if (wait_s := it.hint(now_s)) is not None:
            ask_at_s = now_s + wait_s
        if ask_at_s is not None and now_s >= ask_at_s:
            ask_at_s = None
            it.ask()
        while not it.wait_s(now_s, free=ALL_FREE):
            looks += 1
            it.learn(now_s, begun(saturated=True), look=it.begin(now_s, free=ALL_FREE), free=4)

    assert looks <= 2 * (1 / POLL_S + 6)


class World:
    """Starts that are due, in their order, and a worker whose runs take a second; a planner says when it looks."""

    def __init__(
        self, starts: int, *, possible: Callable[[int], bool], reserving: frozenset[int] = frozenset()
    ) -> None:
        self.waiting = list(range(starts))
        self.possible, self.reserving = possible, reserving
        self.ends: list[float] = []
        self.begun_at: dict[int, float] = {}
        self.planner = LookPlanner(POLL_S, 4)

    def live(self, from_s: int, until_s: int) -> None:
        for now_s in (tick / 64 for tick in range(64 * from_s, 64 * until_s)):
            has_ended = any(end <= now_s for end in self.ends)
            self.ends = [end for end in self.ends if end > now_s]
            while not self.planner.wait_s(now_s, free=(4 - len(self.ends), 0), has_ended=has_ended):
                has_ended = False
                self._look(now_s)

    def _look(self, now_s: float) -> None:
        free = 4 - len(self.ends)
        look = self.planner.begin(now_s, free=(free, 0))
        behind = -1 if look.after is None else look.after.timer_key
        read = [start for start in self.waiting if start > behind][: look.starts]
        able = [start for start in read if self.possible(start)]
        plain = [start for start in able if start not in self.reserving]
        for start in plain[:free]:
            self.waiting.remove(start)
            self.begun_at[start] = now_s
            self.ends.append(now_s + 1.0)
        seen = begun(
            len(plain[:free]),
            saturated=len(read) == look.starts,
            short=len(plain) > free,
            short_reserving=len(able) > len(plain),
            last_key=read[-1] if read else None,
        )
        self.planner.learn(now_s, seen, look=look, free=4 - len(self.ends))


def test_a_start_in_front_of_a_backlog_begins_soon_after_it_can() -> None:
    can_begin: set[int] = set()
    it = World(3 * DUE_MAX, possible=lambda start: start >= DUE_MAX or start in can_begin)
    it.live(0, 5)
    assert len(it.begun_at) >= 4, "those behind what can't begin do"

    can_begin.add(DUE_MAX // 2)
    it.live(5, 15)

    assert it.begun_at[DUE_MAX // 2] <= 5 + 5 * WHOLE_S
    assert len(it.begun_at) >= 30, "and these go on"


def test_a_start_that_waits_for_what_it_reserves_hides_none_behind_it() -> None:
    it = World(DUE_MAX + 1, possible=lambda start: start in (0, DUE_MAX), reserving=frozenset({0}))

    it.live(0, 5)

    assert list(it.begun_at) == [DUE_MAX]
