"""The planner polls when a run may start, not while all starts are blocked, and limits the starts per poll."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shardclock_server.sql.jobs.runs import DUE_MAX, Begun, StartCursor, StartPage
from shardclock_server.workers.runs.poll_planner import FULL_POLL_S, PART, SHORT_S, PollPlanner
from tests.support.handlers import NOON
from tests.support.runs import begun_run

POLL_S = 0.125
ALL_FREE, NONE_FREE = (4, 4), (0, 4)


def begun(runs: int = 0, **facts: Any) -> Begun:
    values: dict[str, Any] = {
        "dropped": 0,
        "replaced": 0,
        "saturated": False,
        "short": False,
        "short_reserving": False,
        "queued": False,
    }
    values |= {"last_at": NOON, "last_key": 7}
    return Begun(server_time=NOON, runs=[begun_run()] * runs, **(values | facts))


def planner(seen: Begun, *, free: int = 4) -> PollPlanner:
    """Return a planner that has completed a full poll at time 0."""
    it = PollPlanner(POLL_S, 4)
    it.record(0.0, seen, poll=it.begin(0.0, free=ALL_FREE), free=free)
    return it


def poll(it: PollPlanner, now_s: float) -> StartPage:
    return it.begin(now_s, free=ALL_FREE)


def test_the_first_poll_is_immediate_and_reads_all_starts() -> None:
    it = PollPlanner(POLL_S, 4)

    assert it.wait_s(7.0, free=ALL_FREE) == 0.0
    assert it.begin(7.0, free=ALL_FREE).starts == DUE_MAX


def test_the_next_poll_is_after_the_interval_and_reads_a_part() -> None:
    it = planner(begun(1))

    assert it.wait_s(0.02, free=ALL_FREE, has_ended=True) == POLL_S - 0.02
    assert it.wait_s(POLL_S, free=ALL_FREE) == 0.0
    assert [it.begin(POLL_S, free=ALL_FREE).starts, it.begin(FULL_POLL_S, free=ALL_FREE).starts] == [PART, DUE_MAX]


def test_a_full_poll_without_result_is_followed_by_one_after_its_last_start() -> None:
    it = planner(begun(saturated=True))
    assert poll(it, FULL_POLL_S) == StartPage(DUE_MAX, StartCursor(NOON, 7))

    # After the last start, and after a poll with a result, the planner continues with the first start
    it.record(FULL_POLL_S, begun(), poll=StartPage(DUE_MAX, StartCursor(NOON, 7)), free=4)
    assert poll(it, FULL_POLL_S) == StartPage(PART)
    assert poll(it, 2 * FULL_POLL_S) == StartPage(DUE_MAX)
    it.record(2 * FULL_POLL_S, begun(saturated=True), poll=StartPage(DUE_MAX), free=4)
    it.record(3 * FULL_POLL_S, begun(1, saturated=True, last_key=9), poll=poll(it, 3 * FULL_POLL_S), free=4)
    assert poll(it, 4 * FULL_POLL_S) == StartPage(DUE_MAX)


def test_a_request_leads_to_one_poll_at_once() -> None:
    it = planner(begun())
    it.request()
    assert it.wait_s(0.125, free=ALL_FREE) == 0.0

    read = it.begin(0.125, free=ALL_FREE)
    it.record(0.25, begun(), poll=read, free=4)
    assert it.wait_s(0.25, free=ALL_FREE) == POLL_S

    it.begin(0.375, free=ALL_FREE)
    it.request()  # the running poll may miss the requested start
    it.record(0.5, begun(), poll=read, free=4)
    assert it.wait_s(0.5, free=ALL_FREE) == 0.0


def test_a_notification_during_a_poll_leads_to_another_poll() -> None:
    it = planner(begun(1))
    under_way = poll(it, 0.01)
    assert it.notify(0.012) is None

    it.record(0.015, begun(1), poll=under_way, free=4)

    assert it.wait_s(0.015, free=ALL_FREE) == 0.0
    it.record(0.03125, begun(1), poll=poll(it, 0.016), free=4)
    assert it.wait_s(0.03125, free=ALL_FREE) == POLL_S


def test_if_slots_are_scarce_notifications_are_ignored_and_free_slots_are_filled_together() -> None:
    it = planner(begun(4, short=True), free=0)
    it.request()

    assert it.wait_s(0.005, free=NONE_FREE) == POLL_S - 0.005
    assert it.wait_s(0.005, free=(1, 4)) == SHORT_S - 0.005
    assert it.wait_s(0.005, free=(2, 4)) == 0.0
    assert it.wait_s(0.005, free=(2, 4), ahead=4) == SHORT_S - 0.005, "half of those that are ahead, too"
    assert it.wait_s(0.005, free=(4, 4), ahead=4) == 0.0


def test_plain_starts_do_not_wait_for_starts_that_reserve_resources() -> None:
    it = planner(begun(4, short_reserving=True), free=4)
    assert it.wait_s(0.005, free=(4, 0)) == POLL_S - 0.005

    it.request()

    assert it.wait_s(0.005, free=(4, 0)) == 0.0


def test_a_start_that_waits_for_its_job_s_run_is_polled_after_the_end_of_a_run() -> None:
    it = planner(begun(1, queued=True))

    assert it.wait_s(0.005, free=ALL_FREE) == POLL_S - 0.005
    assert it.wait_s(0.005, free=ALL_FREE, has_ended=True) == 0.0


def test_after_a_partial_poll_that_leaves_slots_free_a_full_poll_follows() -> None:
    it = planner(begun())
    it.record(0.5, begun(saturated=True), poll=it.begin(0.4, free=ALL_FREE), free=1)

    assert it.wait_s(0.5, free=(1, 4)) == 0.0
    assert it.begin(0.5, free=ALL_FREE).starts == DUE_MAX

    it.record(0.625, begun(saturated=True), poll=StartPage(DUE_MAX), free=1)
    assert it.wait_s(0.625, free=(1, 4)) == POLL_S, "there is nothing that could begin"


def test_after_a_partial_poll_that_fills_the_slots_no_full_poll_follows() -> None:
    it = planner(begun())
    it.record(0.5, begun(4, saturated=True, short=True), poll=it.begin(0.4, free=ALL_FREE), free=0)

    assert it.wait_s(0.5, free=NONE_FREE) == POLL_S
    assert it.begin(0.6, free=ALL_FREE).starts == PART

    it.record(0.625, begun(4, saturated=True, short=True), poll=StartPage(PART), free=1)
    assert it.wait_s(0.625, free=(1, 4)) == pytest.approx(SHORT_S), "the place became free while it looked"
    assert it.begin(0.645, free=ALL_FREE).starts == PART


def test_polls_without_a_free_slot_do_not_delay_the_full_poll() -> None:
    it = planner(begun(4, saturated=True, short=True), free=0)
    for now_s in (0.5, 1.0, 1.5):
        read = it.begin(now_s, free=NONE_FREE)
        it.record(now_s, begun(saturated=True, short=True), poll=read, free=0)

    assert it.begin(1.625, free=NONE_FREE).starts == PART
    assert it.begin(1.625, free=(1, 4)).starts == DUE_MAX


def test_polls_for_plain_starts_do_not_delay_the_full_poll_for_reserving_starts() -> None:
    it = planner(begun())
    read = it.begin(FULL_POLL_S, free=(4, 0))
    it.record(FULL_POLL_S, begun(saturated=True, short_reserving=True), poll=read, free=4)
    assert read.starts == DUE_MAX

    assert it.begin(FULL_POLL_S + POLL_S, free=(4, 0)).starts == PART
    assert it.begin(FULL_POLL_S + POLL_S, free=(4, 1)).starts == DUE_MAX


def test_notifications_lead_to_no_extra_polls_behind_a_large_backlog() -> None:
    it, polls = planner(begun()), 0
    ask_at_s = None
    for now_s in (number / 128 for number in range(128)):
        if (wait_s := it.notify(now_s)) is not None:
            ask_at_s = now_s + wait_s
        if ask_at_s is not None and now_s >= ask_at_s:
            ask_at_s = None
            it.request()
        while not it.wait_s(now_s, free=ALL_FREE):
            polls += 1
            it.record(now_s, begun(saturated=True), poll=it.begin(now_s, free=ALL_FREE), free=4)

    assert polls <= 2 * (1 / POLL_S + 6)


class SimulatedWorker:
    """Due starts in their order, and a worker that polls by a planner and has runs that take a second."""

    def __init__(
        self, starts: int, *, possible: Callable[[int], bool], reserving: frozenset[int] = frozenset()
    ) -> None:
        self.waiting = list(range(starts))
        self.possible, self.reserving = possible, reserving
        self.ends: list[float] = []
        self.begun_at: dict[int, float] = {}
        self.planner = PollPlanner(POLL_S, 4)

    def live(self, from_s: int, until_s: int) -> None:
        for now_s in (tick / 64 for tick in range(64 * from_s, 64 * until_s)):
            has_ended = any(end <= now_s for end in self.ends)
            self.ends = [end for end in self.ends if end > now_s]
            while not self.planner.wait_s(now_s, free=(4 - len(self.ends), 0), has_ended=has_ended):
                has_ended = False
                self._poll(now_s)

    def _poll(self, now_s: float) -> None:
        free = 4 - len(self.ends)
        poll = self.planner.begin(now_s, free=(free, 0))
        behind = -1 if poll.after is None else poll.after.timer_key
        read = [start for start in self.waiting if start > behind][: poll.starts]
        able = [start for start in read if self.possible(start)]
        plain = [start for start in able if start not in self.reserving]
        for start in plain[:free]:
            self.waiting.remove(start)
            self.begun_at[start] = now_s
            self.ends.append(now_s + 1.0)
        seen = begun(
            len(plain[:free]),
            saturated=len(read) == poll.starts,
            short=len(plain) > free,
            short_reserving=len(able) > len(plain),
            last_key=read[-1] if read else None,
        )
        self.planner.record(now_s, seen, poll=poll, free=4 - len(self.ends))


def test_a_start_before_a_blocked_backlog_begins_soon() -> None:
    can_begin: set[int] = set()
    it = SimulatedWorker(3 * DUE_MAX, possible=lambda start: start >= DUE_MAX or start in can_begin)
    it.live(0, 5)
    assert len(it.begun_at) >= 4, "starts after the blocked starts begin"

    can_begin.add(DUE_MAX // 2)
    it.live(5, 15)

    assert it.begun_at[DUE_MAX // 2] <= 5 + 5 * FULL_POLL_S
    assert len(it.begun_at) >= 30, "and these continue"


def test_a_start_that_waits_for_resources_hides_no_later_start() -> None:
    it = SimulatedWorker(DUE_MAX + 1, possible=lambda start: start in (0, DUE_MAX), reserving=frozenset({0}))

    it.live(0, 5)

    assert list(it.begun_at) == [DUE_MAX]
