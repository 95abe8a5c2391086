"""Rows of two tenants in each table with tenants' data; no tenant may see the other tenant's row."""

from __future__ import annotations

from tests.support.factories import query

KEYS = {"ada": 7, "eve": 8}
SECRET = "of-eve"  # only the rows of the tenant eve contain this text
# The inserts for each table. The tables of the second group have no tenant_id; each of their rows belongs to a row with
# a tenant_id.
ROWS = {
    "timers": """(timer_key, due_date, tenant_id, name, payload)
        values ({key}, '2099-01-01Z', '{tenant}', 'n', '"of-{tenant}"')""",
    "command_log": """(timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target,
        name, payload)
        values ({key}, now(), now(), 1, 'TRIGGERED', '{tenant}', 'USER', 'log', 'n', '"of-{tenant}"')""",
    "deliveries": """(timer_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type, target,
        name)
        values ({key}, now(), now(), now(), 1, {key}, '{tenant}', 'USER', 'webhook:n', 'of-{tenant}')""",
    "dead_letters": """(timer_key, due_date, created_at, fired_at, occurrence, claims, failed_attempts, slot, tenant_id,
        timer_type, target, reason)
        values ({key}, now(), now(), now(), 1, 1, 1, {key}, '{tenant}', 'USER', 'webhook:n', 'of-{tenant}')""",
    "endpoints": """(tenant_id, name, url, secrets)
        values ('{tenant}', 'n', 'https://of-{tenant}.invalid', '{{secret}}')""",
    "endpoint_attempts": """(tenant_id, name, timer_key, ended_at, attempt, duration_ms, body)
        values ('{tenant}', 'n', {key}, '2099-01-01Z', 1, 1, 'of-{tenant}')""",
    "event_subscriptions": "(tenant_id, endpoint, kinds) values ('{tenant}', 'n', '{{delivery.dead}}')",
    "event_throttles": """(tenant_id, endpoint, kind, subject, sent_at, waiting)
        values ('{tenant}', 'n', 'delivery.dead', 'of-{tenant}', now(), 0)""",
    "operator_events": """(tenant_id, kind, subject, sentence)
        values ('{tenant}', 'delivery.dead', 'of-{tenant}', 'it was given up')""",
    "tenants": "(tenant_id) values ('{tenant}')",
    "audit": """(role, interface, tenant_id, verb, parameters, outcome)
        values ('r', 'api', '{tenant}', 'cancel', '{{}}', 'done')""",
    "idempotent_requests": """(created_at, slot, status, tenant_id, idempotency_key, fingerprint, body)
        values (now(), shardclock.request_slot(now()), 201, '{tenant}', 'k', sha256('k'), '{{}}')""",
    "definitions": """(definition_key, tenant_id, process_id, version, name, resource, digest, model, starts)
        values ({key}, '{tenant}', 'n', 1, 'of-{tenant}', 'p.bpmn', sha256('p'), 'p', '[]')""",
    "instances": """(instance_key, definition_key, version, tenant_id, process_id, state)
        values ({key}, {key}, 1, '{tenant}', 'of-{tenant}',
            '{{"f": 1, "k": 2, "c": 0, "s": null, "t": [[1, "n", 0, 3]]}}')""",
    "subscriptions": """(definition_key, is_once, kind, tenant_id, name, process_id, node_id)
        values ({key}, false, 'message', '{tenant}', 'm', 'p', 'n')""",
    "messages": """(message_key, expires_at, tenant_id, name, correlation, variables)
        values ({key}, now(), '{tenant}', 'm', 'c', '{{}}')""",
    "process_starts": """(tenant_id, idempotency_key, process_id, instance_key) values ('{tenant}', 'k', 'p', {key})""",
    "business_keys": "(instance_key, tenant_id, business_key) values ({key}, '{tenant}', 'of-{tenant}')",
    "operations": """(request_id, due_at, matched, by_operator, tenant_id, verb, filter, change, interface, error)
        values (gen_random_uuid(), now(), 1, false, '{tenant}', 'cancel', '{{}}', '{{}}', 'api', 'of-{tenant}')""",
    "operation_pages": """(operation_id, page, tenant_id, keys)
        select operation_id, 0, tenant_id, '{{1}}' from shardclock.operations where tenant_id = '{tenant}'""",
    "tasks": """(task_key, instance_key, token, tenant_id, process_id, node_id, name)
        values ({key}, {key}, 1, '{tenant}', 'p', 'n', 'of-{tenant}')""",
}
PARTS = {
    "instance_steps": "(instance_key, version, holder, signals, passes) values ({key}, 1, 1, '[]', '[]')",
    "incidents": "(instance_key, token, node_id, sentence) values ({key}, 1, 'n', 'of-{tenant}')",
    "task_acts": "(task_key, instance_key, act, actor) values ({key}, {key}, 'CREATED', 'w')",
}
# Tables with rows of any tenant; only a session for all tenants sees them.
OPERATORS = {
    "records_aside": "(group_name, position, attempts, record) values ('{tenant}', {key}, 1, '{{}}')",
    "job_runs": "(timer_key, claims, job, attempt, scheduled_at, started_at) values ({key}, 1, 'j', 1, now(), now())",
}
TABLES = {**ROWS, **PARTS, **OPERATORS}


async def add_rows(dsn: str) -> None:
    for tenant, key in KEYS.items():
        for table, row in TABLES.items():
            await query(dsn, f"insert into shardclock.{table} {row.format(tenant=tenant, key=key)}")
    await query(dsn, "select setval('shardclock.timer_key_seq', $1)", max(KEYS.values()))  # as if already drawn


async def rows_of_eve(dsn: str) -> dict[str, list[str]]:
    """Read all rows of the tenant eve, except the audit, which also records other tenants' attempts."""
    found: dict[str, list[str]] = {}
    for table in ROWS.keys() - {"audit"}:
        asked = f"select to_jsonb(t)::text as row from shardclock.{table} t where tenant_id = 'eve' order by 1"
        found[table] = [row["row"] for row in await query(dsn, asked)]
    for table, key in (("instance_steps", "instance_key"), ("incidents", "instance_key"), ("task_acts", "task_key")):
        asked = f"select to_jsonb(t)::text as row from shardclock.{table} t where {key} = {KEYS['eve']} order by 1"
        found[table] = [row["row"] for row in await query(dsn, asked)]
    return found
