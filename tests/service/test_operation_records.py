"""Each bulk operation leaves one record: it is started once, found by filter, and deleted after 400 days."""

from __future__ import annotations

from typing import Any

import pytest

from shardclock_server.service.bulk_change import BulkChange, ChangeKind
from shardclock_server.service.bulk_run import NO_PROGRESS
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import redriving
from shardclock_server.service.deliveries import retry_many
from shardclock_server.service.operation_verbs import CANCEL, PAUSE
from shardclock_server.service.operations import NOW, cancel_operation, page_of
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter
from shardclock_server.sql.deliveries.find import DeliveryFilter
from shardclock_server.sql.operations.operations import OperationFilter, forget_operations
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.deliveries import HANDLER, bury, declare
from tests.support.factories import add_timers, query, value
from tests.support.operations import EACH, an_operator, begun, shown
from tests.support.sql_client import session as opened

IN_A_DAY = "now() + interval '1 day'"


pytestmark = pytest.mark.usefixtures("small_pages")


async def test_a_repeated_begin_finds_its_operation(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    actor, numbers = an_operator(), []
    for _ in range(2):
        bulk = BulkChange(actor, TimerFilter(), ChangeKind(CANCEL, ("PENDING",)))
        await bulk.find(operator, NO_PROGRESS)
        await bulk.start(operator, due_in_s=NOW)
        numbers.append(bulk.operation_id)

    assert numbers[0] == numbers[1]
    assert await value(dsn, "select count(*) from shardclock.operation_pages") == 2


async def test_a_change_that_needs_one_step_is_recorded_as_an_ended_operation(dsn: str, operator: Session) -> None:
    await declare(dsn, HANDLER)
    await bury(dsn, 3)
    run = DeadLetterRun(an_operator(), redriving(operator), DeadLetterFilter())
    await run.run(operator, NO_PROGRESS, dry_run=False)
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() + interval '1 h'")

    changed = await retry_many(operator, DeliveryFilter(HANDLER), dry_run=False, by=an_operator())
    would = await retry_many(operator, DeliveryFilter(HANDLER), dry_run=True, by=an_operator())

    assert would.operation_id is None
    found = (await page_of(operator, EACH, size=10)).operations
    assert [(it.operation_id, it.verb, it.state, it.changed) for it in found] == [
        (changed.operation_id, "deliveries retry", "DONE", 3),
        (run.operation_id, "dead-letters redrive", "DONE", 3),
    ]
    assert found[0].filter == f'{{"target": "{HANDLER}"}}'


async def test_operations_are_found_by_their_verb_actor_and_state_page_by_page(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    first = await begun(operator, PAUSE)
    await cancel_operation(operator, EACH, first.operation_id)
    second = await begun(operator, CANCEL, reason="closed")

    async def numbers(**wanted: Any) -> list[int]:
        return [it.operation_id for it in (await page_of(operator, OperationFilter(**wanted), size=9)).operations]

    role = (await shown(operator, first)).role
    assert await numbers() == [second.operation_id, first.operation_id]
    assert await numbers(verb="pause") == await numbers(state="CANCELED") == [first.operation_id]
    assert await numbers(actor=role) == await numbers()
    assert await numbers(actor=role, of_operators=False) == await numbers(tenant_id="x", of_all=False) == []
    page = await page_of(operator, EACH, size=1)
    rest = await page_of(operator, EACH, size=1, page=page.next)
    assert [it.operation_id for it in rest.operations] == [first.operation_id]
    assert (await shown(operator, second)).reason == "closed"
    wrongs: list[tuple[dict[str, Any], str]] = [({"state": "x"}, "RUNNING"), ({}, "not from a list of operations")]
    for wrong, words in wrongs:
        with pytest.raises(Refusal, match=words):
            await page_of(operator, OperationFilter(**wrong), size=1, page="x")


async def test_an_operation_is_deleted_400_days_after_its_end(dsn: str) -> None:
    async with opened(dsn, "gateway") as gateway:
        await add_timers(dsn, 3, IN_A_DAY)
        for days in (0, 399, 401):
            due = await begun(gateway, PAUSE)
            await cancel_operation(gateway, EACH, due.operation_id)
            await query(
                dsn,
                "update shardclock.operations set ended_at = now() - $1 * interval '1 day' where operation_id = $2",
                days,
                due.operation_id,
            )

        assert await forget_operations(gateway) == 1
    assert await value(dsn, "select count(*) from shardclock.operations") == 2
