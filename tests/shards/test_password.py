"""A shard continues without a restart after a change of its password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.dsn import Dsn
from tests.support.factories import add_holder, add_timers, intents, query
from tests.support.logins import FIRST, Login, guarded
from tests.support.shard_pool import incarnation, pool_of
from tests.support.waiting import eventually

SECOND = "second-word"


@pytest.fixture
async def login(dsn: str) -> AsyncIterator[Login]:
    """Make a role that runs shards by its password."""
    async with guarded(dsn, "shardclock_shard") as login:
        yield login


def in_its_file(login: Login, place: Path, password: str) -> Dsn:
    (place / "dsn").write_text(login.named(password))
    return Dsn(file=place / "dsn")


def in_a_password_file(login: Login, place: Path, password: str) -> Dsn:
    """Write the password into libpq's password file; the DSN, without a password, never changes."""
    file = place / "pgpass"
    file.write_text(f"*:*:*:{login.user}:{password}\n")
    file.chmod(0o600)
    return Dsn(f"{login.named()}&passfile={quote(str(file))}")


@pytest.mark.parametrize("write", [in_its_file, in_a_password_file])
async def test_a_password_that_was_changed_is_picked_up_by_a_shard_that_runs(
    login: Login, tmp_path: Path, write: Callable[[Login, Path, str], Dsn]
) -> None:
    async with pool_of(login.dsn) as pool:
        # Given a shard that fires
        shard = Shard(incarnation(), ShardSettings(retry_max_s=0.1), write(login, tmp_path, FIRST))
        await add_holder(login.dsn, shard.holder, 0, 1)
        pool.work[shard] = asyncio.create_task(shard.run())
        keys = await add_timers(login.dsn, 10)
        await pool.until_fired(10)

        # When the password of the shard's role is changed, and Postgres refuses the shard for a while
        await login.change(SECOND)
        await eventually(lambda: min(shard.stats.failures[loop] for loop in ("beats", "claims")) > 1)
        keys += await add_timers(login.dsn, 10)
        write(login, tmp_path, SECOND)

        # Then the same shard fires again.
        await pool.until_fired(20)
        holders = await query(login.dsn, "select holder, ended_at from shardclock.holders")
        assert [tuple(row) for row in holders] == [(shard.holder, None)]
    assert await intents(login.dsn) == {(key, "TRIGGERED"): 1 for key in keys}
    assert not await login.gets_in(FIRST)
