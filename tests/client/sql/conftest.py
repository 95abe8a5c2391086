"""Provide connections and sessions as users have them, with only the rights of a scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.factories import query
from tests.support.roles import as_role
from tests.support.user_connections import KINDS, UserConnection, psycopg_plain


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
async def user(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[UserConnection]:
    """Provide a user's connection or session; a test runs once for each kind."""
    async with request.param(as_role(dsn, "scheduler")) as user:
        yield user


@pytest.fixture
async def one(dsn: str) -> AsyncIterator[UserConnection]:
    """Provide a user's connection of one kind, for tests that don't depend on the kind."""
    async with psycopg_plain(as_role(dsn, "scheduler")) as user:
        yield user


@pytest.fixture
async def orders(dsn: str) -> None:
    """Create a table that belongs to the user's application, not to Shardclock."""
    await query(dsn, "create table orders (number bigint)")
    await query(dsn, "grant select, insert on orders to public")
