"""Test that a waiting caller gets a timer's end, whichever process commits it, and that no wait hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any
from unittest import mock

import pytest
from starlette.types import Message

from shardclock.log import LogRecord
from shardclock_server.gateway.waits import timer_ends
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.log.ends import find_ends
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.model import ClaimedTimer
from tests.support.deliveries import HANDLER, WorkerClient, add_worker, dead, declare, done
from tests.support.factories import BOUND_S, HolderClient, add_timers, query, value
from tests.support.gateways import Api, reads_log, serving
from tests.support.waiting import eventually

NOW = {"delay": "PT0S"}
HOUR = {"delay": "PT1H"}


async def fire(shard: HolderClient) -> None:
    """Fire the due timers as soon as at least one timer is due."""
    claimed: list[ClaimedTimer] = []

    async def take() -> bool:
        claimed.extend((await shard.take()).claimed)
        return bool(claimed)

    await eventually(take)
    await shard.fire(claimed)


async def test_a_create_that_waits_is_answered_with_the_record_of_the_firing(api: Api, shard: HolderClient) -> None:
    task = asyncio.create_task(api.post("/v1/timers?wait=PT30S", NOW))
    await fire(shard)

    answer = await task
    assert (answer.status, answer.json["outcome"], answer.json["end"]["intent"]) == (201, "created", "TRIGGERED")
    assert answer.json["end"]["timer_key"] == answer.json["timer_key"]


async def test_a_wait_for_an_ended_timer_is_answered_at_once(api: Api, shard: HolderClient) -> None:
    key = (await api.post("/v1/timers", NOW)).json["timer_key"]
    await fire(shard)

    async with asyncio.timeout(BOUND_S / 2):
        answer = await api.get(f"/v1/timers/{key}/end?wait=PT60S")
    assert (answer.status, answer.json["intent"]) == (200, "TRIGGERED")
    assert (await api.get(f"/v1/timers/{key}/end")).json == answer.json


async def test_a_wait_without_an_end_is_answered_after_its_timeout(api: Api) -> None:
    answer = await api.post("/v1/timers?wait=PT0.2S", HOUR)
    assert (answer.status, answer.json["end"]) == (201, None)
    assert (await api.get(f"/v1/timers/{answer.json['timer_key']}/end?wait=PT0.2S")).status == 204


async def test_a_timer_with_a_target_ends_with_its_delivery(dsn: str, api: Api, shard: HolderClient) -> None:
    await declare(dsn, HANDLER)
    await add_worker(dsn, 11)
    tasks = [asyncio.create_task(api.post("/v1/timers?wait=PT30S", {**NOW, "target": HANDLER})) for _ in range(2)]
    await fire(shard)
    async with WorkerClient(dsn, 11) as worker:
        taken: list[ClaimedDelivery] = []
        async with asyncio.timeout(BOUND_S):
            while len(taken) < 2:
                taken += await worker.take()
                if len(taken) + sum(task.done() for task in tasks) < 2:
                    await fire(shard)
        assert not any(task.done() for task in tasks)  # the timer has fired, but has not ended
        await worker.settle(done(taken[0]), dead(taken[1]))

    assert {(await task).json["end"]["intent"] for task in tasks} == {"DELIVERED", "DEAD"}


async def test_a_cancel_through_another_gateway_ends_the_wait(dsn: str, api: Api) -> None:
    await api.post("/v1/timers", {**HOUR, "name": "n"})
    async with serving(dsn) as other:
        task = asyncio.create_task(api.get("/v1/timers/by-name/n/end?wait=PT30S"))
        await eventually(lambda: api.gateway.timer_ends.count == 1)
        assert (await other.post("/v1/timers/by-name/n/cancel")).status == 200

    answer = await task
    assert (answer.status, answer.json["intent"]) == (200, "CANCELED")


@pytest.mark.exhaustive
async def test_one_task_reads_the_log_for_a_thousand_waits(dsn: str, api: Api, shard: HolderClient) -> None:
    reads = 0
    rows = Session.rows

    async def count(self: Session, name: str, /, **values: Any) -> Any:
        nonlocal reads
        reads += name == "skim_ends"
        return await rows(self, name, **values)

    with mock.patch.object(Session, "rows", count):
        tasks = [asyncio.create_task(api.post("/v1/timers?wait=PT60S", {"delay": "PT3S"})) for _ in range(1_000)]
        while not all(task.done() for task in tasks):
            claimed = (await shard.take()).claimed
            await shard.fire(claimed)
            await asyncio.sleep(0.05)

    answers = [await task for task in tasks]
    assert [answer for answer in answers if answer.status != 201] == []
    assert {answer.json["end"]["intent"] for answer in answers} == {"TRIGGERED"}
    assert reads < 1_000


async def test_a_wait_for_a_timer_survives_a_lost_connection(dsn: str, api: Api, shard: HolderClient) -> None:
    key = (await api.post("/v1/timers", NOW)).json["timer_key"]
    task = asyncio.create_task(api.get(f"/v1/timers/{key}/end?wait=PT30S"))
    await eventually(lambda: reads_log(dsn))
    ended = "pg_terminate_backend(pid)) from pg_stat_activity where application_name like 'shardclock gate%'"
    assert await value(dsn, f"select count({ended}") >= 2
    await fire(shard)

    assert (await task).json["intent"] == "TRIGGERED"


async def test_an_end_between_the_check_and_the_wait_is_not_missed(api: Api, shard: HolderClient) -> None:
    key = (await api.post("/v1/timers", NOW)).json["timer_key"]
    looks = 0

    async def look_and_then_fire(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        found = await find_ends(*given)
        if looks == 2:  # the route makes the first check, and the task that then reads the log makes the second
            await fire(shard)
        return found

    with mock.patch.object(timer_ends, "find_ends", look_and_then_fire):
        assert (await api.get(f"/v1/timers/{key}/end?wait=PT30S")).json["intent"] == "TRIGGERED"
    assert looks == 2


async def test_a_stopping_gateway_ends_all_waits(dsn: str) -> None:
    async with serving(dsn) as api:
        task = asyncio.create_task(api.post("/v1/timers?wait=PT60S", HOUR))
        await eventually(lambda: api.gateway.timer_ends.count == 1)
        api.stop()
        answer = await task
    assert (answer.status, answer.json["end"]) == (201, None)


async def test_an_invalid_wait_is_refused_and_nothing_is_stored(dsn: str, api: Api) -> None:
    for wait in ("soon", "PT301S", "P1D", "-PT1S"):
        (await api.post(f"/v1/timers?wait={wait}", HOUR)).assert_problem("refused", 422, "wait", wait)
    assert await value(dsn, "select count(*) from shardclock.timers") == 0


async def test_while_postgres_is_away_a_wait_ends_after_its_timeout(api: Api) -> None:
    key = (await api.post("/v1/timers", HOUR)).json["timer_key"]
    with mock.patch.object(timer_ends, "log_end", side_effect=StoreUnavailable("away")):
        assert (await api.get(f"/v1/timers/{key}/end?wait=PT0.3S")).status == 204


async def test_a_short_wait_finds_an_ended_timer_and_loses_no_connection(
    dsn: str, api: Api, shard: HolderClient
) -> None:
    key = (await api.post("/v1/timers", NOW)).json["timer_key"]
    await fire(shard)
    assert (await api.get(f"/v1/timers/{key}/end?wait=PT1S")).status == 200
    rows, pids = Session.rows, "select array_agg(pid order by pid) from pg_stat_activity where application_name = $1"

    async def slowly(self: Session, name: str, /, **values: Any) -> Any:
        answer = await rows(self, name, **values)
        await asyncio.sleep(0.05 if name == "find_ends" else 0)
        return answer

    before = await value(dsn, pids, "shardclock gateway")
    with mock.patch.object(Session, "rows", slowly):
        assert (await api.get(f"/v1/timers/{key}/end?wait=PT0.001S")).json["intent"] == "TRIGGERED"
        assert (await api.post("/v1/timers?wait=PT0S", HOUR)).json["end"] is None
    assert await value(dsn, pids, "shardclock gateway") == before


async def test_a_repeated_request_may_have_another_wait(api: Api) -> None:
    first = await api.post("/v1/timers?wait=PT0.1S", HOUR, Idempotency_Key="k")
    again = await api.post("/v1/timers?wait=PT0.2S", HOUR, Idempotency_Key="k")
    assert (again.status, again.json["timer_key"]) == (201, first.json["timer_key"])


async def test_a_caller_that_disconnects_during_an_outage_ends_its_wait(dsn: str) -> None:
    async with serving(dsn) as api:
        with mock.patch.object(timer_ends, "log_end", side_effect=StoreUnavailable("away")):
            task = asyncio.create_task(api.post("/v1/timers?wait=PT60S", HOUR))
            await eventually(lambda: api.gateway.timer_ends.count == 1)
            task.cancel()
            await eventually(lambda: api.gateway.timer_ends.count == 0, within_s=20)


async def test_the_lag_of_the_log_reader_is_measured_while_callers_wait(api: Api) -> None:
    waiters = api.gateway.timer_ends
    assert waiters.behind_s == 0
    key = (await api.post("/v1/timers", HOUR)).json["timer_key"]
    with mock.patch.object(timer_ends, "skim_ends", side_effect=StoreUnavailable("it is away")):
        task = asyncio.create_task(api.get(f"/v1/timers/{key}/end?wait=PT30S"))
        await eventually(lambda: waiters.behind_s > 0.5)

    await eventually(lambda: 0 < waiters.behind_s < 0.5)
    await api.post(f"/v1/timers/{key}/cancel")
    assert (await task).json["intent"] == "CANCELED"
    await eventually(lambda: waiters.behind_s == 0)


async def hangs_up_never() -> Message:
    """Receive nothing from a caller."""
    await asyncio.Event().wait()
    return {}


def asked_of(api: Api, timer_key: int) -> asyncio.Task[LogRecord | None]:
    """Wait for a timer's end without a connection."""
    return asyncio.create_task(api.gateway.timer_ends.end_of(timer_key, hangs_up_never, within_s=5.0))


