"""Test that calls over SQL belong to the user's transaction, with each library."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shardclock.sql import ApiError, NameTaken
from tests.support.factories import HolderClient, pending_keys, query, recorded
from tests.support.user_connections import UserConnection

EACH: tuple[tuple[str, dict[str, Any]], ...] = (
    ("schedule", {"delay": "PT1H", "name": "n", "payload": {"order": 42}}),
    ("put", {"delay": "PT2H", "name": "n"}),
    ("get", {"name": "n"}),
    ("move", {"name": "n", "shift": "PT1H"}),
    ("pause", {"name": "n"}),
    ("resume", {"name": "n"}),
    ("run", {"name": "n", "operation": "deploy-17"}),
    ("cancel", {"name": "n", "reason": "paid"}),
)


async def numbers(dsn: str) -> list[int]:
    """Read the committed orders."""
    return [row["number"] for row in await query(dsn, "select number from orders")]


async def test_the_order_and_its_timer_are_committed_together(user: UserConnection, dsn: str, orders: None) -> None:
    await user.fetch("insert into orders values (42)")
    made = await user.ask("schedule", delay="PT15M", payload={"order": 42}, name="order-42")
    assert (await numbers(dsn), await pending_keys(dsn)) == ([], [])

    await user.commit()

    assert (await numbers(dsn), await pending_keys(dsn)) == ([42], [made.timer_key])


async def test_a_rollback_removes_the_order_and_its_timer(user: UserConnection, dsn: str, orders: None) -> None:
    await user.fetch("insert into orders values (42)")
    await user.ask("schedule", delay="PT15M", name="order-42")

    await user.rollback()

    assert (await numbers(dsn), await pending_keys(dsn)) == ([], [])


async def test_a_rollback_reverts_a_change(user: UserConnection, dsn: str) -> None:
    made = await user.ask("schedule", delay="PT15M", name="order-42")
    await user.commit()
    assert (await user.ask("cancel", timer_key=made.timer_key)).state == "CANCELED"
    assert (await user.ask("get", timer_key=made.timer_key)).state == "CANCELED"

    await user.rollback()

    assert (await user.ask("get", timer_key=made.timer_key)).state == "PENDING"
    assert await recorded(dsn) == []


async def test_a_refused_call_aborts_the_transaction_unless_a_savepoint_protects_it(user: UserConnection) -> None:
    await user.ask("schedule", delay="PT1H", name="n")
    await user.fetch("savepoint before")
    with pytest.raises(NameTaken):
        await user.ask("schedule", delay="PT1H", name="n")

    with pytest.raises(Exception, match="aborted") as failed:
        await user.ask("get", name="n")
    assert not isinstance(failed.value, ApiError)

    await user.fetch("rollback to savepoint before")
    assert (await user.ask("get", name="n")).state == "PENDING"
    await user.commit()


async def test_any_other_error_is_an_error_of_the_driver(user: UserConnection, dsn: str) -> None:
    await user.ask("schedule", delay="PT1H", name="n")
    await user.commit()
    async with HolderClient(dsn) as other:
        await other.begin()
        await other.value("select timer_key from shardclock.timers where name = 'n' for update")
        await user.fetch("set local lock_timeout = '50ms'")

        with pytest.raises(Exception, match="lock timeout") as failed:
            await user.ask("cancel", name="n")

        assert not isinstance(failed.value, ApiError)
        await user.rollback()


async def test_each_call_is_one_statement(user: UserConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    await user.fetch("select 1")  # not counted: the library's own statements on a new connection
    sent = user.count(monkeypatch)

    for number, (method, fields) in enumerate(EACH, start=1):
        await user.ask(method, **fields)
        await asyncio.sleep(0)  # asyncpg calls its loggers in the loop's next turn
        assert sent() == number, method


async def test_no_call_changes_a_setting_of_the_session_or_ends_the_transaction(user: UserConnection) -> None:
    def asked() -> str:
        # A setting with a dot belongs to an extension, and appears at the first call of its functions.
        ours = "select name, setting from pg_settings where position('.' in name) = 0"
        return f"{ours} union all select 'began', now()::text order by 1"

    before = await user.fetch(asked())
    for method, fields in EACH:
        await user.ask(method, **fields)

    assert await user.fetch(asked()) == before
