"""Prove that what a gateway lets in counts until a look has it in its count, whenever it was written."""

from __future__ import annotations

import random

import pytest

from shardclock_server.gateway.limits.standing import NOTHING, Standing
from shardclock_server.sql.tenants.tenants import Limits, Pending

ONE = Pending(1, 10)


def standing_of(limits: Limits, counted: Pending = NOTHING, *, at_s: float = 100.0) -> Standing:
    """Make the standing of a tenant that was looked at; the next look is a second later."""
    standing = Standing("acme")
    standing.begin()
    standing.end(limits, counted, at_s, next_s=at_s + 1.0)
    return standing


def let_in(standing: Standing, most: int = 1_000) -> int:
    """Take room for one timer after the other, all of them still being written; say for how many there was."""
    for number in range(most):
        if standing.exceeded_by(ONE) is not None:
            return number
        standing.take(ONE)
    return most


def test_there_is_room_up_to_the_limit_and_none_beyond() -> None:
    assert let_in(standing_of(Limits(timers_max=7), Pending(3, 30))) == 4
    assert let_in(standing_of(Limits(payload_bytes_max=79), Pending(3, 30))) == 4
    assert let_in(standing_of(Limits(timers_max=7, payload_bytes_max=50), Pending(3, 30))) == 2
    assert let_in(standing_of(Limits(timers_max=0))) == 0
    assert let_in(standing_of(Limits(), Pending(3, 30))) == 1_000


def test_the_quota_that_has_no_room_is_named_with_its_limit() -> None:
    assert standing_of(Limits(timers_max=3), Pending(3, 0)).exceeded_by(ONE) == ("timers", 3)
    assert standing_of(Limits(payload_bytes_max=9)).exceeded_by(ONE) == ("payload_bytes", 9)


def test_a_timer_without_a_payload_needs_no_bytes() -> None:
    standing = standing_of(Limits(payload_bytes_max=10), Pending(3, 50))

    assert standing.exceeded_by(ONE) == ("payload_bytes", 10)
    assert standing.exceeded_by(Pending(1, 0)) is None


def test_what_was_not_written_gives_its_room_back() -> None:
    standing = standing_of(Limits(timers_max=1))
    standing.take(ONE)
    assert standing.exceeded_by(ONE) == ("timers", 1)

    standing.settle(ONE, NOTHING)

    assert standing.exceeded_by(ONE) is None
    assert (standing.has("timers"), standing.has("payload_bytes")) == (0, 0)


def test_what_is_written_while_a_look_is_under_way_counts_until_the_next_look_ends() -> None:
    standing = standing_of(Limits(timers_max=10))
    for _ in range(3):
        standing.take(ONE)
    standing.settle(ONE, ONE)  # before the look, so the look counts it
    standing.begin()
    standing.settle(ONE, ONE)  # meanwhile: the look may count it or not
    standing.end(standing.limits, Pending(1, 10), 101.0, next_s=102.0)

    assert standing.has("timers") == 1 + 1 + 1, "counted, written meanwhile, and still being written"
    standing.begin()
    standing.end(standing.limits, Pending(2, 20), 102.0, next_s=103.0)
    assert standing.has("timers") == 2 + 1


def test_a_look_without_a_count_takes_the_limits_and_keeps_the_last_count() -> None:
    standing = standing_of(Limits(timers_max=10), Pending(3, 30))
    standing.take(ONE)
    standing.settle(ONE, ONE)
    standing.begin()
    standing.end(Limits(timers_max=4), None, 101.0, next_s=102.0)

    assert standing.has("timers") == 4
    assert standing.exceeded_by(ONE) == ("timers", 4)


def test_a_look_that_fails_forgets_nothing() -> None:
    standing = standing_of(Limits(timers_max=10))
    standing.take(ONE)
    standing.settle(ONE, ONE)
    standing.begin()
    standing.begin_again_at(105.0)

    assert standing.has("timers") == 1
    assert not standing.is_due(104.9)
    assert standing.is_due(105.0)
    assert standing.again_in_s(102.5) == 3
    assert standing.again_in_s(106.0) == 1


STEPS = ("take", "commit", "refuse", "settle", "begin", "count", "end", "fire")


@pytest.mark.parametrize("limit", range(4))
@pytest.mark.parametrize("seed", range(5))
def test_one_gateway_alone_never_lets_in_too_much_however_looks_and_writes_interleave(seed: int, limit: int) -> None:
    """Play a table that only this gateway writes; a create is committed before the gateway hears of it."""
    standing = standing_of(Limits(timers_max=limit))
    stored, writing, committed = 0, 0, 0
    looking, counted = False, 0
    for step in random.Random(seed).choices(STEPS, k=2_000):
        if step == "take" and standing.exceeded_by(ONE) is None:
            standing.take(ONE)
            writing += 1
        elif step == "commit" and writing:
            stored, writing, committed = stored + 1, writing - 1, committed + 1
        elif step == "refuse" and writing:
            writing -= 1
            standing.settle(ONE, NOTHING)
        elif step == "settle" and committed:
            committed -= 1
            standing.settle(ONE, ONE)
        elif step == "begin" and not looking:
            looking, counted = True, stored
            standing.begin()
        elif step == "count" and looking:
            counted = stored
        elif step == "end" and looking:
            looking = False
            standing.end(standing.limits, Pending(counted, 10 * counted), 101.0, next_s=102.0)
        elif step == "fire" and stored:
            stored -= 1
        assert stored <= limit
