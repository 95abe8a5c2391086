"""Test that a member ends immediately, with the reason, if Postgres refuses its login."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

from shardclock.log import consume
from tests.support.consumers import append, capture_logs, consuming, group_of, until
from tests.support.factories import BOUND_S, query
from tests.support.logins import FIRST, Login, guarded
from tests.support.user_connections import settled

Connect = Callable[[str], Any]


def over_sqlalchemy(dsn: str) -> Any:
    """Connect with SQLAlchemy, which wraps the driver's error in its own error."""
    creator = lambda: psycopg.connect(dsn)  # noqa: E731 - as its users write it
    return sqlalchemy.create_engine("postgresql+psycopg://", creator=creator, poolclass=NullPool).connect()


DRIVERS: dict[str, Connect] = {
    "asyncpg": lambda dsn: asyncpg.connect(dsn, timeout=BOUND_S),
    "psycopg_async": psycopg.AsyncConnection.connect,
    "psycopg_plain": psycopg.connect,
    "sqlalchemy": over_sqlalchemy,
}
ALIKE = pytest.mark.parametrize("driver", DRIVERS)


@pytest.fixture
async def login(dsn: str) -> AsyncIterator[Login]:
    """Make a consumer's role with a password."""
    async with guarded(dsn, "shardclock_consumer") as login:
        yield login


async def refused(driver: str, dsn: str) -> str:
    """Consume as a role without access; return the sentence of the error."""

    async def awaited(*_: object) -> None:
        raise AssertionError("it was let in")

    def plain(*_: object) -> None:
        raise AssertionError("it was let in")

    tries = 0

    def connect() -> Any:
        nonlocal tries
        tries += 1
        assert tries == 1, "it tries again"
        return DRIVERS[driver](dsn)

    work = awaited if driver in ("asyncpg", "psycopg_async") else plain
    with pytest.raises(Exception) as ended:  # noqa: PT011 - each driver has its own error
        await settled(await asyncio.to_thread(consume, connect, "g", work))
    return str(ended.value)


@ALIKE
async def test_a_wrong_password_ends_a_member_with_a_sentence(login: Login, driver: str) -> None:
    assert f'password authentication failed for user "{login.user}"' in await refused(driver, login.named("wrong"))


@ALIKE
async def test_a_missing_password_ends_a_member_with_a_sentence(login: Login, driver: str) -> None:
    assert "password" in await refused(driver, login.named())


@ALIKE
async def test_an_unknown_role_or_database_ends_a_member_with_a_sentence(login: Login, driver: str) -> None:
    name = login.dsn.partition("@/")[2].partition("?")[0]
    assert 'database "nowhere" does not exist' in await refused(driver, login.named(FIRST).replace(name, "nowhere"))
    assert 'role "nobody_here" does not exist' in await refused(driver, Login(login.dsn, "nobody_here").named())
    await query(login.dsn, f"alter role {login.user} nologin")
    assert "is not permitted to log in" in await refused(driver, login.named(FIRST))


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg_async"])
async def test_a_member_waits_for_a_connection_at_its_roles_limit(login: Login, driver: str) -> None:
    await append(login.dsn, 1)
    await query(login.dsn, f"alter role {login.user} connection limit 1")
    seen: list[int] = []

    async def work(_: Any, records: Any) -> None:
        seen.extend(record.timer_key for record in records)

    other = await asyncpg.connect(login.named(FIRST))
    with capture_logs() as logs:
        async with consuming(consume(lambda: DRIVERS[driver](login.named(FIRST)), "g", work)) as tasks:
            await until(lambda: bool(logs), *tasks)
            await other.close()
            await until(lambda: seen == [1], *tasks)
    assert "too many connections for role" in logs[0]["error"]
    assert (await group_of(login.dsn)).failures == 0
