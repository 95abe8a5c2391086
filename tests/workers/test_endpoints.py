"""Prove that no endpoint keeps a worker from the others, whatever its row holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from sql.deliveries.claim import Lane
from sql.deliveries.settle import Settlement
from sql.session import Session, StatementRefused, StoreUnavailable
from tests.support.handlers import NOON, delivery
from tests.support.receivers import SECRET
from webhooks.addresses import Networks
from workers.endpoint_line import GoneAt
from workers.endpoints import Endpoints
from workers.stats import WorkerStats

# Nothing is sent: both are disabled or wrong, so what was read of them is seen in how their deliveries end.
BAD, OTHER = Lane("webhook:bad", "a"), Lane("webhook:other", "b")
ROW = {
    "tenant_id": "b", "name": "other", "url": "https://example.com/", "headers": "{}", "secrets": [SECRET],
    "policy": "{}", "disabled_at": NOON, "disabled_why": "by hand",
}  # fmt: skip


class Rows:
    """Stand for a session that reads these rows; some statements fail, others are done."""

    def __init__(self, *rows: dict[str, Any], failing: Exception | None = None) -> None:
        self.disabled: list[str] = []
        self._rows = rows
        self._failing = failing

    async def rows(self, statement: str, /, **values: object) -> tuple[dict[str, Any], ...]:
        if statement == "find_endpoints":
            return self._rows
        self.disabled.append(str(values["name"]))
        if self._failing is not None and len(self.disabled) == 1:
            raise self._failing
        return ({"done": True},)


@pytest.fixture
def settled() -> list[Settlement]:
    """Give what was settled."""
    return []


@pytest.fixture
async def endpoints(settled: list[Settlement]) -> AsyncIterator[Endpoints]:
    """Give the endpoints of a worker."""
    broken: list[BaseException] = []
    one = Endpoints(
        http=False,
        networks=Networks(),
        settle=settled.extend,
        now=lambda: NOON,
        stats=WorkerStats(),
        broken=broken.append,
    )
    yield one
    await one.close()
    assert broken == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": '{"concurrency": 0}'},
        {"policy": '{"rate_per_s": 0}'},
        {"policy": "[]"},
        {"headers": "[]"},
        {"headers": '{"x-a": 1}'},
        {"secrets": [None]},
    ],
)
async def test_a_row_that_is_wrong_fails_its_own_deliveries_alone(
    endpoints: Endpoints, settled: list[Settlement], wrong: dict[str, Any]
) -> None:
    bad = ROW | {"tenant_id": "a", "name": "bad", "disabled_at": None, "disabled_why": None} | wrong
    for lane in (BAD, OTHER):
        endpoints.add(lane, [delivery(1, target=lane.target, tenant_id=lane.tenant_id)])

    await endpoints.refresh(cast("Session", Rows(bad, ROW)))

    first, second = settled
    assert (first.delivery.target, first.ending, first.fails) == (BAD.target, None, True)
    assert "refused" in (first.reason or "")
    assert (second.delivery.target, second.reason) == (OTHER.target, "the endpoint is disabled: by hand")


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), StatementRefused("no such right")])
async def test_one_that_can_not_be_disabled_keeps_no_other_from_being_read_or_disabled(
    endpoints: Endpoints, settled: list[Settlement], error: Exception
) -> None:
    gone = [Lane("webhook:bad", "a"), Lane("webhook:gone", "a")]
    for lane in (*gone, OTHER):
        endpoints.add(lane, [delivery(1, target=lane.target, tenant_id=lane.tenant_id)] if lane == OTHER else [])
    for lane in gone:
        endpoints._lines[lane].gone = GoneAt("https://example.com/", "answered 410 Gone")
    session = Rows(ROW, failing=error)

    with pytest.raises(type(error), match=str(error)):
        await endpoints.refresh(cast("Session", session))

    assert [it.delivery.target for it in settled] == [OTHER.target]
    assert session.disabled == ["bad", "gone"]
    assert [endpoints._lines[lane].gone is None for lane in gone] == [False, True]
    await endpoints.refresh(cast("Session", session))
    assert session.disabled == ["bad", "gone", "bad"]
