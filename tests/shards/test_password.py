"""Prove that a shard goes on when its password is changed, without a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.dsn import Dsn
from tests.support.factories import add_holder, add_timers, intents, query, value
from tests.support.roles import USER
from tests.support.shard_pool import incarnation, pool_of
from tests.support.waiting import eventually

FIRST, SECOND = "first-word", "second-word"


@dataclass(frozen=True)
class Login:
    """A role that gets in by its password only."""

    dsn: str
    user: str

    def named(self, password: str = "") -> str:
        """Write its DSN, with a password or without."""
        return USER.sub(f"{self.user}:{password}" if password else self.user, self.dsn)

    async def gets_in(self, password: str) -> bool:
        """Say whether Postgres lets it in."""
        try:
            await (await asyncpg.connect(self.named(password))).close()
        except asyncpg.InvalidAuthorizationSpecificationError:
            return False
        return True

    async def change(self, password: str) -> None:
        """Give it another password, and end all its sessions."""
        await query(self.dsn, f"alter role {self.user} password '{password}'")
        ended = "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity where usename = $1"
        assert await value(self.dsn, ended, self.user) > 0


@pytest.fixture
async def login(dsn: str) -> AsyncIterator[Login]:
    """Make a role that runs shards, of whom alone the test's server asks a password."""
    one = Login(dsn, f"guarded_{secrets.token_hex(4)}")
    await query(dsn, f"create role {one.user} login in role shardclock_shard password '{FIRST}'")
    try:
        with first_rule(Path(await value(dsn, "show hba_file")), f"local all {one.user} scram-sha-256"):
            await query(dsn, "select pg_reload_conf()")

            async def is_guarded() -> bool:
                return not await one.gets_in("wrong")

            await eventually(is_guarded)
            yield one
    finally:
        await query(dsn, "select pg_reload_conf()")
        await query(dsn, f"drop role {one.user}")


@contextmanager
def first_rule(rules: Path, rule: str) -> Iterator[None]:
    """Put one rule before those by which a server lets people in."""
    before = rules.read_text()
    rules.write_text(f"{rule}\n{before}")
    try:
        yield
    finally:
        rules.write_text(before)


def in_its_file(login: Login, place: Path, password: str) -> Dsn:
    """Write a DSN, password and all, where a mounted secret lies."""
    (place / "dsn").write_text(login.named(password))
    return Dsn(file=place / "dsn")


def in_a_password_file(login: Login, place: Path, password: str) -> Dsn:
    """Write the password as libpq has it, beside a DSN that is known once and for all."""
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

        # When its password is changed, and it is refused for a while
        await login.change(SECOND)
        await eventually(lambda: min(shard.stats.failures[loop] for loop in ("beats", "claims")) > 1)
        keys += await add_timers(login.dsn, 10)
        write(login, tmp_path, SECOND)

        # Then the same shard fires on.
        await pool.until_fired(20)
        holders = await query(login.dsn, "select holder, ended_at from shardclock.holders")
        assert [tuple(row) for row in holders] == [(shard.holder, None)]
    assert await intents(login.dsn) == {(key, "TRIGGERED"): 1 for key in keys}
    assert not await login.gets_in(FIRST)
