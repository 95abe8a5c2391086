"""Claims continue in known lanes where the last claim ended, and searches find new lanes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shardclock_server.sql.deliveries.claim import (
    BEGINNING,
    ClaimedDelivery,
    DeliveryScan,
    DeliveryScanResult,
    Lane,
    Position,
)
from shardclock_server.workers.delivery_planner import (
    BUSY_PAUSE_S,
    FIRINGS_KEPT_S,
    FIRINGS_LONGER,
    IDLE_POLLS,
    LANES_MAX,
    MARGIN_MAX_S,
    MARGIN_S,
    READING_MAX_S,
    SEARCH_GAP_S,
    SEARCH_SHARE,
    DeliveryPlanner,
    SlowestFiring,
)
from tests.support.handlers import NOON, delivery

ORDERS, CARTS = Lane("order.expired", "default"), Lane("cart.left", "default")
SCAN = DeliveryScan(["order.expired", "cart.left"], 1_000)


def taken(*claimed: ClaimedDelivery, saturated: bool = False, following: Lane = BEGINNING) -> DeliveryScanResult:
    return DeliveryScanResult(NOON, lanes=1, saturated=saturated, next=following, claimed=list(claimed))


def search(planner: DeliveryPlanner, result: DeliveryScanResult, *, at_s: float = 0.0, took_s: float = 0.001) -> bool:
    return planner.record(planner.search(SCAN), result, began_s=at_s, ended_s=at_s + took_s)


def at_ms(milliseconds: float, key: int, target: str = "order.expired") -> ClaimedDelivery:
    begun = NOON + timedelta(milliseconds=milliseconds)
    return delivery(key, target=target, next_attempt_at=begun, fired_at=begun)


def lanes_of(planner: DeliveryPlanner, scan: DeliveryScan = SCAN) -> dict[Lane, Position]:
    known = planner.scan_of_known_lanes(scan)
    return {} if known is None else dict(known.lanes or {})


def test_polls_are_rarer_while_a_search_finds_no_delivery_at_all() -> None:
    planner = DeliveryPlanner()
    polls_s = [planner.poll_s(0.1)]

    for result in (replace(taken(), is_empty=True), taken(), replace(taken(), is_empty=True)):
        search(planner, result)
        polls_s.append(planner.poll_s(0.1))
    planner.record(replace(SCAN, lanes={}), taken(), began_s=0.0, ended_s=0.001)

    assert polls_s == [0.1, 0.1 * IDLE_POLLS, 0.1, 0.1 * IDLE_POLLS]
    assert planner.is_idle, "a claim in known lanes says nothing about the other lanes"


def test_a_search_begins_at_once() -> None:
    planner = DeliveryPlanner()

    assert planner.scan_of_known_lanes(SCAN) is None
    assert planner.search_pause_s(0.0) == 0.0
    assert planner.search(SCAN) == SCAN


def test_a_lane_with_more_deliveries_is_read_again_immediately_after_its_last_claim() -> None:
    planner = DeliveryPlanner()
    claimed = [at_ms(1, 7), at_ms(2, 5), at_ms(2, 6)]

    assert search(planner, taken(*claimed, saturated=True))

    assert lanes_of(planner) == {ORDERS: Position(claimed[-1].next_attempt_at, 6)}


def test_known_lanes_are_read_often_while_deliveries_arrive_and_then_with_growing_pauses() -> None:
    planner = DeliveryPlanner()
    assert not search(planner, taken(at_ms(1, 7)))
    pauses = []
    for result in (taken(at_ms(2, 8)), taken(), taken(), taken(), taken(at_ms(3, 9))):
        known = planner.scan_of_known_lanes(SCAN)
        assert known is not None
        planner.record(known, result, began_s=0.0, ended_s=0.001)
        pauses.append(planner.pause_s(3 * BUSY_PAUSE_S) / BUSY_PAUSE_S)

    assert pauses == [1, 2, 3, 3, 1]


def test_a_lane_without_more_deliveries_is_read_again_from_its_beginning() -> None:
    planner = DeliveryPlanner()

    assert not search(planner, taken(at_ms(-5, 7)), took_s=0.001)

    assert lanes_of(planner) == {ORDERS: Position(NOON - timedelta(seconds=0.001 + MARGIN_S), 0)}


def test_after_many_claims_a_lane_is_read_again_from_the_first_of_these_claims() -> None:
    planner = DeliveryPlanner()
    search(planner, taken())
    claims = [
        (at_ms(-9, 1), NOON, True),  # the claims start with a delivery that is due 9 ms before noon,
        (at_ms(-1, 2), NOON + timedelta(seconds=1), True),
        (at_ms(-1, 3), NOON + timedelta(seconds=2), False),  # and end two seconds after the start
    ]
    for claimed, server_time, saturated in claims:
        known = replace(SCAN, lanes={ORDERS: Position(claimed.next_attempt_at, 0)})
        result = replace(taken(claimed, saturated=saturated), server_time=server_time)
        planner.record(known, result, began_s=0.0, ended_s=0.1)

    begin = NOON - timedelta(seconds=0.1 + MARGIN_S)
    assert lanes_of(planner) == {ORDERS: Position(begin, 0)}, "a firing may have been committed behind the claims"
    planner.record(replace(SCAN, lanes=lanes_of(planner)), taken(), began_s=0.0, ended_s=0.1)
    assert lanes_of(planner) == {ORDERS: Position(begin, 0)}, "a reading without more begins and ends at once"


def test_a_scan_of_other_lanes_does_not_end_the_reading_of_a_lane() -> None:
    planner = DeliveryPlanner()
    search(planner, taken(at_ms(0, 1), saturated=True), took_s=0.0)
    full = replace(SCAN, targets=["cart.left"])  # the handler has no places

    later = replace(taken(at_ms(900, 2, "cart.left")), server_time=NOON + timedelta(seconds=1))
    planner.record(planner.search(full), later, began_s=0.0, ended_s=0.0)
    assert lanes_of(planner)[ORDERS] == Position(NOON, 1)
    planner.record(
        replace(SCAN, lanes=lanes_of(planner)),
        replace(taken(at_ms(1_900, 3)), server_time=NOON + timedelta(seconds=2)),
        began_s=0.0,
        ended_s=0.0,
    )

    assert lanes_of(planner)[ORDERS] == Position(NOON - timedelta(seconds=MARGIN_S), 0)


def test_old_firings_do_not_change_the_margin() -> None:
    firings = SlowestFiring()
    old = at_ms(0, 1)._replace(fired_at=NOON + timedelta(seconds=2))

    firings.record([old], now=NOON + timedelta(seconds=2 + FIRINGS_KEPT_S), now_s=0.0)

    assert firings.margin_s == MARGIN_S


def test_only_the_end_of_a_long_reading_is_read_again() -> None:
    planner = DeliveryPlanner()
    search(planner, taken(at_ms(-1, 1), saturated=True), took_s=0.0)
    late = replace(taken(at_ms(0, 2)), server_time=NOON + timedelta(minutes=10))

    planner.record(replace(SCAN, lanes=lanes_of(planner)), late, began_s=0.0, ended_s=0.0)

    assert lanes_of(planner) == {ORDERS: Position(late.server_time - timedelta(seconds=READING_MAX_S + MARGIN_S), 0)}


@pytest.mark.parametrize(
    ("firing_s", "later_s", "margin_s"),
    [
        (0.5, 1.0, MARGIN_S + FIRINGS_LONGER * 0.5),
        (0.5, FIRINGS_KEPT_S + 1.0, MARGIN_S),
        (60.0, 1.0, MARGIN_MAX_S),
        (-60.0, 1.0, MARGIN_S),  # a second attempt, a minute after its firing
    ],
)
def test_after_slow_firings_the_margin_is_longer(firing_s: float, later_s: float, margin_s: float) -> None:
    firings = SlowestFiring()
    first = at_ms(0, 1)._replace(fired_at=NOON + timedelta(seconds=firing_s))
    firings.record([first, at_ms(0, 2)] if firing_s > 0 else [first], now=NOON, now_s=0.0)
    firings.record([at_ms(0, 3)], now=NOON, now_s=later_s)

    assert firings.margin_s == pytest.approx(margin_s)


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.3, 0.3 / SEARCH_SHARE), (0.0001, SEARCH_GAP_S)])
def test_the_next_search_begins_after_ten_times_the_duration_of_the_last(took_s: float, pause_s: float) -> None:
    planner = DeliveryPlanner()
    search(planner, taken(at_ms(0, 1)), took_s=took_s)

    assert planner.search_pause_s(took_s) == pytest.approx(pause_s)
    assert planner.search_pause_s(took_s + pause_s + 0.001) == 0.0


def test_a_search_without_an_answer_is_repeated_from_the_beginning_after_its_pause() -> None:
    planner = DeliveryPlanner()
    search(planner, taken(at_ms(0, 1), following=CARTS))

    planner.fail_search(began_s=1.0, ended_s=4.0)

    assert planner.search(SCAN).after == BEGINNING
    assert planner.search_pause_s(4.0) > 30.0
    assert lanes_of(planner).keys() == {ORDERS}, "known lanes are claimed meanwhile"


def test_a_search_in_parts_continues_at_once_within_its_share_of_the_time() -> None:
    planner = DeliveryPlanner()

    assert search(planner, taken(following=CARTS), took_s=0.1)
    assert planner.is_searching
    assert planner.search(SCAN) == replace(SCAN, after=CARTS)
    assert planner.search_pause_s(0.1) == 0.0
    assert not search(planner, taken(), at_s=0.1, took_s=0.1)

    assert planner.search(SCAN).after == BEGINNING
    assert planner.search_pause_s(0.2) == pytest.approx(0.2 / SEARCH_SHARE)


def test_a_part_of_a_search_does_not_end_the_reading_of_other_lanes() -> None:
    planner = DeliveryPlanner()
    search(planner, taken(at_ms(1, 1), saturated=True))

    search(planner, taken(at_ms(1, 2, "cart.left"), following=CARTS), at_s=1.0)

    assert lanes_of(planner)[ORDERS] == Position(NOON + timedelta(milliseconds=1), 1)


def test_lanes_without_free_slots_are_not_read_and_keep_their_position() -> None:
    planner = DeliveryPlanner()
    search(planner, taken(at_ms(1, 1), at_ms(1, 2, "cart.left"), saturated=True))
    only = replace(SCAN, places={"cart.left": 0})

    scan = planner.scan_of_known_lanes(only)

    assert scan is not None
    assert set(scan.lanes or ()) == {ORDERS}
    planner.record(scan, taken(), began_s=0.002, ended_s=0.003)
    assert lanes_of(planner)[CARTS] == Position(NOON + timedelta(milliseconds=1), 2)
    assert planner.scan_of_known_lanes(replace(SCAN, targets=[])) is None


def test_the_lane_of_an_endpoint_is_read_while_its_breaker_has_places() -> None:
    planner = DeliveryPlanner()
    hook = Lane("webhook:shop", "acme")
    search(planner, taken(at_ms(1, 1, hook.target)._replace(tenant_id="acme"), saturated=True))

    assert lanes_of(planner, replace(SCAN, places={hook.place: 0})) == {}
    assert lanes_of(planner) == {}, "an unknown lane has the places that the scan names: none"
    assert lanes_of(planner, replace(SCAN, webhooks=10)).keys() == {hook}


def test_the_last_read_lanes_of_many_are_known() -> None:
    planner = DeliveryPlanner()
    many = [at_ms(1, key)._replace(tenant_id=f"t{key}") for key in range(LANES_MAX + 5)]

    search(planner, taken(*many, saturated=True))

    assert [lane.tenant_id for lane in lanes_of(planner)] == [f"t{key}" for key in range(5, LANES_MAX + 5)]
