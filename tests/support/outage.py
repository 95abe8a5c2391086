"""Write the state of an installation during an outage into a database, with the answers to an operator's questions."""

from __future__ import annotations

import json

from shardclock_server.sql.cluster.holders import WORKER
from tests.support.deliveries import HANDLER, add_deliveries, bury, declare
from tests.support.factories import add_holder, add_schedule, add_timers, query
from tests.support.filled_console import add_instance
from tests.support.gateways import Api
from tests.support.job_runs import declare as declare_jobs
from tests.support.jobs import job_spec

FAILURES = [{"at": "2027-01-31T08:00:00+00:00", "attempt": 1, "reason": "HTTP 503: closed", "worker": "f00d"}]
ATTEMPTS = """
    insert into shardclock.endpoint_attempts (
        tenant_id, name, timer_key, ended_at, attempt, status, duration_ms, failure, body
    )
    select 'default', 'billing', 7, now() - interval '3 minutes', 4, 503, 41, 'HTTP 503', 'closed for the night'
"""
LETTERS = """
    update shardclock.dead_letters
    set tenant_id = 'default', reason = 'HTTP 503: closed', died_at = now() - interval '35 minutes'
"""
RUN = """
    insert into shardclock.job_runs (
        timer_key, claims, job, outcome, attempt, scheduled_at, started_at, running_at, ended_at, reason
    )
    values (
        9001, 1, 'nightly', 'FAILED', 1, now() - interval '20 hours', now() - interval '20 hours',
        now() - interval '20 hours', now() - interval '20 hours', 'no space left on the disk'
    )
"""
FIRED = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, schedule
    )
    select
        now() - interval '59 minutes', 500, now() - interval '1 hour', now() - interval '1 day', 6, 'TRIGGERED',
        'default', 'USER', 'log', 'beat', 'R/PT1H'
"""
INCIDENT = """
    insert into shardclock.incidents (instance_key, token, node_id, sentence, raised_at)
    values (101, 1, 'u', 'the expression total > 5 has no value', now() - interval '12 minutes')
"""
DEAD_KEEPER = """
    update shardclock.holders
    set ended_at = now() - interval '4 minutes', ended_why = 'dead', seen_at = now() - interval '4 minutes 6 seconds',
        host = 'rack-1', part = null, part_count = null
    where holder = 1
"""


async def break_down(dsn: str, api: Api) -> None:
    """Write the state of an outage in which each part of an installation has a fault."""
    await add_instance(dsn, api)
    await query(dsn, INCIDENT)

    await api.post("/v1/endpoints", {"name": "billing", "url": "https://billing.example.com/hooks"})
    failures = f"$${json.dumps(FAILURES)}$$::jsonb"
    failing = {"failed_attempts": "4", "failures": failures, "fired_at": "now() - interval '30 minutes'"}
    await add_deliveries(dsn, 3, "webhook:billing", tenant_id="'default'", **failing)
    await query(dsn, "update shardclock.endpoints set added_at = now() - interval '1 day'")
    await query(dsn, ATTEMPTS)
    await declare(dsn, HANDLER)
    await bury(dsn, 5, HANDLER)
    await query(dsn, LETTERS)

    await add_timers(dsn, 2, "now() - interval '90 seconds'", name="'late-' || i")
    await add_schedule(dsn, "R/PT1H", "now() + interval '1 minute'", occurrence="7")
    await query(dsn, FIRED)

    await declare_jobs(dsn, job_spec("nightly", every_s=3600.0))
    await query(dsn, "update shardclock.jobs set changed_at = now() - interval '1 day'")
    await query(dsn, RUN)

    await query(dsn, "insert into shardclock.tenants (tenant_id, timers_max) values ('shop', 3), ('toys', 9)")
    await add_timers(dsn, 3, "now() + interval '1 day'", tenant_id="'shop'")

    await add_holder(dsn, 1)
    await query(dsn, DEAD_KEEPER)
    await add_holder(dsn, 2)
    await query(dsn, "update shardclock.holders set host = 'rack-2' where holder = 2")
    await add_holder(dsn, 3, role=WORKER)
