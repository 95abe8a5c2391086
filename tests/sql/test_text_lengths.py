"""Shardclock limits the length and the depth of texts, and the bytes of a page."""

from __future__ import annotations

import json
from contextlib import nullcontext

import asyncpg
import pytest

from shardclock.jsonb import DEPTH_MAX
from shardclock_server.service import processes
from shardclock_server.sql.clients.search import PageLimits, TimerFilter, find_timers
from shardclock_server.sql.log.records import read_own
from shardclock_server.sql.processes.variables import write_variables
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.bpmn import model
from tests.support.factories import add_timers, query, value
from tests.support.sql_client import session as session_of

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


@pytest.mark.shared_database
@pytest.mark.parametrize("text", ["null", "''", "repeat('x', 201)", LONG])
@pytest.mark.parametrize(("call", "length"), [(call, length) for length, calls in REFUSED.items() for call in calls])
async def test_a_text_of_a_message_or_signal_has_a_length(dsn: str, call: str, length: str, text: str) -> None:
    asked = f"select shardclock.{call.format(text)}"
    if length == "0 to 200" and text == "''":
        assert await query(dsn, asked) == []
        return
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"is refused: give {length} characters"):
        await query(dsn, asked)


@pytest.mark.shared_database
@pytest.mark.parametrize("text", ["''", "repeat('x', 201)", LONG])
@pytest.mark.parametrize("call", ["claim_task(7, {})", "complete_task(7, assignee => {})"])
async def test_an_assignee_has_a_length(dsn: str, call: str, text: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"assignee '.*' is refused: give 1 to 200 characters"):
        await query(dsn, f"select shardclock.{call.format(text)}")


@pytest.mark.shared_database
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


@pytest.mark.shared_database
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
    await query(dsn, "select shardclock.ensure_timer(delay => 'PT1H', name => 'it', process_instance_key => 7)")
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


SENTENCE = r"is nested deeper than 100 levels; flatten it"
TASK = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


def nested(levels: int, form: str = "objects") -> str:
    opened, closed = {"objects": ('{"a":', "}"), "lists": ("[", "]")}[form]
    return opened * levels + "1" + closed * levels


def hollow(levels: int) -> str:
    """Write nested lists; the innermost is empty."""
    return "[" * levels + "]" * levels


@pytest.mark.shared_database
@pytest.mark.parametrize("text", [nested(DEPTH_MAX), nested(DEPTH_MAX, "lists"), hollow(DEPTH_MAX), "1", "null"])
async def test_the_depth_that_python_accepts_is_not_too_deep(dsn: str, text: str) -> None:
    assert await value(dsn, "select shardclock.is_too_deep($1::jsonb)", text) is False


@pytest.mark.shared_database
@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 300, 980, 3_000])
@pytest.mark.parametrize("write", [nested, hollow, lambda levels: f'[1, {{"b": [], "c": {nested(levels - 2)}}}]'])
async def test_one_level_more_is_too_deep(dsn: str, write: object, levels: int) -> None:
    assert await value(dsn, "select shardclock.is_too_deep($1::jsonb)", write(levels)) is True  # type: ignore[operator]


VERBS = {
    "start": "select shardclock.start_process('p', $1::jsonb)",
    "publish": "select shardclock.publish_message('m', '', $1::jsonb)",
    "keep": "select shardclock.publish_message('m', '', $1::jsonb, time_to_live => 'PT1H')",
    "throw": "select shardclock.throw_signal('s', $1::jsonb)",
    "variables": "select shardclock.set_variables(7, $1::jsonb)",
    "complete": "select shardclock.complete_task(7, $1::jsonb)",
    "service task": "select shardclock.complete_service_task(7, 1, $1::jsonb)",
    "error": "select shardclock.throw_service_task_error(7, 1, 'E', variables => $1::jsonb)",
    "timer": "select shardclock.schedule_timer(delay => 'PT1H', payload => $1::jsonb)",
    "named": "select shardclock.ensure_timer(name => 'n', delay => 'PT1H', payload => $1::jsonb)",
    "row": "insert into shardclock.timers (due_date, payload) values (now(), $1::jsonb)",
    "configure": "select shardclock.configure_job('j', $1::jsonb)",
    "run": "select shardclock.run_job('j', $1::jsonb)",
    "add": "select shardclock.add_job('k', 'j', config => $1::jsonb)",
    "apply": """select shardclock.apply_job(
        jsonb_build_object('name', 'k', 'function', 'a:b', 'config', $1::jsonb))""",
}
JOB = """
    insert into shardclock.jobs (name, function, zone, missed, overlap, priority, policy, declared)
    values ('j', 'a:b', 'UTC', 'fire_once', 'skip', 2, '{}', '{}')
"""


