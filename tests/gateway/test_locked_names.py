"""Test that a timer which waits for a lock delays no other timer."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from shardclock_server.gateway.combining import WAITING_MAX
from shardclock_server.sql.clients import scheduling
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch, schedule_timers
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.model import NewTimer
from tests.support.factories import value
from tests.support.gateways import Api, Said, serving
from tests.support.transactions import open_transaction
from tests.support.waiting import eventually

HOUR = {"delay": "PT1H"}
HELD = {**HOUR, "name": "held", "on_conflict": "replace", "payload": 1}
# Changes by another transaction that lock a timer or a name.
HOLDING = {
    "inserted": "select shardclock.schedule_timer(delay => 'PT1H', name => n) from unnest(array['held', 'too']) n",
    "deleted": "delete from shardclock.timers where name in ('held', 'too')",
    "changed": "update shardclock.timers set due_date = due_date + interval '1 hour' where name in ('held', 'too')",
    "locked": "select from shardclock.timers where name in ('held', 'too') for update",
}


async def waits_in_postgres(dsn: str, count: int) -> bool:
    """Return whether at least `count` sessions of a database wait for a lock."""
    asked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    return bool(await value(dsn, asked) >= count)


async def test_timers_without_a_name_are_written_in_batches_while_the_table_is_locked(dsn: str, api: Api) -> None:
    combiner = api.gateway.combiner

    def ask(name: str | None = None) -> asyncio.Task[Scheduled | Refused]:
        return asyncio.create_task(
            combiner.schedule(frozenset({"default"}), NewTimer.from_fields(HOUR | {"name": name}))
        )

    async with open_transaction(dsn, "lock table shardclock.timers in share mode"):
        first = [ask("one"), ask("two"), ask()]  # these timers are one batch; the gateway halves this batch
        await eventually(lambda: waits_in_postgres(dsn, 1))
        await asyncio.sleep(0.5)  # This time is longer than the time for which a batch and its halves wait for locks.
        later = [ask() for _ in range(40)]
        await asyncio.sleep(0)
    assert all(isinstance(it, Scheduled) for it in await asyncio.gather(*first, *later))
    assert combiner.batches < 10, "not one by one"


@pytest.mark.parametrize("how", HOLDING)
async def test_a_locked_name_does_not_delay_other_timers(dsn: str, api: Api, how: str) -> None:
    paths = [f"/v1/timers/by-name/{name}" for name in ("held", "too")]  # the number of writers
    if how != "inserted":
        await asyncio.gather(*(api.put(path, HOUR) for path in paths))
    async with open_transaction(dsn, HOLDING[how]):
        waiting = list[asyncio.Task[Said]]()
        for path in paths:
            waiting.append(asyncio.create_task(api.put(path, {**HOUR, "payload": 1})))
            await eventually(partial(waits_in_postgres, dsn, len(waiting)))
        others = [api.post("/v1/timers", {**HOUR, "name": f"n{n}"} if n % 2 else HOUR) for n in range(60)]
        done = await asyncio.gather(*others)
        assert {it.status for it in done} == {201}
        assert not any(task.done() for task in waiting), "the locked timers get 4 s"
    assert {(await task).status for task in waiting} <= {200, 201}, "they continue when the transaction has ended"
    assert await value(dsn, "select count(*) from shardclock.timers") == 62


async def test_later_timers_of_a_locked_name_delay_no_other_timers(dsn: str, api: Api) -> None:
    await api.put("/v1/timers/by-name/held", HOUR)
    async with open_transaction(dsn, HOLDING["locked"]):
        waiting = [asyncio.create_task(api.post("/v1/timers", {**HELD, "payload": n})) for n in range(20)]
        await eventually(lambda: sum(map(len, api.gateway.combiner._locked.values())) >= 19)
        batches = api.gateway.combiner.batches
        assert (await api.post("/v1/timers", HOUR)).status == 201
        assert api.gateway.combiner.batches == batches + 1
        assert api.gateway.pool.lent == 1, "they wait one after the other, on one session"
    assert {it.status for it in await asyncio.gather(*waiting)} == {200}
    assert not api.gateway.combiner._locked


async def test_many_locked_names_leave_sessions_for_other_requests(dsn: str) -> None:
    async with serving(dsn, gateway_sessions=8) as api:
        for n in range(30):
            await api.put(f"/v1/timers/by-name/held{n}", HOUR)
        async with open_transaction(dsn, "select from shardclock.timers for update"):
            waiting = [
                asyncio.create_task(api.put(f"/v1/timers/by-name/held{n}", {**HOUR, "payload": n})) for n in range(30)
            ]
            await eventually(lambda: len(api.gateway.combiner._locked) == 30)
            assert api.gateway.pool.lent <= 2 + 2, "two that wait alone, and the writers"
            assert (await api.post("/v1/timers", HOUR)).status == 201
        assert {it.status for it in await asyncio.gather(*waiting)} == {200}


async def test_after_a_timeout_of_a_wait_for_a_lock_the_answer_states_that_no_row_was_written(dsn: str) -> None:
    async with serving(dsn, gateway_timeout_s=1.0) as api:
        await api.put("/v1/timers/by-name/held", HOUR)
        async with open_transaction(dsn, HOLDING["locked"]):
            (await api.post("/v1/timers", HELD)).assert_problem("unavailable", 503, "'held'", "nothing was scheduled")
        assert await value(dsn, "select payload from shardclock.timers") is None
        assert (await api.post("/v1/timers", HELD)).status == 200


async def test_a_timer_that_waits_for_a_lock_is_written_once_for_its_idempotency_key(dsn: str, api: Api) -> None:
    async with open_transaction(dsn, HOLDING["inserted"]):
        waits = asyncio.create_task(api.post("/v1/timers", HELD, Idempotency_Key="k"))
        await eventually(lambda: len(api.gateway.combiner._locked) == 1)
        assert (await api.post("/v1/timers", HOUR)).status == 201
    first = await waits
    again = await api.post("/v1/timers", HELD, Idempotency_Key="k")

    assert (first.status, again.json) == (201, first.json)
    assert await value(dsn, "select count(*) from shardclock.timers where name = 'held'") == 1


async def test_while_a_migration_locks_the_table_all_timers_wait_and_no_timer_is_written_twice(
    dsn: str, api: Api
) -> None:
    async with open_transaction(dsn, "lock table shardclock.timers in access exclusive mode"):
        waiting = [
            asyncio.create_task(api.post("/v1/timers", {**HOUR, "name": f"n{n}"} if n % 2 else HOUR)) for n in range(80)
        ]
        await asyncio.wait(waiting, timeout=1.0)
        assert not any(task.done() for task in waiting)
    assert {it.status for it in await asyncio.gather(*waiting)} == {201}
    assert await value(dsn, "select count(*) from shardclock.timers") == 80 < WAITING_MAX


async def test_only_the_line_with_a_locked_name_fails(dsn: str, api: Api) -> None:
    lines: list[dict[str, Any]] = [{**HOUR, "name": f"n{n}"} for n in range(1_200)]
    lines[700] = HELD
    async with open_transaction(dsn, HOLDING["inserted"]):
        done = await api.post_lines(*lines)

    outcomes = [line["outcome"] for line in done.lines]
    assert (outcomes.count("created"), outcomes[700]) == (1_199, "untried")
    assert "name 'held' of tenant 'default' is locked by a transaction" in done.lines[700]["why"]
    assert await value(dsn, "select count(*) from shardclock.timers") == 1_199


async def test_only_the_line_with_a_locked_name_fails_even_if_the_first_answer_was_lost(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.put("/v1/timers/by-name/held", HOUR)
    send, lost = ScheduleBatch.send, list[int]()

    async def losing(batch: ScheduleBatch, session: Session, patience: LockPatience | None = None) -> Any:
        if not lost and len(batch.timers) > 1:
            lost.append(len(batch.timers))
            raise StoreUnavailable("the connection was lost")
        return await send(batch, session, patience)

    monkeypatch.setattr(ScheduleBatch, "send", losing)
    async with open_transaction(dsn, HOLDING["locked"]):
        held = {**HOUR, "name": "held", "on_conflict": "replace", "payload": 1}
        asked = [asyncio.create_task(api.post("/v1/timers", it)) for it in [HOUR] * 8 + [held] + [HOUR] * 8]
        await eventually(lambda: sum(task.done() for task in asked) >= 16)
        assert lost, "several were one batch"
        assert not asked[8].done(), "only the one with the locked name waits"
    await asyncio.gather(*asked)
    assert {it.result().status for it in asked if it is not asked[8]} == {201}


async def test_a_timer_is_written_once_if_its_answer_was_lost_and_its_row_is_locked(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = list[object]()

    async with AsyncExitStack() as locks:

        async def losing(*given: Any, **more: Any) -> list[Scheduled | Refused]:
            outcomes = await schedule_timers(*given, **more)
            if lost:
                return outcomes
            lost.extend(outcomes)
            await locks.enter_async_context(open_transaction(dsn, HOLDING["locked"]))
            raise StoreUnavailable("the answer was lost")

        monkeypatch.setattr(scheduling, "schedule_timers", losing)
        asked = asyncio.create_task(api.post("/v1/timers", {**HOUR, "name": "held"}))
        await eventually(lambda: len(api.gateway.combiner._locked) == 1)

    assert (await asked).status == 201, "the timer keeps its key, so its own row is no conflict"
    assert await value(dsn, "select count(*) from shardclock.timers") == len(lost) == 1