async def test_a_check_that_times_out_does_not_stop_the_log_reader(api: Api, shard: HolderClient) -> None:
    too_long = StoreUnavailable("it took too long")
    with mock.patch.object(timer_ends, "find_ends", side_effect=too_long) as look:
        task = asyncio.create_task(api.post("/v1/timers?wait=PT10S", NOW))
        # If a timer fires before the check, only the check finds the timer. The log is read for later firings.
        await eventually(lambda: look.called)
        await fire(shard)
        assert (await task).json["end"]["intent"] == "TRIGGERED"


async def test_a_check_that_times_out_is_retried_for_fewer_timers(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = await add_timers(dsn, 16, "now() + interval '1 hour'")
    await query(dsn, "select shardclock.cancel_timers($1)", keys)

    async def look(session: Session, timer_keys: Collection[int]) -> Any:
        if len(timer_keys) > 4:
            raise StoreUnavailable("it took too long")
        return await find_ends(session, timer_keys)

    monkeypatch.setattr(timer_ends, "AWAY_S", 0.01)
    monkeypatch.setattr(timer_ends, "find_ends", look)
    ends = await asyncio.gather(*(asked_of(api, key) for key in keys))
    assert [end and end.timer_key for end in ends] == keys


async def test_only_records_with_a_waiting_caller_are_read_in_full_and_in_small_batches(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_ends, "WHOLE_MAX", 3, raising=False)
    rows, whole = Session.rows, list[list[int]]()

    async def note(self: Session, name: str, /, **values: Any) -> Any:
        found = await rows(self, name, **values)
        if found and "payload" in found[0]:
            whole.append([row["timer_key"] for row in found])
        return found

    keys = await add_timers(dsn, 40, "now() + interval '1 hour'")
    ended_before, ended_meanwhile, others = keys[:7], keys[7:14], keys[14:]
    await query(dsn, "select shardclock.cancel_timers($1)", ended_before)
    with mock.patch.object(Session, "rows", note):
        tasks = [asked_of(api, key) for key in keys[:14]]
        await asyncio.wait(tasks[:7])  # one query checks the timers of all waits
        await query(dsn, "select shardclock.cancel_timers($1)", ended_meanwhile + others)
        ends = await asyncio.gather(*tasks)

    assert [end and end.timer_key for end in ends] == keys[:14]
    assert {key for some in whole for key in some} == set(keys[:14])
    assert max(map(len, whole)) <= 3
