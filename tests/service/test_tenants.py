"""A tenant exists with limits, rows or a key. Concurrent changes of its limits happen one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shardclock.api.refusals.tenants import UNKNOWN_TENANT
from shardclock_server.service.tenants import remove_own, set_own, show
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import DEFAULTS, LIMITS, Limits, find_limits
from tests.support.factories import add_timers, query, until_blocked
from tests.support.refusals import refusing
from tests.support.roles import OPERATOR
from tests.support.sql_client import session as opened

DEFAULT = "default"
SETTING = "the gateways' setting"
AFTER_REMOVAL = [
    f"{name} {SETTING} → {3 if name == 'endpoints_max' else 'no limit'}" for name in LIMITS if name not in DEFAULTS
]


async def _set_five(session: Session) -> None:
    await set_own(session, "acme", {"timers_max": 5})


async def _remove(session: Session) -> None:
    await remove_own(session, "acme")


@pytest.mark.parametrize(
    ("begin", "first", "changes", "left"),
    [
        (None, _set_five, ["endpoints_max no limit → 3"], Limits(timers_max=5, endpoints_max=3)),
        (7, _set_five, ["endpoints_max no limit → 3"], Limits(timers_max=5, endpoints_max=3)),
        (7, _remove, AFTER_REMOVAL, Limits(endpoints_max=3)),
    ],
)  # fmt: skip
async def test_a_change_waits_for_a_concurrent_change_and_records_the_values_after_it(
    dsn: str,
    operator: Session,
    *,
    begin: int | None,
    first: Callable[[Session], Awaitable[None]],
    changes: list[str],
    left: Limits,
) -> None:
    if begin is not None:
        await set_own(operator, "acme", {"timers_max": begin})
    async with opened(dsn, OPERATOR) as other:
        async with other.transaction() as connection:
            pid = connection.get_server_pid()
        async with operator.transaction():
            await first(operator)
            second = asyncio.create_task(set_own(other, "acme", {"endpoints_max": 3}))
            await until_blocked(dsn, pid, second)
        changed = await second

    assert changed.changes == changes
    assert await find_limits(operator, "acme") == left


async def test_a_removal_waits_for_a_concurrent_change_and_records_its_values(dsn: str, operator: Session) -> None:
    await set_own(operator, "acme", {"timers_max": 5_000, "messages_max": 7})
    async with opened(dsn, OPERATOR) as other:
        async with other.transaction() as connection:
            pid = connection.get_server_pid()
        async with operator.transaction():
            await set_own(operator, "acme", {"timers_max": 800})
            removal: asyncio.Task[Any] = asyncio.create_task(remove_own(other, "acme"))
            await until_blocked(dsn, pid, removal)
        removed = await removal

    assert "timers_max 800 → the gateways' setting" in removed.changes
    assert f"messages_max 7 → {DEFAULT}" in removed.changes
    assert await find_limits(operator, "acme") is None


async def test_a_tenant_exists_with_limits_rows_or_a_key(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 1, tenant_id="'with-timer'")
    await set_own(operator, "with-limits", {"timers_max": 5})
    await query(
        dsn,
        "insert into shardclock.api_keys (tenant_id, name, prefix, digest, scopes)"
        " values ('with-key', 'night', 'k7v2m4qa', sha256('k'), '{read}')",
    )

    for tenant in ("with-timer", "with-limits", "with-key", "default"):
        assert (await show(operator, tenant)).tenant_id == tenant
    with refusing(UNKNOWN_TENANT):
        await show(operator, "typing-error")
