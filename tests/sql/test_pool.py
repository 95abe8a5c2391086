"""Prove that the pool lends sessions to all callers, and that one tenant can't get the last free sessions."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from shardclock_server.sql.pool import Pool, PoolEmpty, ShareTaken
from shardclock_server.sql.served import ALL_TENANTS, NO_TENANTS, Tenants

AWAY = "postgresql://nobody@127.0.0.1:1/none"
ACME, OTHER = frozenset({"acme"}), frozenset({"other"})


def pool_of(size: int, share: int | None = None) -> Pool:
    """Make a pool that lends sessions without a statement."""
    return Pool(AWAY, application="test", size=size, timeout_s=1.0, wait_s=0.05, share=share)


async def test_a_tenant_gets_at_most_its_share_of_the_sessions() -> None:
    async with pool_of(4, share=3) as pool, AsyncExitStack() as lent:
        for _ in range(3):
            await lent.enter_async_context(pool.session(ACME))
        with pytest.raises(ShareTaken, match=r"^tenant 'acme' has 3 of the 4 sessions on Postgres in use, which is"):
            await lent.enter_async_context(pool.session(ACME))
        await lent.enter_async_context(pool.session(OTHER))

        with pytest.raises(PoolEmpty, match=r"^all 4 sessions on Postgres are in use; ask again in a moment$"):
            await lent.enter_async_context(pool.session(OTHER))
    assert (pool.lent, pool.missed, pool.lendings) == (0, 2, 4)


async def test_a_returned_session_is_lent_to_a_waiting_caller() -> None:
    async with pool_of(2, share=1) as pool:
        for _ in range(3):
            async with pool.session(ACME):
                assert pool.lent == 1
        with pytest.raises(ZeroDivisionError):
            async with pool.session(ACME):
                _ = 1 / 0
        assert pool.lent == 0
        assert (pool._shares, pool._asking) == ({}, {}), "no state is kept for tenants without a session"


@pytest.mark.parametrize("tenants", [NO_TENANTS, ALL_TENANTS, ACME | OTHER])
async def test_a_caller_for_several_tenants_has_no_share(tenants: Tenants) -> None:
    async with pool_of(2, share=1) as pool, pool.session(tenants), pool.session(tenants):
        assert pool.lent == 2


async def test_a_spare_session_is_lent_while_more_than_half_are_free() -> None:
    async with pool_of(4, share=3) as pool, pool.session(ACME):
        async with pool.spare(ACME) as spare:
            assert spare is not None
            assert pool.lent == 2
            async with pool.spare(OTHER) as none:
                assert none is None
        async with pool.session(OTHER), pool.spare(ACME) as none:
            assert none is None, "no caller waits for it"
        assert (pool.lent, pool.missed) == (1, 0)
