"""While the database is on hold, a shard sends heartbeats and fires no timer.

After the release the shard fires each timer once.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.identity import hold, release
from shardclock_server.sql.session import Session
from tests.support.factories import add_schedule, add_timers
from tests.support.roles import as_role
from tests.support.shard_pool import ShardPool, incarnation, pool_of
from tests.support.verdict import breaches
from tests.support.waiting import eventually

PROD, STAGING = "prod", "staging"
ADOPTED = "update shardclock.identity set name = 'prod', origin = shardclock.origin()"
COPIED = "update shardclock.identity set name = 'prod', origin = '1/1'"


async def start(pool: ShardPool, identity: str, *, shard: int | None = 0) -> Shard:
    """Start a shard that registers by itself, and assign all slots or no slot to it."""
    settings = ShardSettings(identity=identity, sweep_grace_s=0.1, sweep_s=0.1)
    made = Shard(replace(incarnation(), identity=identity), settings, as_role(pool.dsn, "shard"))
    pool.work[made] = asyncio.create_task(made.run())
    await eventually(lambda: seen_for(pool, made, 0))
    await pool.assign({made: None if shard is None else (shard, 1)})
    return made


async def seen_for(pool: ShardPool, shard: Shard, seconds: float) -> bool:
    """Return whether a shard has sent heartbeats for this time since its start."""
    return bool(
        await pool.db.fetchval(
            "select exists (select from shardclock.presence where holder = $1"
            " and seen_at >= started_at + make_interval(secs => $2))",
            shard.holder,
            float(seconds),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("state", [ADOPTED, COPIED], ids=["another's", "a copy"])
async def test_a_shard_on_hold_fires_no_timer_until_the_release_and_then_fires_each_timer_once(
    dsn: str, state: str
) -> None:
    async with pool_of(dsn) as pool:
        await pool.db.execute(state)
        keys = await add_timers(dsn, 200, "now() - i * interval '1 s'")
        keys += await add_timers(dsn, 50, "now() + i * interval '20 ms'", tenant_id="'acme'")
        keys.append(await add_schedule(dsn, "R1/PT1H", repetitions="1"))
        await pool.db.execute("select shardclock.pause_timer($1, until => now() + interval '50 ms')", keys[0])
        with capture_logs() as said:
            held = await start(pool, STAGING)
            await eventually(lambda: seen_for(pool, held, 2.0))  # the time of about twenty claims
            assert await pool.count_fired() == 0
            assert len(held) == 0
            assert await pool.db.fetchval("select count(*) from shardclock.timers where resume_at < now()") == 1

            async with Session(as_role(dsn, "shard"), application="test") as session:
                assert await release(session, STAGING)
            await pool.until_fired(len(keys))
            await eventually(lambda: any(it["event"] == "released" for it in said))

        assert await breaches(pool.db, keys) == {}
        assert [it["event"] for it in said if it["event"] in ("on hold", "released")] == ["on hold", "released"]
        assert next(it for it in said if it["event"] == "on hold")["log_level"] == "warning"


async def test_a_shard_of_another_installation_does_not_disturb_the_firing_shards(dsn: str) -> None:
    async with pool_of(dsn) as pool:
        ours = await start(pool, PROD)
        stray = await start(pool, STAGING, shard=None)
        keys = await add_timers(dsn, 200, "now() + i * interval '5 ms'")

        await pool.until_fired(len(keys))

        assert {row["holder"] for row in await pool.fired()} == {ours.holder}
        assert len(stray) == 0
        assert await breaches(pool.db, keys) == {}


async def are_late(pool: ShardPool) -> bool:
    """Return whether all timers have been due for half a second, and no timer has fired."""
    text = "select count(*) = 50 and clock_timestamp() > max(due_date) + interval '0.5 s' from shardclock.timers"
    return bool(await pool.db.fetchval(text))


async def test_timers_in_a_shards_memory_do_not_fire_during_an_operators_hold(dsn: str) -> None:
    async with pool_of(dsn) as pool, Session(as_role(dsn, "shard"), application="test") as operator:
        # Given leased timers that are due soon
        shard = await pool.start(horizon_s=10.0, lease_s=60.0, heartbeat_s=0.1)
        keys = await pool.lease(shard, 50, "now() + interval '2 s'")

        await hold(operator, "billing is down")
        held_at = await pool.db.fetchval("select clock_timestamp()")
        await eventually(lambda: are_late(pool))
        assert (len(shard), await pool.count_fired()) == (50, 0)

        # When the hold ends, then all timers fire, and no timer waits for the end of its lease
        assert await release(operator, "")
        await pool.until_fired(len(keys))
        assert await breaches(pool.db, keys) == {}
        assert all(row["recorded_at"] > held_at for row in await pool.fired())
