"""Fill a database for the console: a million timers, 100,000 dead letters, 200 versions of a process, a long log."""

from __future__ import annotations

import asyncpg

from tests.support.drawn_models import drawn_model
from tests.support.gateways import Api, serving
from tests.support.instances import write_instance

PENDING = 1_000_000
NAMED = 300_000
SCHEDULES = 10_000
DEAD_LETTERS = 100_000
VERSIONS = 200
INSTANCES = 50_000
RECORDS = 300_000
DELIVERIES = 20_000

HANDLERS = """
    insert into shardclock.handlers (target, reference, policy)
    select 'target.' || i, 'app:run', '{}' from generate_series(0, 39) i
"""
ENDPOINTS = """
    insert into shardclock.endpoints (tenant_id, name, url, secrets, policy, headers)
    select 'default', 'endpoint-' || i, 'https://example.com/' || i, '{whsec_x}', '{}', '{}'
    from generate_series(0, 199) i
"""
ATTEMPTS = """
    insert into shardclock.endpoint_attempts (
        tenant_id, name, timer_key, attempt, ended_at, status, duration_ms, failure, body
    )
    select
        'default', 'endpoint-' || i % 200, 20000000 + i, 1, now() + i * interval '1 ms', 200 + i % 3 * 150, 41,
        case when i % 3 > 0 then 'HTTP ' || 200 + i % 3 * 150 end, repeat('a line of an answer' || E'\n', 100)
    from generate_series(1, 4000) i
"""
TIMERS = """
    insert into shardclock.timers (due_date, created_at, name, target, payload)
    select
        now() + i * interval '1 second', now(), case when i <= $2 then 'order-' || i end,
        case when i % 10 = 0 then 'target.' || i % 40 else 'log' end, jsonb_build_object('order', i)
    from generate_series(1, $1) i
"""
OVERDUE = """
    insert into shardclock.timers (due_date, created_at)
    select now() - i * interval '1 second', now() - interval '1 hour' from generate_series(1, 500) i
"""
RULES = """
    insert into shardclock.timers (due_date, created_at, anchor, name, schedule, repetitions, target)
    select
        now() + i * interval '3 seconds', now(), now(), 'schedule-' || i, 'R/PT8H20M', -1,
        case when i % 10 = 0 then 'target.' || i % 40 else 'log' end
    from generate_series(1, $1) i
"""
PAUSES = """
    select shardclock.pause_timers(array(
        select timer_key from shardclock.timers where name like 'schedule-%' and timer_key % 50 = 0
    ))
"""
LETTERS = """
    insert into shardclock.dead_letters (
        timer_key, due_date, created_at, fired_at, died_at, occurrence, claims, failed_attempts, slot, tenant_id,
        timer_type, target, name, reason, payload, failures
    )
    select
        10000000 + i, now() - interval '2 days', now() - interval '2 days', now() - interval '2 days',
        now() - i * interval '1 second', 1, 9, 9, i % 840, 'default', 'USER', 'webhook:endpoint-' || i % 40,
        'letter-' || i, 'HTTP ' || 500 + i % 5 || ': the answer of call ' || i % 1000 || E'\nsecond line',
        jsonb_build_object('order', i),
        jsonb_build_array(jsonb_build_object('at', now(), 'attempt', 9, 'reason', 'HTTP 500', 'worker', 'w'))
    from generate_series(1, $1) i
"""
OPEN = """
    insert into shardclock.deliveries (
        timer_key, next_attempt_at, due_date, created_at, fired_at, occurrence, failed_attempts, slot, tenant_id,
        timer_type, target, name, failures
    )
    select
        20000000 + i, now() + interval '1 hour', now(), now(), now() - i * interval '1 second', 1, i / 60 % 3, i % 840,
        'default', 'USER', 'webhook:endpoint-' || i % 60, 'delivery-' || i,
        case when i / 60 % 3 > 0 then
            jsonb_build_array(jsonb_build_object('at', now(), 'attempt', 1, 'reason', 'timeout', 'worker', 'w'))
        end
    from generate_series(1, $1) i
"""
LOG = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, holder, intent, tenant_id, timer_type, target, name,
        schedule, process_instance_key, detail
    )
    select
        now() - ($1 - i) * interval '0.02 seconds', 30000000 + i, now() - ($1 - i) * interval '0.02 seconds',
        now() - interval '1 day', i / $2 + 1, 1, case i % 20 when 0 then 'CANCELED' else 'TRIGGERED' end, 'default',
        'USER', 'log', 'schedule-' || i % $2 + 1, 'R/PT8H20M', case when i % 3 = 0 then i / 100 end,
        case i % 20 when 0 then jsonb_build_object('reason', 'by hand') end
    from generate_series(1, $1) i
"""
DEFINITIONS = """
    insert into shardclock.definitions (
        definition_key, tenant_id, process_id, version, name, resource, digest, model, starts, deployed_at
    )
    select
        40000000 + i, 'default', d.process_id, i, d.name, d.resource, sha256(i::text::bytea), d.model, d.starts,
        now() - ($1 - i) * interval '1 hour'
    from generate_series(2, $1) i
    cross join shardclock.definitions d
    where d.version = 1
