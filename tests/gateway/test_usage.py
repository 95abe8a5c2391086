"""Test that the gateway adds each new timer to a tenant's usage until a query of the database includes the timer."""

from __future__ import annotations

import random

import pytest

from shardclock_server.gateway.limits.usage import NOTHING, TenantUsage
from shardclock_server.sql.tenant_limits.tenant_limits import Limits, Pending

ONE = Pending(1, 10)


def usage_of(limits: Limits, counted: Pending = NOTHING, *, at_s: float = 100.0) -> TenantUsage:
    """Make the usage of a tenant after a count; the next count is due a second later."""
    usage = TenantUsage("acme")
    usage.begin_count()
    usage.end_count(limits, counted, at_s, next_s=at_s + 1.0)
    return usage


def let_in(usage: TenantUsage, most: int = 1_000) -> int:
    """Reserve quota for one timer after the other, without ending a write; return the number of reserved timers."""
    for number in range(most):
        if usage.exceeded_by(ONE) is not None:
            return number
        usage.reserve(ONE)
    return most


def test_timers_are_accepted_up_to_the_limit() -> None:
    assert let_in(usage_of(Limits(timers_max=7), Pending(3, 30))) == 4
    assert let_in(usage_of(Limits(payload_bytes_max=79), Pending(3, 30))) == 4
    assert let_in(usage_of(Limits(timers_max=7, payload_bytes_max=50), Pending(3, 30))) == 2
    assert let_in(usage_of(Limits(timers_max=0))) == 0
    assert let_in(usage_of(Limits(), Pending(3, 30))) == 1_000


def test_an_exceeded_quota_is_named_with_its_limit() -> None:
    assert usage_of(Limits(timers_max=3), Pending(3, 0)).exceeded_by(ONE) == ("timers", 3)
    assert usage_of(Limits(payload_bytes_max=9)).exceeded_by(ONE) == ("payload_bytes", 9)


def test_a_timer_without_a_payload_needs_no_bytes() -> None:
    usage = usage_of(Limits(payload_bytes_max=10), Pending(3, 50))

    assert usage.exceeded_by(ONE) == ("payload_bytes", 10)
    assert usage.exceeded_by(Pending(1, 0)) is None


def test_a_timer_that_was_not_written_returns_its_quota() -> None:
    usage = usage_of(Limits(timers_max=1))
    usage.reserve(ONE)
    assert usage.exceeded_by(ONE) == ("timers", 1)

    usage.settle(ONE, NOTHING)

    assert usage.exceeded_by(ONE) is None
    assert (usage.used("timers"), usage.used("payload_bytes")) == (0, 0)


def test_writes_during_a_count_are_added_until_the_next_count_ends() -> None:
    usage = usage_of(Limits(timers_max=10))
    for _ in range(3):
        usage.reserve(ONE)
    usage.settle(ONE, ONE)  # the write came before the count, so the count includes the timer
    usage.begin_count()
    usage.settle(ONE, ONE)  # the write came during the count, so the count may include the timer or not
    usage.end_count(usage.limits, Pending(1, 10), 101.0, next_s=102.0)

    assert usage.used("timers") == 1 + 1 + 1, "counted, written meanwhile, and still being written"
    usage.begin_count()
    usage.end_count(usage.limits, Pending(2, 20), 102.0, next_s=103.0)
    assert usage.used("timers") == 2 + 1


def test_a_count_that_times_out_updates_the_limits_and_keeps_the_last_usage() -> None:
    usage = usage_of(Limits(timers_max=10), Pending(3, 30))
    usage.reserve(ONE)
    usage.settle(ONE, ONE)
    usage.begin_count()
    usage.end_count(Limits(timers_max=4), None, 101.0, next_s=102.0)

    assert usage.used("timers") == 4
    assert usage.exceeded_by(ONE) == ("timers", 4)


def test_a_failed_count_changes_no_usage() -> None:
    usage = usage_of(Limits(timers_max=10))
    usage.reserve(ONE)
    usage.settle(ONE, ONE)
    usage.begin_count()
    usage.postpone_count(105.0)

    assert usage.used("timers") == 1
    assert not usage.is_due(104.9)
    assert usage.is_due(105.0)
    assert usage.retry_after_s(102.5) == 3
    assert usage.retry_after_s(106.0) == 1


STEPS = ("take", "commit", "refuse", "settle", "begin", "count", "end", "fire")


@pytest.mark.parametrize("limit", range(4))
@pytest.mark.parametrize("seed", range(5))
def test_one_gateway_never_exceeds_a_quota_in_any_order_of_counts_and_writes(seed: int, limit: int) -> None:
    """Simulate a table with one writing gateway. Postgres commits a create before the gateway gets the answer."""
    usage = usage_of(Limits(timers_max=limit))
    stored, writing, committed = 0, 0, 0
    looking, counted = False, 0
    for step in random.Random(seed).choices(STEPS, k=2_000):
        if step == "take" and usage.exceeded_by(ONE) is None:
            usage.reserve(ONE)
            writing += 1
        elif step == "commit" and writing:
            stored, writing, committed = stored + 1, writing - 1, committed + 1
        elif step == "refuse" and writing:
            writing -= 1
            usage.settle(ONE, NOTHING)
        elif step == "settle" and committed:
            committed -= 1
            usage.settle(ONE, ONE)
        elif step == "begin" and not looking:
            looking, counted = True, stored
            usage.begin_count()
        elif step == "count" and looking:
            counted = stored
        elif step == "end" and looking:
            looking = False
            usage.end_count(usage.limits, Pending(counted, 10 * counted), 101.0, next_s=102.0)
        elif step == "fire" and stored:
            stored -= 1
        assert stored <= limit
