"""Prove that row-level security changes no plan: a gateway's statements use the same indexes, and read as few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from shardclock.log.record import UNDELIVERED
from shardclock_server.sql.log.ends import ENDS
from shardclock_server.sql.session import CLIENT_PLANS, Session
from shardclock_server.sql.statements import call_of, statement
from tests.conftest import VERSIONS
from tests.support.factories import ANCHOR, BOUND_S, add_timers, query
from tests.support.plans import INDEXES_USED, counting_rows_read
from tests.support.postgres import Server
from tests.support.roles import as_role

BIG = "big"
PAGE = 20
READ = counting_rows_read()
# The big tenant has 5,000 rows, and many small tenants together have 5,000.
TENANT = "case when i % 2 = 0 then 'big' else 'tenant-' || i % 500 end"
FILLED = (
    f"""insert into shardclock.deliveries
        (timer_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type, target)
        select 100000 + i, now(), now(), now(), 1, i % 840, {TENANT}, 'USER', 'webhook:n'
        from generate_series(1, 10000) i""",
    """insert into shardclock.definitions
        (definition_key, tenant_id, process_id, version, name, resource, digest, model, starts)
        values (1, 'big', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]')""",
    f"""insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
        select i, 1, 1, {TENANT}, 'p', '{{}}' from generate_series(1, 10000) i""",
    f"""insert into shardclock.instances
        (instance_key, definition_key, version, ended_at, tenant_id, process_id, outcome)
        select i, 1, 1, now(), {TENANT}, 'p', 'ERROR' from generate_series(20001, 30000) i""",
    f"""insert into shardclock.dead_letters
        (timer_key, due_date, created_at, fired_at, died_at, occurrence, claims, failed_attempts, slot, tenant_id,
            timer_type, target, reason, payload)
        select 40000 + i, now(), now(), now(), now(), 1, 0, 5, i % 840, {TENANT}, 'USER', 'process:instance', 'no',
            '{{"definition": 1}}'
        from generate_series(1, 10000) i""",
    f"""insert into shardclock.business_keys (instance_key, tenant_id, business_key)
        select i, {TENANT}, 'k' || i % 1000 from generate_series(1, 10000) i""",
    """insert into shardclock.instance_steps (instance_key, version, holder, signals, passes)
        select i, 1, 1, '[]', '[]' from generate_series(1, 10000) i""",
    f"""insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name, assignee)
        select i, i, 1, {TENANT}, 'p', 'n', 't', case when i % 100 = 0 then 'user-' || i % 1000 end
        from generate_series(1, 10000) i""",
    """insert into shardclock.task_acts (task_key, instance_key, act, actor)
        select i * case act when 'CREATED' then 1 else 2 end, i, act, 'w'
        from generate_series(1, 10000) i cross join unnest(array['CREATED', 'COMPLETED']) act""",
    f"""insert into shardclock.idempotent_requests
        (created_at, slot, status, tenant_id, idempotency_key, fingerprint, body)
        select now(), shardclock.request_slot(now()), 201, {TENANT}, 'k' || i, sha256('k'), '{{}}'
        from generate_series(1, 10000) i""",
)
SEARCH: dict[str, Any] = dict.fromkeys((
    "name", "name_prefix", "due_from", "due_before", "process_instance_key", "page", "target",
    "bytes", "changed_from", "changed_before", "order_by",
)) | {"state": "PENDING", "tenant_id": BIG, "page_size": PAGE, "only_schedules": False}  # fmt: skip
CONTAINING: dict[str, Any] = {
    **{name: it for name, it in SEARCH.items() if name not in ("name", "name_prefix", "page", "order_by")},
    "name_contains": "R-123", "after": "order-1", "names_max": 2_000,
}  # fmt: skip
STEP = 500
OF_TASKS: dict[str, Any] = dict.fromkeys(("candidate_groups", "candidate_user", "process_id")) | {
    "tenant_id": BIG, "after": 0, "page_size": PAGE,
}  # fmt: skip
TASKS = OF_TASKS | {"for_user": None, "unassigned": False, "rows_max": STEP}
TASKS_OF: dict[str, Any] = OF_TASKS | dict.fromkeys(("instance_key", "business_key", "assignee", "for_user")) | {
    "unassigned": False,
}  # fmt: skip
NAMED: dict[str, Any] = dict.fromkeys(("process_id", "state", "before")) | {
    "business_key": "k2", "tenant_id": BIG, "page_size": PAGE,
}  # fmt: skip
LISTED: dict[str, Any] = {"process_id": None, "before": None, "tenant_id": BIG, "page_size": PAGE}
WAITING: dict[str, Any] = dict.fromkeys(("node_id", "process_id", "business_key", "state", "after")) | {
    "definition_key": 1, "tenant_id": BIG, "instances_max": PAGE, "page_size": PAGE,
}  # fmt: skip
INCIDENTS: dict[str, Any] = dict.fromkeys(("process_id", "version", "containing")) | {
    "only_stopped": False, "tenant_id": BIG, "page_size": PAGE,
}  # fmt: skip
DELIVERIES: dict[str, Any] = dict.fromkeys(("after_target", "after_tenant", "after_at", "after_key")) | {
    "target": "webhook:n", "tenant_id": BIG, "failing": False, "delayed": False, "reason_line": None, "limit": PAGE,
}  # fmt: skip
ONE_NEW: dict[str, Any] = {name: [None] for name in statement("schedule_timers").parameters} | {
    "timer_keys": [90_000], "delays": ["1 hour"], "repetitions": [1], "tenant_ids": [BIG], "names": ["new"],
    "targets": ["log"], "timer_types": ["USER"], "zones": ["UTC"], "anchor_occurrences": [0], "drawn_at": ANCHOR,
}  # fmt: skip
KEY = {"timer_key": 1_000, "name": None, "tenant_id": BIG}
NAME = {"timer_key": None, "name": "order-1000", "tenant_id": BIG}
# Each statement, with the limit of rows that it may read. If a row is read twice, Postgres counts it twice.
ASKED: dict[str, tuple[str, dict[str, Any], int]] = {
    "timer_by_key": ("find_timer", KEY, 1),
    "timer_by_name": ("find_timer", NAME, 1),
    "ended_timer": ("find_timer", KEY | {"timer_key": 15_000}, 1),
    "records": ("records_of", KEY | {"timer_key": 15_000, "limit": PAGE}, 1),
    "end": ("find_ends", {"timer_keys": [15_000], "ends": ENDS, "undelivered": UNDELIVERED}, 1),
    "used_keys": ("used_keys", {"timer_keys": [1_000, 15_000]}, 2),
    "new_timer": ("schedule_timers", ONE_NEW, 0),
    "held_timers": ("hold_pending", {"timer_keys": [1_000, 1_002]}, 4),
    "timers": ("find_timers", SEARCH, PAGE),
    "timers_by_prefix": ("find_timers", SEARCH | {"name_prefix": "order-123"}, 11),
    "timers_by_part_of_the_name": ("find_containing", CONTAINING, 2_000 + 11),
    "ended_timers": ("find_timers", SEARCH | {"state": "ENDED"}, 2 * PAGE),
    "pending": ("count_pending", {"tenant_id": BIG, "most": PAGE}, PAGE),
    "page_of_the_log": ("end_of_page", {"after": 0, "page_size": PAGE}, PAGE),
    "deliveries": ("find_deliveries", DELIVERIES, PAGE),
    "tasks": ("find_tasks", TASKS, 3 * PAGE),
    "no_tasks_for_a_user": ("find_tasks", TASKS | {"for_user": "nobody"}, 2 * STEP),
    "tasks_of_an_assignee": ("find_tasks_of_assignee", OF_TASKS | {"assignee": "user-100"}, 2 * 10),
    "tasks_of_an_instance": ("find_tasks_of_instances", TASKS_OF | {"instance_key": 1_000}, 2),
    "tasks_of_a_business_key": ("find_tasks_of_instances", TASKS_OF | {"business_key": "k2"}, 3 * 10),
    "task": ("find_task", {"task_key": 1_000, "tenant_id": BIG, "acts_max": PAGE}, 8),
    "ended_task": ("find_task", {"task_key": 20_000, "tenant_id": BIG, "acts_max": PAGE}, 8),
    "instances_of_a_business_key": ("find_instances_by_business_key", NAMED, 3 * 10),
    "instances_that_failed": ("find_instances_by_outcome", LISTED | {"state": "ERROR"}, 4 * PAGE),
    "instances_that_run": ("find_instances_running", LISTED, 4 * PAGE),
    "instances_that_wait": ("find_instances_waiting", WAITING, 8 * PAGE),
    "waits_of_instances": ("waits_of_definition", {"definition_key": 1, "instances_max": PAGE}, 4 * PAGE),
    "instances_that_start": ("find_instances_starting", LISTED, 2 * PAGE + 1),
    "instances_with_incidents": ("find_instances_with_incident", LISTED, 2 * PAGE + 1),
    "incidents": ("find_incidents", INCIDENTS, 2 * PAGE + 1),
    "steps": ("steps_of", {"instance_key": 2, "after": 0, "page_size": PAGE}, 2),
    "request": ("find_requests", {"tenants": [BIG], "keys": ["k2"], "now": None}, 1),
}


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"postgres{version}")
def crowded(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database with many rows of many tenants; tests must not change the database."""
    with postgres(request.param).database(fill) as dsn:
        yield dsn


async def fill(dsn: str) -> None:
    due = "now() + i * interval '1 minute'"
    await add_timers(dsn, 10_000, due, tenant_id=TENANT, name="'order-' || i")
    keys = await add_timers(dsn, 10_000, due, tenant_id=TENANT, name="'order-' || i + 10000")
    await query(dsn, "select shardclock.cancel_timers($1)", keys)
    for text in FILLED:
        await query(dsn, text)
    await query(dsn, "vacuum analyze")


class StatementReading(NamedTuple):
    """The number of returned rows, the number of read rows, and the used indexes of a statement."""

    found: int
    rows: int
    indexes: list[str]


async def reading(dsn: str, role: str, name: str, values: dict[str, Any]) -> StatementReading:
    """Send a statement as a gateway does, on a new connection."""
    async with Session(as_role(dsn, role), application="test", timeout_s=BOUND_S, plans=CLIENT_PLANS) as session:
        session.serve(frozenset({BIG}))
        async with session.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                is_call = name == "end_of_page"
                asked = call_of(name, values) if is_call else statement(name).with_values(values)
                rows = await connection.fetch(*asked)
                return StatementReading(
                    len(rows), await connection.fetchval(READ), await connection.fetchval(INDEXES_USED) or []
                )
            finally:
                await transaction.rollback()


@pytest.mark.parametrize(("name", "values", "most"), ASKED.values(), ids=ASKED)
async def test_a_gateway_reads_as_few_rows_as_a_role_without_policies(
    crowded: str, name: str, values: dict[str, Any], most: int
) -> None:
    held, free = await reading(crowded, "gateway", name, values), await reading(crowded, "owner", name, values)

    assert held.found == free.found > 0
    assert held.rows <= most
    assert set(held.indexes) >= set(free.indexes)
