"""The moments to which a test's clock moves, and the limit of rounds at one moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from shardclock_server.cluster.testing.moments import (
    ROUNDS_MAX,
    STUCK_ROUNDS_MAX,
    EndlessMoment,
    Moment,
    StuckTimer,
    target_of,
)
from shardclock_server.sql.clock.moved import NextDue
from shardclock_server.timers.refusal import InvalidTimer

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def due(timer_key: int, claims: int = 0) -> NextDue:
    return NextDue(NOW, timer_key, "order-42", "order.expired", claims)


@pytest.mark.parametrize(
    ("by", "to", "target"),
    [
        ("PT15M", None, NOW + timedelta(minutes=15)),
        ("P1M", None, datetime(2026, 2, 28, 12, tzinfo=UTC)),
        (timedelta(days=3), None, NOW + timedelta(days=3)),
        ("PT0S", None, NOW),
        (timedelta(), None, NOW),
        (None, datetime(2026, 2, 1, 1, tzinfo=timezone(timedelta(hours=1))), datetime(2026, 2, 1, tzinfo=UTC)),
    ],
)
def test_the_clock_advances_by_a_length_or_to_a_moment(
    by: str | timedelta | None, to: datetime | None, target: datetime
) -> None:
    assert target_of(NOW, by, to) == target


@pytest.mark.parametrize(
    ("by", "to", "sentence"),
    [
        (None, None, "give exactly one of them"),
        ("PT1S", NOW, "give exactly one of them"),
        (
            timedelta(seconds=-1),
            None,
            "2026-01-31T11:59:59.* is before 2026-01-31T12:00:00.*: the clock can't move backwards",
        ),
        (None, NOW - timedelta(days=1), "the clock can't move backwards"),
        (None, datetime(2026, 2, 1), "2026-02-01T00:00:00 has no time zone"),  # noqa: DTZ001 - the call refuses it
    ],
)
def test_an_invalid_target_of_the_clock_is_refused(
    by: str | timedelta | None, to: datetime | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        target_of(NOW, by, to)


def test_a_length_that_can_t_be_read_is_refused() -> None:
    with pytest.raises(InvalidTimer, match="'3 days' is not an ISO 8601 duration"):
        target_of(NOW, "3 days", None)


@pytest.mark.parametrize(
    ("by", "to", "said"),
    [
        (5, None, "5 is of the type int: give a text such as 'P3D', or a timedelta"),
        (None, "2026-03-27", "'2026-03-27' is of the type str: give a datetime that has a time zone"),
    ],
)
def test_a_value_of_another_type_is_refused(by: Any, to: Any, said: str) -> None:
    with pytest.raises(TypeError, match=rf"^{said}$"):
        target_of(NOW, by, to)


def test_rounds_that_find_new_work_continue_without_a_pause_up_to_a_limit_of_rounds() -> None:
    moment = Moment(NOW)
    assert {moment.begin_round(due(key)) for key in range(ROUNDS_MAX)} == {0.0}

    with pytest.raises(EndlessMoment) as refusal:
        moment.begin_round(due(7_777))

    assert str(refusal.value) == (
        '2026-01-31T12:00:00+00:00 does not end: after 1,000 rounds of firings timer 7777 "order-42" (target'
        " order.expired) is due at the same moment; schedule it again with a delay, or cancel it"
    )


def test_a_timer_that_can_t_be_taken_is_retried_for_a_while_and_then_named() -> None:
    moment = Moment(NOW)
    assert moment.begin_round(due(7, claims=2)) == 0.0
    assert all(moment.begin_round(due(7, claims=2)) > 0 for _ in range(STUCK_ROUNDS_MAX - 1))

    with pytest.raises(StuckTimer, match=r'the delivery of timer 7 "order-42" .* is due .* has locked it'):
        moment.begin_round(due(7, claims=2))


def test_another_attempt_of_the_same_delivery_counts_as_new_work() -> None:
    moment = Moment(NOW)

    assert [moment.begin_round(due(7, claims)) for claims in (1, 2, 3)] == [0.0, 0.0, 0.0]