"""
RUNNING = """
    insert into shardclock.instances (
        instance_key, definition_key, version, tenant_id, process_id, state, started_at, ended_at, outcome, result
    )
    select
        50000000 + i, case when i % $2 = 0 then d.definition_key else 40000001 + i % $2 end, 2, 'default', d.process_id,
        case when i / $2 % 2 = 0 then s.state end, now() - i * interval '1 second',
        case when i / $2 % 2 = 1 then now() end,
        case when i / $2 % 2 = 1 then (array['COMPLETED', 'CANCELED'])[1 + (i % 10 = 0)::integer] end,
        case when i / $2 % 2 = 1 then '{"order": 42}'::jsonb end
    from generate_series(1, $1) i
    cross join (select d.definition_key, d.process_id from shardclock.definitions d where d.version = 1) d
    cross join (select i.state from shardclock.instances i where i.instance_key = 101) s
"""
BUSINESS_KEYS = """
    insert into shardclock.business_keys (instance_key, tenant_id, business_key)
    select i.instance_key, 'default', 'order-' || i.instance_key from shardclock.instances i
"""
JOBS = """
    insert into shardclock.jobs (name, function, schedule, last_start, last_finish, last_success, last_outcome, runs)
    select
        'job-' || i, 'app.jobs:run_' || i, '0 3 * * *', now() - interval '1 hour', now() - interval '59 minutes',
        now() - interval '59 minutes', 'SUCCEEDED', 100
    from generate_series(1, 200) i
"""
RUNS = """
    insert into shardclock.job_runs (
        timer_key, claims, job, outcome, attempt, scheduled_at, started_at, running_at, ended_at, log
    )
    select
        60000000 + i, 1, 'job-' || i % 200 + 1, case when i % 9 = 0 then 'FAILED' else 'SUCCEEDED' end, 1,
        now() - i * interval '10 minutes', now() - i * interval '10 minutes', now() - i * interval '10 minutes',
        now() - i * interval '10 minutes' + interval '1 minute', repeat('a line of a log' || E'\n', 200)
    from generate_series(1, 10000) i
"""
ACTS = """
    insert into shardclock.audit (recorded_at, role, interface, key_name, tenant_id, verb, parameters, outcome, address)
    select
        now() - i * interval '1 minute', 'gate', 'api', 'ann', 'default', 'endpoints disable',
        '{"name": "billing", "reason": "no answer"}', 'done', '10.0.0.7'
    from generate_series(1, 20000) i
"""
OPERATIONS = """
    insert into shardclock.operations (
        request_id, due_at, matched, changed, by_operator, tenant_id, verb, filter, change, interface, key_name, state,
        begun_at, ended_at
    )
    select
        gen_random_uuid(), now(), 9, 9, true, 'default', 'cancel', '{"name_prefix": "order-1"}', '{"reason": "night"}',
        'console', 'ann', 'DONE', now() - i * interval '1 minute', now() - i * interval '1 minute'
    from generate_series(1, 5000) i
"""
TASKS = """
    insert into shardclock.tasks (
        task_key, instance_key, token, tenant_id, process_id, node_id, name, assignee, candidate_groups
    )
    select 70000000 + i, 50000000 + 2 * i, 1, 'default', 'p', 'u', 'Approve the order', 'ann', '{shop}'
    from generate_series(1, 10000) i
"""
INCIDENTS = """
    insert into shardclock.incidents (instance_key, token, node_id, sentence)
    select 50000000 + 2 * i, 1, 'u', 'the expression total > 5 has no value' from generate_series(1, 1000) i
"""


async def add_instance(dsn: str, api: Api) -> None:
    """Deploy version 1 of a drawn process, and write its running instance 101."""
    text = drawn_model()
    deployed = await api.deploy(text)
    key = deployed.json["processes"][0]["definition_key"]
    await write_instance(dsn, key, text, {"order": 42})


async def fill_console(dsn: str) -> None:
    """Fill an empty database; triggers of tables don't run."""
    async with serving(dsn) as api:
        await add_instance(dsn, api)
    steps: tuple[tuple[str, tuple[int, ...]], ...] = (
        (HANDLERS, ()), (ENDPOINTS, ()), (ATTEMPTS, ()), (TIMERS, (PENDING - SCHEDULES - 500, NAMED)), (OVERDUE, ()),
        (RULES, (SCHEDULES,)), (PAUSES, ()), (LETTERS, (DEAD_LETTERS,)), (OPEN, (DELIVERIES,)),
        (LOG, (RECORDS, SCHEDULES)), (DEFINITIONS, (VERSIONS,)), (RUNNING, (INSTANCES, VERSIONS)), (BUSINESS_KEYS, ()),
        (TASKS, ()), (INCIDENTS, ()), (JOBS, ()), (RUNS, ()), (ACTS, ()), (OPERATIONS, ()),
    )  # fmt: skip
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("set session_replication_role = replica")
        for text, values in steps:
            await connection.execute(text, *values)
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()
