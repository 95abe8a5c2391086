"""The first webhook of another tenant is found soon while a search of all endpoints takes long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

import pytest

import shardclock_server.workers.lane_finder
from shardclock_server.sql.deliveries.claim import DeliveryScan, DueLanes, Lane, Position
from shardclock_server.sql.session import Session
from shardclock_server.workers.delivery_planner import MARGIN_S, SLOW_SEARCH_S, DeliveryPlanner
from shardclock_server.workers.lane_finder import GAP_S, OLD_S, LaneFinder
from tests.support.deliveries import add_deliveries
from tests.support.factories import query, value
from tests.support.handlers import NOON, FakeProcesses
from tests.support.waiting import eventually
from tests.support.working import working

FIRST, OTHER = Lane("webhook:first", "umbrella"), Lane("webhook:other", "acme")
SOON_S = 3.0


class Readings:
    """Answer readings from a script, and record their positions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.behind: list[Position | None] = []
        self.answers: list[DueLanes] = []
        monkeypatch.setattr(shardclock_server.workers.lane_finder, "find_due_lanes", self.find)

    async def find(self, _: Session, behind: Position | None, **__: Any) -> DueLanes:
        """Return the next answer; repeat the last answer."""
        self.behind.append(behind)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    """Replace the statement by a script of answers."""
    return Readings(monkeypatch)


def finder(*, slow: bool = True) -> tuple[LaneFinder, DeliveryPlanner]:
    planner = DeliveryPlanner(_last_search_s=2 * SLOW_SEARCH_S if slow else SLOW_SEARCH_S / 2)
    return LaneFinder(planner, cast("Session", None)), planner


def found(*lanes: Lane, at: datetime = NOON, more: Position | None = None) -> DueLanes:
    return DueLanes(dict.fromkeys(lanes, Position(NOON, 6)), at, more)


async def test_while_searches_are_quick_the_finder_does_not_read(readings: Readings) -> None:
    one, _ = finder(slow=False)
    assert not await one.read(0.0)
    assert (readings.behind, one.pause_s) == ([], float("inf"))


async def test_a_new_lane_is_read_by_the_next_claim(readings: Readings) -> None:
    one, planner = finder()
    readings.answers = [found(FIRST)]
    assert await one.read(0.0)
    known = planner.scan_of_known_lanes(DeliveryScan([], 10, webhooks=1))
    assert known is not None
    assert known.lanes == {FIRST: Position(NOON, 6)}
    assert not await one.read(1.0), "it is known now"


async def test_readings_have_a_gap_and_continue_before_the_last_visible_delivery(readings: Readings) -> None:
    one, _ = finder()
    readings.answers = [found()]
    for now_s in (0.0, GAP_S / 2, GAP_S, GAP_S + OLD_S, 3 * OLD_S):
        await one.read(now_s)
    seen = Position(NOON - timedelta(seconds=MARGIN_S), 0)
    assert readings.behind == [None, seen, seen, None]


async def test_deliveries_beyond_one_reading_are_read_at_once(readings: Readings) -> None:
    one, _ = finder()
    last = Position(NOON, 7)
    readings.answers = [found(OTHER, more=last), found(FIRST)]
    assert await one.read(0.0)
    assert one.pause_s == 0.0
    assert await one.read(0.001)
    assert (readings.behind, one.pause_s) == ([None, last], GAP_S)


def test_searches_are_slow_until_one_was_quick() -> None:
    planner, slow = DeliveryPlanner(), list[bool]()
    for took_s in (0.0, 2 * SLOW_SEARCH_S, SLOW_SEARCH_S / 2):
        planner.fail_search(began_s=0.0, ended_s=took_s)
        slow.append(planner.searches_slowly)
    assert slow == [False, True, False]


async def test_the_first_webhook_of_a_tenant_is_claimed_soon_although_another_tenant_has_many_endpoints(
    dsn: str,
) -> None:
    await add_deliveries(dsn, 30_000, "webhook:hook", next_attempt_at="now() + interval '1 h'")
    await query(dsn, "update shardclock.deliveries set target = 'webhook:hook-' || timer_key")
    await query(dsn, "vacuum analyze shardclock.deliveries")
    async with working(dsn, FakeProcesses()) as worker:
        planner = worker.deliveries._planner
        # Given a search that has read all endpoints, and now pauses for long
        await eventually(lambda: planner._last_search_s > SLOW_SEARCH_S and not planner.is_searching, within_s=60.0)
        planner._search_at_s = float("inf")

        await add_deliveries(dsn, 1, FIRST.target, next_attempt_at="now()", tenant_id=f"'{FIRST.tenant_id}'")

        await eventually(lambda: _was_claimed(dsn), within_s=SOON_S)


async def _was_claimed(dsn: str) -> bool:
    # The delivery is claimed and already settled, because its endpoint does not exist
    asked = f"select not exists (select from shardclock.deliveries where target = '{FIRST.target}' and claims = 0)"
    return bool(await value(dsn, asked))
