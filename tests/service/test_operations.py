"""A bulk operation continues page by page: each row is changed once, even if a process ends; a cancel ends it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.service.bulk_change import BulkChange, ChangeKind
from shardclock_server.service.bulk_run import NO_PROGRESS
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import redriving
from shardclock_server.service.operation_verbs import CANCEL, PAUSE, RESCHEDULE, change_keys
from shardclock_server.service.operations import NOW, cancel_operation, change_page, continue_operation
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.operations.operations import claim_operation, find_due_operation, take_page
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.refusal import Refusal
from tests.support.deliveries import HANDLER, bury, declare
from tests.support.factories import add_timers, query, value
from tests.support.operations import EACH, an_operator, begun, counts, shown
from tests.support.roles import OPERATOR
from tests.support.sql_client import session as opened

IN_A_DAY = "now() + interval '1 day'"


pytestmark = pytest.mark.usefixtures("small_pages")
ADD_PAGE = "insert into shardclock.operation_pages (operation_id, page, role, keys) values ($1, -1, 'eve', $2)"


async def intents_of(dsn: str) -> dict[str, int]:
    rows = await query(dsn, "select intent, count(*) from shardclock.command_log group by 1")
    return dict(map(tuple, rows))


async def test_if_a_gateway_dies_between_two_pages_another_gateway_continues(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 5, IN_A_DAY)
    async with opened(dsn, OPERATOR) as first:
        due = await begun(first, reason="closed")
        await continue_operation(first, due)
    assert await counts(operator, due) == ("RUNNING", 5, 2, 0)

    for _ in range(2):
        assert await find_due_operation(operator) == due
        await continue_operation(operator, due)

    assert await counts(operator, due) == ("DONE", 5, 5, 0)
    assert await find_due_operation(operator) is None
    assert await intents_of(dsn) == {"CANCELED": 5}
    assert await value(dsn, "select count(*) from shardclock.operation_pages") == 0


async def test_if_a_gateway_dies_before_the_commit_of_a_page_another_gateway_changes_the_page(
    dsn: str, operator: Session
) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    due = await begun(operator)
    async with opened(dsn, OPERATOR) as first, first.connection() as connection:
        await connection.execute("begin")
        assert await claim_operation(first, due.operation_id)
        keys = await take_page(first, due.operation_id)
        assert await change_keys(first, due.verb, due.change, keys) == keys
        await query(dsn, "select pg_terminate_backend($1)", connection.get_server_pid())

    for _ in range(2):
        await continue_operation(operator, due)

    assert await counts(operator, due) == ("DONE", 3, 3, 0)
    assert await intents_of(dsn) == {"CANCELED": 3}


async def test_two_gateways_do_not_change_one_operation_at_the_same_time(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    due = await begun(operator)
    async with opened(dsn, OPERATOR) as first:
        async with first.transaction():
            assert await claim_operation(first, due.operation_id)
            assert await find_due_operation(operator) is None
            await continue_operation(operator, due)
            assert await counts(operator, due) == ("RUNNING", 3, 0, 0)
        await continue_operation(first, due)
    await continue_operation(operator, due)

    assert await counts(operator, due) == ("DONE", 3, 3, 0)


async def test_a_cancel_keeps_the_changed_rows_and_does_not_change_the_remaining_rows(
    dsn: str, operator: Session
) -> None:
    await add_timers(dsn, 5, IN_A_DAY)
    due = await begun(operator, PAUSE)
    await continue_operation(operator, due)

    ended = await cancel_operation(operator, EACH, due.operation_id)
    await continue_operation(operator, due)

    assert (ended.state, ended.changed, ended.is_open) == ("CANCELED", 2, False)
    assert await counts(operator, due) == ("CANCELED", 5, 2, 0)
    assert await value(dsn, "select count(*) from shardclock.timers where paused_due_date is not null") == 2
    assert await value(dsn, "select count(*) from shardclock.operation_pages") == 0
    with pytest.raises(Refusal, match=f"operation {due.operation_id} is CANCELED already") as refusal:
        await cancel_operation(operator, EACH, due.operation_id)
    assert refusal.value.code.name == "operation_ended"
    with pytest.raises(Refusal, match="there is no operation 99"):
        await cancel_operation(operator, EACH, 99)


async def test_a_cancel_ends_the_run_of_the_process_that_began_the_operation(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 5, IN_A_DAY)
    bulk = BulkChange(an_operator(), TimerFilter(), ChangeKind(CANCEL, ("PENDING",)))
    await bulk.find(operator, NO_PROGRESS)
    await bulk.start(operator)
    assert bulk.operation_id is not None
    first, changed = await change_page(operator, bulk.operation_id, CANCEL, {})
    async with opened(dsn, OPERATOR) as other:
        await cancel_operation(other, EACH, bulk.operation_id)
    last, changed_later = await change_page(operator, bulk.operation_id, CANCEL, {})

    assert (first.state, last.state, last.changed) == ("RUNNING", "CANCELED", 2)
    assert (len(changed), len(changed_later)) == (2, 0)


async def test_a_gateway_continues_the_operation_of_a_process_that_is_silent(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    bulk = BulkChange(an_operator(), TimerFilter(), ChangeKind(CANCEL, ("PENDING",)))
    await bulk.find(operator, NO_PROGRESS)
    await bulk.start(operator)
    begun_at = await value(dsn, "select begun_at from shardclock.operations")
    assert await find_due_operation(operator, now=begun_at) is None, "its own process changes the pages"

    await query(dsn, "update shardclock.operations set due_at = now() - interval '1 min'")

    due = await find_due_operation(operator)
    assert due is not None
    assert (await shown(operator, due)).state == "INTERRUPTED"
    for _ in range(2):
        await continue_operation(operator, due)
    assert await counts(operator, due) == ("DONE", 3, 3, 0)


async def test_a_gateway_continues_an_operation_whose_clock_was_set_back(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 1, IN_A_DAY)
    due = await begun(operator)
    await query(dsn, "update shardclock.operations set due_at = now() + interval '1 day'")

    assert (await shown(operator, due)).state == "INTERRUPTED"
    assert await find_due_operation(operator) == due
    await continue_operation(operator, due)

    assert await counts(operator, due) == ("DONE", 1, 1, 0)


async def test_a_refused_page_ends_the_operation_with_the_reason(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 2, IN_A_DAY)
    await add_timers(dsn, 1, "'9999-12-31Z'")
    due = await begun(operator, RESCHEDULE, shift="P1D", operation="x")

    for _ in range(2):
        await continue_operation(operator, due)

    failed = await shown(operator, due)
    assert (failed.state, failed.changed) == ("FAILED", 2)
    assert "years 1 to 9999" in str(failed.error)
    assert await value(dsn, "select count(*) from shardclock.operation_pages") == 0


async def test_an_operation_that_gets_no_answer_waits_and_delays_no_other_operation(
    dsn: str, operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_timers(dsn, 2, IN_A_DAY)
    due = await begun(operator)

    async def fail(*_: Any) -> int:
        raise StoreUnavailable("gone")

    before = await read_clock(operator)
    with monkeypatch.context() as patch:
        patch.setattr("shardclock_server.service.operations.change_keys", fail)
        await continue_operation(operator, due)

    waiting = await shown(operator, due)
    assert (waiting.state, waiting.error, waiting.changed) == ("RUNNING", "gone", 0)
    assert await find_due_operation(operator, now=before) is None
    await query(dsn, "update shardclock.operations set due_at = now()")
    await continue_operation(operator, due)
    assert ((done := await shown(operator, due)).state, done.error) == ("DONE", None)


async def test_operations_take_turns(dsn: str, operator: Session) -> None:
    await add_timers(dsn, 4, IN_A_DAY)
    long = await begun(operator, PAUSE)
    await query(dsn, "update shardclock.operations set due_at = now() - interval '2 s'")
    await add_timers(dsn, 2, IN_A_DAY)
    bulk = BulkChange(an_operator(), TimerFilter(), ChangeKind(CANCEL, ("PENDING",)))
    await bulk.find(operator, NO_PROGRESS)
    await bulk.start(operator, due_in_s=NOW)

    assert await find_due_operation(operator) == long
    await continue_operation(operator, long)

    due = await find_due_operation(operator)
    assert due is not None
    assert due.operation_id == bulk.operation_id


async def test_with_a_rate_the_next_page_waits_until_the_previous_page_is_due(dsn: str, operator: Session) -> None:
    await declare(dsn, HANDLER)
    await bury(dsn, 30)
    run = DeadLetterRun(an_operator(), redriving(operator, per_s=2), DeadLetterFilter())
    await run.find(operator, NO_PROGRESS)
    await run.start(operator, due_in_s=NOW)
    due = await find_due_operation(operator)
    assert due is not None

    before = await read_clock(operator)
    await continue_operation(operator, due)

    assert await counts(operator, due) == ("RUNNING", 30, 20, 0)
    due_at = (await shown(operator, due)).due_at
    assert due_at >= before + timedelta(seconds=10), "20 letters, two a second"
    assert await find_due_operation(operator, now=due_at - timedelta(seconds=1)) is None
    assert await find_due_operation(operator, now=due_at) == due


async def test_an_operation_changes_no_page_that_another_login_has_added(dsn: str, operator: Session) -> None:
    (key,) = await add_timers(dsn, 1, IN_A_DAY)
    due = await begun(operator)
    (foreign,) = await add_timers(dsn, 1, IN_A_DAY)
    await query(dsn, ADD_PAGE, due.operation_id, [foreign])

    await continue_operation(operator, due)

    assert await counts(operator, due) == ("DONE", 1, 1, 0)
    assert await value(dsn, "select array_agg(timer_key) from shardclock.timers") == [foreign]
    assert key != foreign


async def test_if_a_gateway_ended_the_operation_the_run_reports_the_refusal_and_the_true_count(
    dsn: str, operator: Session
) -> None:
    await add_timers(dsn, 2, IN_A_DAY)
    await add_timers(dsn, 1, "'9999-12-31Z'")
    bulk = BulkChange(
        an_operator(), TimerFilter(), ChangeKind(RESCHEDULE, ("PENDING",), {"shift": "P1D", "operation": "x"})
    )
    await bulk.find(operator, NO_PROGRESS)
    await bulk.start(operator, due_in_s=NOW)
    due = await find_due_operation(operator)
    assert due is not None
    for _ in range(2):
        await continue_operation(operator, due)
    assert (await counts(operator, due))[0] == "FAILED"

    with pytest.raises(Refusal, match=f"operation {due.operation_id} is FAILED already") as refusal:
        await bulk.change_all(operator, NO_PROGRESS)

    assert refusal.value.code.name == "operation_ended"
    assert (bulk.changed, bulk.unsure) == (2, 0)


async def test_a_gateway_leaves_the_operations_of_another_login(dsn: str, session: Session, operator: Session) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    bulk = BulkChange(an_operator(), TimerFilter(), ChangeKind(CANCEL, ("PENDING",)))
    await bulk.find(session, NO_PROGRESS)
    await bulk.start(session, due_in_s=NOW)
    due = await find_due_operation(session)
    assert due is not None

    assert await find_due_operation(operator) is None
    await continue_operation(operator, due)

    assert await counts(operator, due) == ("RUNNING", 3, 0, 0)
