"""A worker calls and settles each due delivery, and releases uncalled deliveries when it stops."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import Any

import pytest

import shardclock_server.workers.deliveries
import shardclock_server.workers.settler
from shardclock import Completed, Failed
from shardclock_server.sql.cluster.holders import WORKER, Incarnation, end_holders
from shardclock_server.sql.deliveries.claim import (
    Claim,
    ClaimedDelivery,
    DeliveryScanResult,
    Renewal,
    claim_deliveries,
    renew_deliveries,
)
from shardclock_server.sql.deliveries.notifications import notify_of_deliveries
from shardclock_server.sql.deliveries.settle import Unsettled, settle_deliveries
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.worker import Worker
from tests.support.deliveries import HANDLER, bury, declare, deliver, deliveries
from tests.support.factories import HolderClient, query, value
from tests.support.handlers import FakeProcesses, spec_of
from tests.support.jobs import job_spec
from tests.support.roles import as_role
from tests.support.waiting import eventually
from tests.support.working import QUICK, assigned, ended, no_runs, working


async def test_each_delivery_is_called_once_and_settled(dsn: str, shard: HolderClient) -> None:
    processes = FakeProcesses()
    keys = await deliver(shard, 300)
    async with working(dsn, processes) as worker:
        await eventually(lambda: _is(dsn, 0))
        assert len(worker) == 0

    assert sorted(key for chunk in processes.chunks for key in chunk) == keys
    assert await ended(dsn) == {"DELIVERED": 300}
    assert worker.stats.counts() | {"claimed": 300, "delivered": 300, "lost": 0} == worker.stats.counts()


async def test_a_failing_delivery_is_tried_again_until_it_is_dead(dsn: str, shard: HolderClient) -> None:
    spec = spec_of(max_attempts=3, retry_min_s=0.001, retry_max_s=0.002)
    processes = FakeProcesses(lambda _: Failed("ValueError: no"))
    (key,) = await deliver(shard)
    async with working(dsn, processes, spec):
        await eventually(lambda: _is(dsn, 0))

    assert processes.chunks == [[key]] * 3
    assert await ended(dsn) == {"DEAD": 1}
    assert await value(dsn, "select reason from shardclock.dead_letters") == "ValueError: no (attempt 3 of 3)"


async def test_waiting_and_called_deliveries_are_handed_back_at_the_drain(dsn: str, shard: HolderClient) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    await deliver(shard, 6)
    spec = spec_of(is_async=False)
    async with working(dsn, processes, spec):
        await eventually(lambda: bool(processes.chunks))

    assert processes.started[0].killed
    async with working(dsn, FakeProcesses()):
        await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": 6}
    assert await value(dsn, "select count(*) from shardclock.deliveries where failed_attempts > 0") == 0


async def test_on_hold_waiting_deliveries_are_released_and_called_afterwards(dsn: str, shard: HolderClient) -> None:
    gate = asyncio.Event()
    processes = FakeProcesses(gate=gate)
    keys = await deliver(shard, 6)
    async with working(dsn, processes, spec_of(is_async=False)) as worker:
        await eventually(lambda: bool(processes.chunks))
        called = sorted(key for chunk in processes.chunks for key in chunk)
        assert len(called) < len(keys)
        await query(dsn, "update shardclock.identity set held_why = 'billing is down'")
        await eventually(lambda: len(worker) == len(called))
        gate.set()
        await eventually(lambda: _is(dsn, len(keys) - len(called)))
        await eventually(lambda: len(worker) == 0)
        assert sorted(key for chunk in processes.chunks for key in chunk) == called

        await query(dsn, "update shardclock.identity set held_why = null")
        await eventually(lambda: _is(dsn, 0))

    assert await ended(dsn) == {"DELIVERED": 6}
    assert sorted(key for chunk in processes.chunks for key in chunk) == keys


async def test_a_call_that_ends_soon_after_the_drain_began_is_recorded(dsn: str, shard: HolderClient) -> None:
    gate = asyncio.Event()
    processes = FakeProcesses(gate=gate)
    await deliver(shard)
    async with working(dsn, processes) as worker:
        await eventually(lambda: bool(processes.chunks))
        await worker.drain()
        asyncio.get_running_loop().call_later(0.2, gate.set)

    assert await ended(dsn) == {"DELIVERED": 1}


async def test_a_long_attempt_keeps_its_lease(dsn: str, shard: HolderClient) -> None:
    processes, thieves = FakeProcesses(gate=asyncio.Event()), FakeProcesses()
    settings = QUICK.model_copy(update={"delivery_lease_s": 3.0})
    await deliver(shard)
    async with working(dsn, processes, settings=settings):
        await eventually(lambda: bool(processes.chunks))
        first = (await deliveries(dsn))[0]["claimed_until"]
        async with working(dsn, thieves, settings=settings):
            await eventually(lambda: _later(dsn, first))
            assert thieves.chunks == []
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: _is(dsn, 0))

    assert await ended(dsn) == {"DELIVERED": 1}


async def test_a_lease_counts_from_postgres_s_time_of_the_claim(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = QUICK.model_copy(update={"delivery_lease_s": 2.0})
    late, called = list[Claim](), list[int]()

    async def claim_late(*given: Any, **named: Any) -> DeliveryScanResult:
        taken = await claim_deliveries(*given, **named)
        if taken.claimed and not late:
            late.extend(it.claim for it in taken.claimed)
            await asyncio.sleep(settings.delivery_lease_s)
        return taken

    def play(it: ClaimedDelivery) -> Completed:
        called.append(it.claims)
        return Completed()

    monkeypatch.setattr(shardclock_server.workers.deliveries, "claim_deliveries", claim_late)
    await deliver(shard)
    async with working(dsn, FakeProcesses(play), settings=settings):
        await eventually(lambda: _is(dsn, 0))

    assert len(late) == 1
    assert called == [2], "when the first answer came, another worker might have had it"


async def test_a_worker_that_was_declared_dead_stops_and_settles_no_more_deliveries(
    dsn: str, shard: HolderClient
) -> None:
    processes, next_ones = FakeProcesses(gate=asyncio.Event()), FakeProcesses()
    (key,) = await deliver(shard)
    async with working(dsn, processes) as worker:
        await eventually(lambda: bool(processes.chunks))
        async with HolderClient(dsn, holder=1) as hand:
            await end_holders(hand.session, [worker.holder], why="dead")
        assert processes.gate is not None
        async with working(dsn, next_ones):
            await eventually(lambda: bool(next_ones.chunks))
            processes.gate.set()
            await eventually(lambda: _is(dsn, 0))

    assert next_ones.chunks == [[key]]
    assert await ended(dsn) == {"DELIVERED": 1}


async def test_outcomes_during_an_outage_of_postgres_are_settled_afterwards(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0

    async def lost_once(*arguments: Any) -> Unsettled:
        nonlocal sent
        sent += 1
        lost = await settle_deliveries(*arguments)
        if sent == 1:
            raise StoreUnavailable("the answer was lost")
        return lost

    monkeypatch.setattr(shardclock_server.workers.settler, "settle_deliveries", lost_once)
    await deliver(shard)
    async with working(dsn, FakeProcesses()) as worker:
        await eventually(lambda: sent >= 2 and len(worker) == 0)

    assert await ended(dsn) == {"DELIVERED": 1}


async def test_an_outcome_with_a_refused_text_is_settled_without_the_text(dsn: str, shard: HolderClient) -> None:
    bad = (await deliver(shard, 20))[7]
    result = Completed("a NUL: \0")
    async with working(dsn, FakeProcesses(lambda it: result if it.timer_key == bad else Completed(1))) as worker:
        await eventually(lambda: _is(dsn, 0))
        await eventually(lambda: len(worker) == 0)

    rows = await query(dsn, "select timer_key, detail from shardclock.command_log where intent = 'DELIVERED'")
    details = {row["timer_key"]: json.loads(row["detail"]) for row in rows}
    assert len(details) == 20
    assert {key for key, detail in details.items() if "result" not in detail} == {bad}
    assert details[bad]["reason"].startswith("its result or its reason can't be stored: ")


async def test_an_outcome_that_postgres_always_refuses_delays_no_other_outcome(dsn: str, shard: HolderClient) -> None:
    # Given a dead letter with the key of a delivery
    keys = await deliver(shard, 20)
    await bury(dsn, 1)
    await query(dsn, "update shardclock.dead_letters set timer_key = $1", keys[3])
    processes = FakeProcesses(lambda it: Failed("no", "payload") if it.timer_key == keys[3] else Completed())
    async with working(dsn, processes) as worker:
        await eventually(lambda: _is(dsn, 1))
        await eventually(lambda: len(worker) == 0)

    assert await ended(dsn) == {"DELIVERED": 19}
    assert worker.stats.failures["settles"] >= 1
    assert worker.stats.lost >= 1


async def test_outcomes_are_kept_while_postgres_refuses_the_statement_itself(dsn: str, shard: HolderClient) -> None:
    await deliver(shard, 20)
    processes = FakeProcesses()
    await query(dsn, "alter table shardclock.command_log rename to away")
    async with working(dsn, processes) as worker:
        await eventually(lambda: worker.stats.failures["settles"] >= 2)
        assert len(worker) == 20
        await query(dsn, "alter table shardclock.away rename to command_log")
        await eventually(lambda: len(worker) == 0)

    assert await ended(dsn) == {"DELIVERED": 20}
    assert worker.stats.lost == 0
    assert sum(map(len, processes.chunks)) == 20, "none was called again"


async def test_a_worker_does_not_call_deliveries_that_it_has_lost(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = QUICK.model_copy(update={"delivery_lease_s": 0.6})
    processes, next_ones = FakeProcesses(gate=asyncio.Event()), FakeProcesses()
    keys = await deliver(shard, 3)
    async with working(dsn, processes, spec_of(is_async=False), settings) as worker:
        await eventually(lambda: processes.chunks == [keys[:1]])
        await eventually(lambda: len(worker) == 3)
        await query(dsn, "update shardclock.deliveries set claimed_until = now() - interval '1 min'")
        monkeypatch.setattr(DeliveryPlanner, "scan_of_known_lanes", lambda *_: None)
        monkeypatch.setattr(DeliveryPlanner, "search_pause_s", lambda *_: 600.0)
        await query(dsn, "update shardclock.deliveries set claims = claims + 1, claimed_by = 5")
        await eventually(lambda: len(worker) == 0)
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: worker.stats.lost == 1)
        assert len(worker.deliveries.handlers) == 0

    monkeypatch.undo()
    assert processes.chunks == [keys[:1]], "the others were not begun"
    async with working(dsn, next_ones):
        await query(dsn, "update shardclock.deliveries set claimed_until = now() - interval '1 min'")
        await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": 3}


async def test_a_delivery_with_an_ended_lease_is_not_called_but_claimed_again(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given that this worker has renewed no lease for longer than a lease lasts, and that there is no other worker
    async def away(*_: Any, **__: Any) -> Renewal:
        raise StoreUnavailable("away")

    settings = QUICK.model_copy(update={"delivery_lease_s": 0.6})
    processes = FakeProcesses(gate=asyncio.Event())
    keys = await deliver(shard, 3)
    async with working(dsn, processes, spec_of(is_async=False), settings) as worker:
        await eventually(lambda: processes.chunks == [keys[:1]] and len(worker) == 3)
        monkeypatch.setattr(shardclock_server.workers.deliveries, "renew_deliveries", away)
        monkeypatch.setattr(DeliveryPlanner, "scan_of_known_lanes", lambda *_: None)
        monkeypatch.setattr(DeliveryPlanner, "search_pause_s", lambda *_: 0.05)
        await eventually(lambda: len(worker.deliveries._leases.renewed_before(time.monotonic() - 0.7)) == 3)
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(worker.deliveries.handlers) == 0)

        # Then renewals succeed again before the next claim
        monkeypatch.setattr(shardclock_server.workers.deliveries, "renew_deliveries", renew_deliveries)
        await eventually(lambda: not worker.deliveries._leases.renewed_before(time.monotonic() - 0.7))
        monkeypatch.undo()

        await eventually(lambda: _is(dsn, 0))
    assert await ended(dsn) == {"DELIVERED": 3}


async def test_leases_are_not_renewed_while_outcomes_are_settled(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both statements lock the same rows in different orders. A deadlock costs a second.
    gate, settling, renewed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slowly(*arguments: Any) -> Unsettled:
        settling.set()
        await gate.wait()
        lost = await settle_deliveries(*arguments)
        settling.clear()
        return lost

    async def renew(*arguments: Any, **more: Any) -> Renewal:
        assert not settling.is_set()
        ours = await renew_deliveries(*arguments, **more)
        renewed.set()
        return ours

    monkeypatch.setattr(shardclock_server.workers.settler, "settle_deliveries", slowly)
    monkeypatch.setattr(shardclock_server.workers.deliveries, "renew_deliveries", renew)
    settings = QUICK.model_copy(update={"delivery_lease_s": 0.6})
    await deliver(shard)
    async with working(dsn, FakeProcesses(), settings=settings) as worker:
        await settling.wait()
        await eventually(lambda: bool(worker.deliveries._leases.renewed_before(time.monotonic() - 0.3)))
        assert not renewed.is_set()
        gate.set()
        await eventually(lambda: _is(dsn, 0))
        assert not worker.stats.failures


async def test_a_notification_right_after_another_one_is_not_lost(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a worker that claims only after notifications, with a pause of a second after each notification
    monkeypatch.setattr(shardclock_server.workers.deliveries, "NOTIFICATION_GAP_S", 1.0)
    settings = QUICK.model_copy(update={"delivery_poll_s": 600.0})
    processes = FakeProcesses()
    async with working(dsn, processes, settings=settings) as worker:
        await eventually(lambda: worker.deliveries._notifications._on is not None)
        (first,) = await deliver(shard)
        await notify_of_deliveries(shard.session)
        await eventually(lambda: processes.chunks == [[first]] and len(worker) == 0)

        (second,) = await deliver(shard)
        await notify_of_deliveries(shard.session)

        await eventually(lambda: processes.chunks == [[first], [second]])


async def test_a_handler_that_hangs_delays_no_other_handler(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, HANDLER, "cart.left")
    await deliver(shard, 500)
    gate = asyncio.Event()
    stuck, quick = FakeProcesses(gate=gate), FakeProcesses(lambda _: Completed())

    def start(spec: HandlerSpec) -> object:
        return (stuck if spec.target == HANDLER else quick)(spec)

    holder = secrets.randbits(62)
    incarnation = Incarnation(holder, WORKER, "test", "test", "test", "test", 1)
    handlers = [spec_of(concurrency=5), spec_of("cart.left")]
    worker = Worker(incarnation, QUICK, handlers, as_role(dsn, "shard"), start=start, start_run=no_runs)  # type: ignore[arg-type]
    run = asyncio.create_task(worker.run())
    await eventually(lambda: assigned(dsn, holder))
    await eventually(lambda: len(stuck.chunks) >= 1)
    await deliver(shard, 40, target="cart.left")
    await eventually(lambda: sum(map(len, quick.chunks)) == 40)

    assert len(worker) < 100, "the worker claims at most as many deliveries as it has places"
    await worker.drain()
    await run


async def test_a_worker_registers_its_handlers_targets_and_its_jobs_functions(dsn: str) -> None:
    incarnation = Incarnation(7, WORKER, "test", "test", "test", "test", 1)
    jobs = [job_spec(), job_spec("other")]
    worker = Worker(
        incarnation, QUICK, [spec_of()], as_role(dsn, "shard"), jobs=jobs, start=FakeProcesses(), start_run=no_runs
    )
    run = asyncio.create_task(worker.run())
    await eventually(lambda: value(dsn, "select count(*) from shardclock.holders"))

    (registered,) = await query(dsn, "select targets, functions from shardclock.holders")
    await worker.drain()
    await run

    assert tuple(registered) == ([HANDLER], ["app:refresh", "app:other"])


async def _is(dsn: str, count: int) -> bool:
    return bool(await value(dsn, "select count(*) = $1 from shardclock.deliveries", count))


async def _later(dsn: str, moment: object) -> bool:
    text = "select count(*) > 0 from shardclock.deliveries where claimed_until > $1::timestamptz + interval '1 s'"
    return bool(await value(dsn, text, moment))
