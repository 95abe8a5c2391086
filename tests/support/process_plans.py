"""Fill a database with waiting instances, and count the rows that engines' statements read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import asyncpg

from shardclock_server.sql.statements import statement
from tests.support.plans import Prepared

WAITING = 3_000
FEW = list(range(1, 11))
CHANGED = ("timers", "deliveries", "tasks", "subscriptions", "instances", "incidents")
# Each instance has two tokens: the first waits for a timer, a task and a message, the second for a service task. A
# signal to each instance is deferred. The tables were never analyzed.
WAIT = """
with def as (
    insert into shardclock.definitions (
        definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
    )
    values (9999999, 'default', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]')
), i as (
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    select n, 9999999, 1, 'default', 'p', '{{}}' from generate_series(1, {waiting}) n
), t as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, tenant_id, timer_type, target, target_element_id
    )
    select n, 1, now() + interval '1 day', 'default', 'BOUNDARY', 'process:instance', 'b'
    from generate_series(1, {waiting}) n
), u as (
    insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)
    select n, n, 1, 'default', 'p', 'u', 'u' from generate_series(1, {waiting}) n
), s as (
    insert into shardclock.subscriptions (
        instance_key, token, is_once, kind, tenant_id, name, correlation, process_id, node_id
    )
    select n, 1, true, 'message', 'default', 'm', n::text, 'p', 'm' from generate_series(1, {waiting}) n
), x as (
    insert into shardclock.incidents (instance_key, token, node_id, sentence)
    select n, 3, 'x', 'no' from generate_series(1, {waiting}) n
)
insert into shardclock.deliveries (
    timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
    tenant_id, timer_type, target
)
select
    n + {waiting} * (kind = 'SERVICE_TASK')::integer, n, 2, now() + interval '1 h', now(), now(), 1, n % 840, 'default',
    kind, case when kind = 'USER' then 'process:instance' else 'charge' end
from generate_series(1, {waiting}) n
cross join unnest(array['USER', 'SERVICE_TASK']) kind
"""


async def fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(WAIT.format(waiting=WAITING))
    finally:
        await connection.close()


def steps(instance_keys: Sequence[int], **said: Any) -> list[dict[str, Any]]:
    step = {
        "was": 1, "definition_key": 9_999_999, "tenant_id": "default", "process_id": "p", "outcome": "COMPLETED",
        "result": {}, "signals": [], "passes": [],
    }  # fmt: skip
    return [{"instance_key": key, **step, **said} for key in instance_keys]


def literals(name: str, **values: Any) -> list[str]:
    """Write a statement's arguments, in their order."""
    return [_literal(values[parameter]) for parameter in statement(name).parameters]


def _literal(value: Any) -> str:
    match value:
        case bool() | int() | None:
            return "null" if value is None else str(value)
        case str():
            return f"'{value}'"
        case _:
            assert all(isinstance(key, int) for key in value)
            return f"'{{{', '.join(map(str, value))}}}'"


async def reading(of: Prepared, arguments: Sequence[str]) -> tuple[dict[str, float], set[str]]:
    """Count the rows that a statement reads from each table, and name its indexes."""
    readings = {table: await of.explain(*arguments, table=table) for table in CHANGED}
    rows = {table: it.rows for table, it in readings.items()}
    return rows, set().union(*(it.indexes for it in readings.values()))


def applying(**written: Any) -> list[str]:
    arrays = {name: written.pop(name, []) for name in ("signals", "signal_instances", "spent")}
    names = statement("apply_steps").parameters
    numbers = {"holder": 9, "descendants_max": 100}
    rows = {name: json.dumps(written.get(name, [])) for name in names if name not in numbers | arrays}
    return literals("apply_steps", **numbers, **arrays, **rows)


ALL_LANES: dict[str, Any] = {
    "tenants": [], "ahead_s": [], "after_tenant": "", "behind_tenants": [], "behind_at": [], "behind_key": [],
}  # fmt: skip
# Cancellations of instances with a deferred signal are due first, then starts, and signals to instances that have
# begun. Signals to 3,000 other instances are deferred, too.
DUE = """
insert into shardclock.deliveries (
    timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
    tenant_id, timer_type, target, payload, failed_attempts
)
select
    s.kind * 10000000 + n, case s.kind when 1 then null when 5 then 50000000 + n else n end, 2,
    now() + s.due + n * interval '1 ms', now(), now(), 1, 0, 'default', 'USER', 'process:instance', s.payload::jsonb,
    (s.due > interval '0')::integer
from generate_series(1, 3000) n
join (
    values
        (1, interval '-1 h', null, 3000),
        (2, interval '-1 h', null, 3000),
        (3, interval '1 h', null, 5),
        (4, interval '-2 h', '{"kind": "cancel"}', 5),
        (5, interval '1 h', null, 3000)
) s (kind, due, payload, n_max) on n <= s.n_max
"""
