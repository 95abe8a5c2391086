"""The coordinator starts shards before many stored timers become due together, and removes the shards afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.cluster.leadership import scale, set_policy
from shardclock_server.sql.session import Session
from tests.support.factories import query, value
from tests.support.rays import RayOfNodes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

AHEAD_S = 12.0
SPIKE = 2_400  # the timers due within two seconds, in one or two ten-second steps of the forecast: 120 to 240 a second
TARGET_PER_S = 60
TRICKLE = 200
# A few timers from now on, and the spike 20 s later.
TIMERS = f"""
insert into shardclock.timers (due_date)
select now() + interval '2 s' + n * interval '0.1 s' from generate_series(1, {TRICKLE}) as n
union all
select now() + interval '20 s' + n * interval '2 s' / {SPIKE} from generate_series(1, {SPIKE}) as n
returning due_date
"""
FIRED = "select count(*) from shardclock.command_log where intent = 'TRIGGERED'"
OUTCOME = """
select
    count(*) as fired,
    count(distinct timer_key) as timers,
    count(*) filter (where recorded_at < due_date) as early,
    max(extract(epoch from recorded_at - due_date)) filter (where due_date >= spike_at)::double precision as lag_s
from shardclock.command_log, (select max(due_date) - interval '2 s' as spike_at from shardclock.command_log) of_spike
where intent = 'TRIGGERED'
"""


@pytest.fixture(scope="module")
def one_ray() -> Iterator[RayOfNodes]:
    with closing(RayOfNodes()) as rays:
        yield rays


@pytest.fixture
async def ray(one_ray: RayOfNodes) -> AsyncIterator[RayOfNodes]:
    """Yield a Ray without actors: a coordinator of an earlier test would keep that test's database."""
    yield one_ray
    await one_ray.clear()


async def serving(session: Session) -> int:
    return sum(holder.part is not None for holder in await list_holders(session))


async def test_shards_start_before_a_spike_and_end_after_it(ray: RayOfNodes, session: Session, dsn: str) -> None:
    await scale(session, SHARD, 1)
    await set_policy(session, SHARD, wanted_min=1, wanted_max=4, target_per_s=TARGET_PER_S)
    await query(dsn, TIMERS)
    await ray.coordinate(dsn, forecast_s=0.5, shards_ahead_s=AHEAD_S, nodes_ahead_s=AHEAD_S, give_back_s=4.0)

    async def many() -> bool:
        return await serving(session) >= 3

    await eventually(many, within_s=30)
    left = await value(dsn, "select count(*) from shardclock.timers where due_date > now()")
    assert left >= SPIKE, "the spike was still to come"

    async def all_fired() -> bool:
        return bool(await value(dsn, FIRED) == SPIKE + TRICKLE)

    await eventually(all_fired, within_s=40)
    (outcome,) = await query(dsn, OUTCOME)
    assert (outcome["fired"], outcome["timers"], outcome["early"]) == (SPIKE + TRICKLE, SPIKE + TRICKLE, 0)
    assert outcome["lag_s"] < 2, outcome["lag_s"]

    async def one() -> bool:
        return await serving(session) == 1

    await eventually(one, within_s=30)


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
