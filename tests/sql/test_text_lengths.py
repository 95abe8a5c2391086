"""Shardclock refuses a text that is too short or too long, before the text reaches an index of Postgres."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.factories import query

# Random letters: Postgres compresses a repeated letter, so that it fits into an index.
LONG = "(select string_agg(md5(i::text), '') from generate_series(1, 400) i)"
REFUSED = {
    "1 to 200": [
        "publish_message({})",
        "publish_message({}, time_to_live => '1 hour')",
        "publish_message('paid', tenant_id => {}, time_to_live => '1 hour')",
        "throw_signal({})",
        "throw_signal('stop', tenant_id => {})",
    ],
    "0 to 200": ["publish_message('paid', {}, time_to_live => '1 hour')"],
}


@pytest.mark.parametrize("text", ["null", "''", "repeat('x', 201)", LONG])
@pytest.mark.parametrize(("call", "length"), [(call, length) for length, calls in REFUSED.items() for call in calls])
async def test_a_text_of_a_message_or_signal_has_a_length(dsn: str, call: str, length: str, text: str) -> None:
    asked = f"select shardclock.{call.format(text)}"
    if length == "0 to 200" and text == "''":
        assert await query(dsn, asked) == []
        return
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"is refused: give {length} characters"):
        await query(dsn, asked)


@pytest.mark.parametrize("text", ["''", "repeat('x', 201)", LONG])
@pytest.mark.parametrize("call", ["claim_task(7, {})", "complete_task(7, assignee => {})"])
async def test_an_assignee_has_a_length(dsn: str, call: str, text: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"assignee '.*' is refused: give 1 to 200 characters"):
        await query(dsn, f"select shardclock.{call.format(text)}")


@pytest.mark.parametrize(
    "lists", ["'{null}', '{}'", "'{}', '{a,null}'", "'{{1,2},{3,4}}', '{}'", "'{}', '{{a,b},{c,d}}'"]
)
async def test_a_move_with_a_null_or_a_list_inside_a_list_is_refused(dsn: str, lists: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="without nulls and without lists inside"):
        await query(dsn, f"select shardclock.move_tokens(7, {lists})")


async def test_a_shift_by_null_is_refused_and_moves_no_timer(dsn: str) -> None:
    await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H')")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="shift is null: give an ISO 8601 duration"):
        await query(dsn, "select shardclock.shift_timers(array(select timer_key from shardclock.timers), null)")


@pytest.mark.parametrize(
    "call",
    [
        "cancel_timer(name => 'it', reason => {})",
        "cancel_timer(timer_key => 404, reason => {})",
        "cancel_timers('{{7}}', {})",
        "pause_timer(name => 'it', reason => {})",
        "pause_timers('{{7}}', {})",
        "change_system_timer('pause', name => 'job:it', reason => {})",
        "cancel_process_instance(7, {})",
        "cancel_delivery(7, {})",
        "discard_dead_letters('{{7}}', {})",
        "cancel_job('it', {})",
        "disable_job('it', {})",
        "fail_service_task(7, 1, {})",
        "throw_service_task_error(7, 1, 'E', {})",
    ],
)
async def test_a_reason_has_at_most_a_thousand_characters(dsn: str, call: str) -> None:
    await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H', name => 'it', process_instance_key => 7)")
    sentence = r"reason 'x+… is refused: string should have at most 1000 characters"
    with pytest.raises(asyncpg.InvalidParameterValueError, match=sentence):
        await query(dsn, "select shardclock." + call.format("repeat('x', 1001)"))
    assert await query(dsn, "select from shardclock.command_log") == []


@pytest.mark.parametrize(
    "call",
    [
        "run_timer(name => 'it', operation => {})",
        "run_timers(array(select timer_key from shardclock.timers), {})",
        "shift_timers(array(select timer_key from shardclock.timers), 'PT1H', {})",
    ],
)
async def test_the_name_of_an_operation_fits_into_its_index(dsn: str, call: str) -> None:
    await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H', name => 'it')")
    sentence = r"operation '.*… is refused: string should have at most 200 characters"
    with pytest.raises(asyncpg.InvalidParameterValueError, match=sentence):
        await query(dsn, f"select shardclock.{call.format(LONG)}")
