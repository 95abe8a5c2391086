"""A notification causes an immediate poll; after polls without result the delay grows up to the poll interval."""

from __future__ import annotations

from itertools import pairwise

from shardclock_server.workers.runs.notification_throttle import GAP_S, NotificationThrottle

POLL_S = 0.1


def polls_of_a_second(throttle: NotificationThrottle, *, found: bool) -> list[float]:
    """Send a notification each millisecond; return the times of the polls."""
    polls: list[float] = []
    due_s: float | None = None
    for now_s in (number / 1_000 for number in range(1_000)):
        if (wait_s := throttle.notify(now_s)) is not None:
            due_s = now_s + wait_s
        if due_s is not None and now_s >= due_s:
            polls.append(now_s)
            throttle.begin()
            throttle.record(found=found, now_s=now_s)
            due_s = None
    return polls


def test_a_notification_leads_to_a_poll_at_once() -> None:
    assert NotificationThrottle(POLL_S).notify(7.0) == 0.0
    assert len(polls_of_a_second(NotificationThrottle(POLL_S), found=True)) == 1_000


def test_notifications_without_result_lead_to_no_more_polls_than_the_interval() -> None:
    polls = polls_of_a_second(NotificationThrottle(POLL_S), found=False)

    assert len(polls) <= 1 / POLL_S + 6
    assert max(later - before for before, later in pairwise(polls)) <= POLL_S + 0.002


def test_many_notifications_lead_to_one_poll_and_a_result_ends_the_delay() -> None:
    throttle = NotificationThrottle(POLL_S)
    assert [throttle.notify(0.0), throttle.notify(0.0)] == [0.0, None]
    throttle.begin()
    throttle.record(found=False, now_s=0.0)
    assert throttle.notify(0.0) == GAP_S
    throttle.begin()
    throttle.record(found=True, now_s=0.001)
    assert throttle.notify(0.001) == 0.0


def test_a_notification_during_a_poll_causes_another_poll() -> None:
    throttle = NotificationThrottle(POLL_S)
    throttle.begin()
    assert throttle.notify(0.01) is None
    assert throttle.record(found=True, now_s=0.02) == 0.02
    assert throttle.notify(0.02) is None  # the poll has not happened yet
    throttle.begin()
    assert throttle.record(found=False, now_s=0.03) is None


def test_polls_without_notifications_shorten_the_delay_again() -> None:
    throttle = NotificationThrottle(POLL_S)
    polls_of_a_second(throttle, found=False)

    for number in range(10):
        throttle.begin()
        throttle.record(found=False, now_s=2.0 + number)

    assert throttle.notify(11.001) == 0.0
