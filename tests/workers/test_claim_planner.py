"""Prove where claims look: behind the last claim of a lane, and now and then at all lanes from their beginning."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from sql.deliveries.claim import BEGINNING, ClaimedDelivery, DeliveryScan, DeliveryScanResult, Lane, Position
from tests.support.handlers import NOON, delivery
from workers.claim_planner import FULL_GAP_S, FULL_SHARE, LANES_MAX, MARGIN_S, ClaimPlanner

ORDERS, CARTS = Lane("order.expired", "default"), Lane("cart.left", "default")
SCAN = DeliveryScan(["order.expired", "cart.left"], 1_000)


def taken(*claimed: ClaimedDelivery, saturated: bool = False, following: Lane = BEGINNING) -> DeliveryScanResult:
    return DeliveryScanResult(NOON, lanes=1, saturated=saturated, next=following, claimed=list(claimed))


def turn(planner: ClaimPlanner, result: DeliveryScanResult, *, at_s: float, took_s: float = 0.001) -> bool:
    scan = planner.plan(SCAN, now_s=at_s)
    assert scan is not None
    return planner.learn(scan, result, now_s=at_s + took_s)


def at_ms(milliseconds: float, key: int, target: str = "order.expired") -> ClaimedDelivery:
    return delivery(key, target=target, next_attempt_at=NOON + timedelta(milliseconds=milliseconds))


def test_the_first_scan_is_a_full_one() -> None:
    assert ClaimPlanner().plan(SCAN, now_s=0.0) == replace(SCAN, lanes=None)


def test_a_lane_with_more_goes_on_behind_its_last_claim_at_once() -> None:
    planner = ClaimPlanner()
    claimed = [at_ms(1, 7), at_ms(2, 5), at_ms(2, 6)]

    assert turn(planner, taken(*claimed, saturated=True), at_s=0.0)

    scan = planner.plan(SCAN, now_s=0.002)
    assert scan is not None
    assert scan.lanes == {ORDERS: Position(claimed[-1].next_attempt_at, 6)}


def test_a_lane_without_more_goes_on_with_what_was_firing_when_the_scan_began() -> None:
    planner = ClaimPlanner()

    assert not turn(planner, taken(at_ms(-5, 7)), at_s=0.0, took_s=0.001)

    scan = planner.plan(SCAN, now_s=0.002)
    assert scan is not None
    assert scan.lanes == {ORDERS: Position(NOON - timedelta(seconds=0.001 + MARGIN_S), 0)}


def test_a_full_scan_comes_again_after_ten_times_as_long_as_the_last_one_took() -> None:
    planner = ClaimPlanner()
    turn(planner, taken(at_ms(0, 1)), at_s=0.0, took_s=0.3)

    for moment_s, is_full in ((0.31, False), (3.2, False), (0.3 + 0.3 / FULL_SHARE, True)):
        scan = planner.plan(SCAN, now_s=moment_s)
        assert scan is not None
        assert (scan.lanes is None) is is_full


def test_after_a_scan_of_known_lanes_the_next_full_one_waits_for_no_hint() -> None:
    planner = ClaimPlanner()
    turn(planner, taken(at_ms(0, 1)), at_s=0.0, took_s=0.001)
    assert planner.pause_s(0.1, now_s=0.001) == 0.1, "a full scan has seen all there is"

    turn(planner, taken(), at_s=0.005, took_s=0.001)

    assert planner.pause_s(0.1, now_s=0.006) == pytest.approx(0.001 + FULL_GAP_S - 0.006)
    assert planner.pause_s(0.1, now_s=5.0) == 0.0


def test_lanes_without_places_are_not_read_and_keep_their_position() -> None:
    planner = ClaimPlanner()
    turn(planner, taken(at_ms(1, 1), at_ms(1, 2, "cart.left"), saturated=True), at_s=0.0)

    only = replace(SCAN, places={"cart.left": 0})
    scan = planner.plan(only, now_s=0.002)
    assert scan is not None
    assert scan.lanes is not None
    assert set(scan.lanes) == {ORDERS}
    planner.learn(scan, taken(), now_s=0.003)

    scan = planner.plan(SCAN, now_s=0.004)
    assert scan is not None
    assert scan.lanes is not None
    assert scan.lanes[CARTS] == Position(NOON + timedelta(milliseconds=1), 2)
    assert planner.plan(replace(SCAN, targets=[]), now_s=0.005) is None


def test_an_endpoint_s_lane_is_read_while_its_breaker_has_places() -> None:
    planner = ClaimPlanner()
    hook = Lane("webhook:shop", "acme")
    turn(planner, taken(at_ms(1, 1, hook.target)._replace(tenant_id="acme"), saturated=True), at_s=0.0)

    assert planner.plan(replace(SCAN, places={hook.place: 0}), now_s=0.002) is None
    assert planner.plan(SCAN, now_s=0.003) is None, "an unknown one has as many places as the scan says: none"
    scan = planner.plan(replace(SCAN, webhooks=10), now_s=0.004)
    assert scan is not None
    assert set(scan.lanes or ()) == {hook}


def test_a_scan_that_did_not_see_all_lanes_is_continued_at_once() -> None:
    planner = ClaimPlanner()

    assert turn(planner, taken(following=CARTS), at_s=0.0)

    assert planner.plan(SCAN, now_s=0.001) == replace(SCAN, after=CARTS)
    assert not turn(planner, taken(), at_s=0.001)
    assert planner.plan(SCAN, now_s=0.003) is None, "the next full scan has its pause"


def test_of_many_lanes_those_that_were_read_last_are_known() -> None:
    planner = ClaimPlanner()
    many = [at_ms(1, key)._replace(tenant_id=f"t{key}") for key in range(LANES_MAX + 5)]

    turn(planner, taken(*many, saturated=True), at_s=0.0)

    scan = planner.plan(SCAN, now_s=0.002)
    assert scan is not None
    assert scan.lanes is not None
    assert [lane.tenant_id for lane in scan.lanes] == [f"t{key}" for key in range(5, LANES_MAX + 5)]