async def test_each_way_in_refuses_too_deep_json(dsn: str) -> None:
    await query(dsn, JOB)
    async with Session(dsn, application="test") as session:
        await processes.deploy(session, TASK, resource="p.bpmn")
    for call in VERBS.values():
        with pytest.raises(asyncpg.PostgresError, match=SENTENCE) as refused:
            await query(dsn, call, nested(DEPTH_MAX + 1))
        assert refused.value.sqlstate in ("22023", "23514"), call


@pytest.mark.parametrize("lists", [DEPTH_MAX - 1, DEPTH_MAX])
async def test_the_shortest_variables_that_are_too_deep_are_refused(dsn: str, lists: int) -> None:
    text = '{"":' + hollow(lists) + "}"
    refused = pytest.raises(asyncpg.PostgresError, match=SENTENCE) if lists == DEPTH_MAX else nullcontext()
    with refused:
        await query(dsn, "select shardclock.check_variables($1::jsonb)", text)


async def test_python_refuses_more_levels_in_the_same_words() -> None:
    write_variables(json.loads(nested(DEPTH_MAX)))
    for levels in (DEPTH_MAX + 1, 980, 5_000):
        deep: dict[str, object] = {}
        for _ in range(levels):
            deep = {"a": deep}
        with pytest.raises(Refusal, match=SENTENCE):
            write_variables(deep)


OURS = frozenset({"acme"})
TIMERS = 7
PAYLOAD = "to_jsonb(repeat('ä', 20))"  # 42 bytes as JSON text
PAUSE = "select shardclock.pause_timer(timer_key) from shardclock.timers"
CANCEL = "select shardclock.cancel_timer(timer_key) from shardclock.timers"
STATES = {"PENDING": [], "PAUSED": [PAUSE], "CANCELED": [CANCEL], "ENDED": [CANCEL]}


async def made(dsn: str, *statements: str) -> None:
    """Make timers with payloads of 42 bytes each, and one timer without a payload."""
    await add_timers(dsn, TIMERS, "now() + interval '1 hour'", tenant_id="'acme'", payload=PAYLOAD)
    await add_timers(dsn, 1, "now() + interval '2 hours'", tenant_id="'acme'")
    for statement in statements:
        await query(dsn, statement)


@pytest.mark.parametrize(("payload_bytes", "most"), [(1, 1), (42, 1), (43, 2), (100, 3), (10_000, TIMERS + 1)])
@pytest.mark.parametrize("state", STATES)
async def test_pages_of_timers_end_at_their_limit_of_bytes_and_have_each_timer_once(
    dsn: str, state: str, payload_bytes: int, most: int
) -> None:
    await made(dsn, *STATES[state])
    found: list[int] = []
    page, pages = None, 0
    async with session_of(dsn, "gateway") as session:
        session.serve(OURS)
        while pages == 0 or page is not None:
            part = await find_timers(
                session,
                state,
                TimerFilter(tenant_id="acme"),
                size=1_000,
                page=page,
                limits=PageLimits(payload_bytes=payload_bytes),
            )
            assert len(part.timers) <= most + 1  # the timer without a payload
            found += [timer.timer_key for timer in part.timers]
            page, pages = part.next, pages + 1
    assert len(found) == len(set(found)) == TIMERS + 1
    assert pages >= (TIMERS + 1) / (most + 1)


@pytest.mark.parametrize(("bytes_max", "most"), [(1, 1), (300, 2), (600, 3), (100_000, TIMERS + 1)])
async def test_pages_of_the_log_end_at_their_limit_of_bytes_and_have_each_record_once(
    dsn: str, bytes_max: int, most: int
) -> None:
    await made(dsn, CANCEL)
    found: list[int] = []
    position, last = 0, -1
    async with session_of(dsn, "gateway") as session:
        session.serve(OURS)
        while position > last:
            last = position
            page = await read_own(session, position, bytes_max=bytes_max)
            assert len(page.records) <= most
            found += [record.position for record in page.records]
            position = page.next
    assert len(found) == len(set(found)) == TIMERS + 1
