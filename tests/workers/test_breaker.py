"""A failing endpoint gets one delivery at a time as a probe. After its recovery the limit grows slowly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.webhooks.answer_classification import Answer, Delivered, EndpointGone, FaultSide, RetryDelivery
from shardclock_server.workers.breaker import Breaker, BreakerSettings

OK: Answer = Delivered(200, 0.1)
BROKEN: Answer = RetryDelivery("answered 500", 0.1, status=500)
SILENT: Answer = RetryDelivery("timed out", 15.0)
BUSY: Answer = RetryDelivery("answered 503", 0.1, status=503)
REFUSED: Answer = RetryDelivery("answered 422", 0.1, status=422, fault=FaultSide.DELIVERY)
OURS: Answer = RetryDelivery("no socket left", 0.1, fault=FaultSide.SENDER)
SETTINGS = BreakerSettings(
    concurrency=8, at_first=8, failures_max=3, pause_s=10, pause_max_s=60, successes=2, window_min=10
)


def _breaker(settings: BreakerSettings = SETTINGS, *, latest: bool = True) -> Breaker:
    return Breaker(settings, jitter=lambda low, high: high if latest else low)


def _is_open(breaker: Breaker) -> bool:
    return breaker.is_open  # a function reads the value, because mypy doesn't expect the value to change


def _each(breaker: Breaker, *answers: Answer, now_s: float = 0.0) -> None:
    for answer in answers:
        breaker.end(breaker.begin(now_s), answer, now_s)


def test_the_breaker_has_its_full_limit_at_first_and_again_after_the_attempts() -> None:
    breaker = _breaker()
    terms = [breaker.begin(0.0) for _ in range(8)]
    assert breaker.places(0.0) == 0
    breaker.end(terms[0], OK, 0.0)
    breaker.end(terms[1], None, 0.0)
    assert breaker.places(0.0) == 2


def test_a_new_endpoint_has_a_low_limit_and_one_more_for_each_success() -> None:
    breaker = _breaker(BreakerSettings(concurrency=8, at_first=3))
    places = []
    for _ in range(8):
        places.append(breaker.places(0.0))
        _each(breaker, OK)
    assert places == [3, 4, 5, 6, 7, 8, 8, 8]
    assert _breaker(BreakerSettings(concurrency=2, at_first=3)).places(0.0) == 2


@pytest.mark.parametrize(
    "failure", [BROKEN, SILENT, EndpointGone("answered 410", 0.1), RetryDelivery("answered 404", 0.1, status=404)]
)
def test_the_breaker_opens_after_several_failures_in_a_row(failure: Answer) -> None:
    breaker = _breaker()
    _each(breaker, failure, failure, OK, failure, failure)
    assert not _is_open(breaker)
    _each(breaker, failure)
    assert _is_open(breaker)
    assert (breaker.places(9.9), breaker.next_at_s(0.0)) == (0, 10.0)


def test_the_breaker_does_not_open_because_of_a_faulty_delivery() -> None:
    breaker = _breaker()
    _each(breaker, *[REFUSED] * 50)
    assert breaker.places(0.0) == 8


def test_after_a_fault_of_the_sender_the_breaker_does_not_open_and_the_attempts_pause() -> None:
    breaker = _breaker()
    _each(breaker, *[OURS] * 8)
    assert (_is_open(breaker), breaker.places(0.0), breaker.next_at_s(0.0)) == (False, 0, 5.0)
    assert breaker.places(5.0) == 8


def test_the_breaker_opens_when_most_attempts_of_a_window_fail() -> None:
    breaker = _breaker()
    _each(breaker, *[BROKEN, OK] * 4, OK)
    assert not _is_open(breaker)
    _each(breaker, BROKEN)
    assert _is_open(breaker)


def test_the_breaker_ignores_failures_of_an_older_window() -> None:
    breaker = _breaker()
    _each(breaker, *[BROKEN, OK] * 4, OK)
    _each(breaker, BROKEN, now_s=60.0)
    assert not _is_open(breaker)


def test_after_the_pause_the_breaker_permits_one_delivery_at_a_time_as_a_probe() -> None:
    breaker = _breaker()
    _each(breaker, BROKEN, BROKEN, BROKEN)
    assert breaker.places(10.0) == 1
    term = breaker.begin(10.0)
    assert breaker.places(10.0) == 0
    breaker.end(term, None, 10.0)
    assert breaker.places(10.0) == 1


def test_the_breaker_stays_open_longer_after_each_failed_probe_up_to_a_bound() -> None:
    breaker, now_s, pauses_s = _breaker(), 0.0, []
    _each(breaker, BROKEN, BROKEN, BROKEN)
    for _ in range(40):
        pauses_s.append(breaker.next_at_s(now_s) - now_s)
        now_s = breaker.next_at_s(now_s)
        _each(breaker, BROKEN, now_s=now_s)
    assert pauses_s == [10, 20, 40, *[60] * 37]


def test_a_pause_is_at_least_half_as_long() -> None:
    breaker = _breaker(latest=False)
    _each(breaker, BROKEN, BROKEN, BROKEN)
    assert breaker.next_at_s(0.0) == 5.0


def test_the_breaker_closes_after_successes_and_then_the_limit_grows_from_one() -> None:
    breaker = _breaker()
    _each(breaker, BROKEN, BROKEN, BROKEN)
    _each(breaker, OK, now_s=10.0)
    assert breaker.places(10.0) == 1
    assert _is_open(breaker)
    _each(breaker, OK, now_s=10.0)
    assert not _is_open(breaker)
    places = []
    for _ in range(9):
        places.append(breaker.places(10.0))
        _each(breaker, OK, now_s=10.0)
    assert places == [1, 2, 3, 4, 5, 6, 7, 8, 8]


def test_after_the_breaker_has_closed_the_next_pause_is_short_again() -> None:
    breaker = _breaker()
    _each(breaker, BROKEN, BROKEN, BROKEN)
    _each(breaker, BROKEN, now_s=10.0)
    _each(breaker, OK, OK, now_s=30.0)
    _each(breaker, BROKEN, BROKEN, BROKEN, now_s=30.0)
    assert breaker.next_at_s(30.0) == 40.0


def test_late_answers_to_attempts_from_before_the_breaker_opened_are_ignored() -> None:
    breaker = _breaker()
    terms = [breaker.begin(0.0) for _ in range(8)]
    for term in terms[:3]:
        breaker.end(term, BROKEN, 0.0)
    for term, answer in zip(terms[3:], [BROKEN, BROKEN, OK, OK, OK], strict=True):
        breaker.end(term, answer, 1.0)
    assert _is_open(breaker)
    assert (breaker.next_at_s(1.0), breaker.in_flight, breaker.places(10.0)) == (10.0, 0, 1)


def test_the_limit_of_an_overloaded_endpoint_is_halved_at_most_once_per_second() -> None:
    breaker = _breaker(BreakerSettings(concurrency=8, at_first=8, failures_max=100))
    _each(breaker, BUSY, BUSY, BUSY, now_s=5.0)
    assert breaker.places(5.0) == 4
    _each(breaker, BUSY, now_s=6.0)
    assert breaker.places(6.0) == 2
    _each(breaker, *[BUSY] * 3, now_s=7.0)
    _each(breaker, *[BUSY] * 3, now_s=8.0)
    assert breaker.places(8.0) == 1
    _each(breaker, OK, now_s=8.0)
    assert breaker.places(8.0) == 2


def test_a_success_does_not_end_a_pause_that_the_endpoint_has_requested() -> None:
    breaker = _breaker()
    earlier = breaker.begin(0.0)
    _each(breaker, RetryDelivery("answered 429", 0.1, status=429, after_s=30.0, hold_s=30.0))
    _each(breaker, RetryDelivery("answered 429", 0.1, status=429, after_s=5.0, hold_s=5.0), now_s=1.0)
    breaker.end(earlier, OK, 1.0)
    assert (breaker.places(29.9), breaker.next_at_s(1.0)) == (0, 30.0)
    assert breaker.places(30.0) > 0


def test_the_breaker_permits_no_more_attempts_per_second_than_the_rate() -> None:
    breaker = _breaker(BreakerSettings(concurrency=100, at_first=100, per_s=5.0))
    assert breaker.places(0.0) == 5
    _each(breaker, *[OK] * 5)
    assert breaker.next_at_s(0.0) == pytest.approx(0.2)
    assert (breaker.places(0.0), breaker.places(0.2), breaker.places(9.0)) == (0, 1, 5)


def test_a_slow_rate_allows_one_at_first() -> None:
    assert _breaker(BreakerSettings(per_s=0.1)).places(0.0) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from([OK, BROKEN, SILENT, BUSY, REFUSED, OURS, None]), st.floats(0, 20), st.integers(0, 9)
        ),
        max_size=200,
    )
)
def test_the_breaker_recovers_with_the_endpoint_after_any_history(
    events: list[tuple[Answer | None, float, int]],
) -> None:
    # Given any history of events, and answers that arrive in any order
    breaker, now_s, terms = _breaker(), 0.0, [0]
    terms.clear()
    for answer, pause_s, which in events:
        now_s += pause_s
        before = breaker.places(now_s)
        assert 0 <= before <= 8
        if _is_open(breaker):
            assert before <= 1
        if before:
            terms.append(breaker.begin(now_s))
        if terms and which < len(terms):
            breaker.end(terms.pop(which), answer, now_s)
    for term in terms:
        breaker.end(term, SILENT, now_s)
    assert breaker.in_flight == 0
    # When the endpoint accepts all webhooks
    for _ in range(2 + 8):
        now_s = breaker.next_at_s(now_s)
        assert breaker.places(now_s) >= 1
        _each(breaker, OK, now_s=now_s)
    # Then the endpoint may again have as many webhooks in flight as before
    assert breaker.places(now_s) == 8
