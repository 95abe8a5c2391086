"""The coordinator withdraws its requests to Ray's autoscaler when an operator ends the policy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import scale, set_policy
from shardclock_server.sql.session import Session
from tests.support.rays import RayOfNodes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

TARGET_PER_S = 60


@pytest.fixture(scope="module")
def one_ray() -> Iterator[RayOfNodes]:
    with closing(RayOfNodes()) as rays:
        yield rays


@pytest.fixture
async def ray(one_ray: RayOfNodes) -> AsyncIterator[RayOfNodes]:
    """Yield a Ray without actors, because a coordinator of an earlier test would use the earlier test's database."""
    yield one_ray
    await one_ray.clear()


async def test_requests_to_the_autoscaler_of_ray_end_with_the_policy(
    ray: RayOfNodes, session: Session, dsn: str
) -> None:
    await set_policy(session, SHARD, wanted_min=3, wanted_max=5, target_per_s=TARGET_PER_S)
    await ray.coordinate(dsn, forecast_s=0.2)

    async def asked_for(shards: int) -> bool:
        return len(await ray.asked_resources()) == shards

    await eventually(lambda: asked_for(3), within_s=20)
    await scale(session, SHARD, 2)
    await eventually(lambda: asked_for(0), within_s=20)
