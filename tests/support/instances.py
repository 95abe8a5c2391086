"""Insert an instance of a deployed process, as an engine writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from shardclock_server.bpmn.model import read_model
from shardclock_server.bpmn.step import begin, write_state
from tests.support.factories import query

INSTANCE = """
    insert into shardclock.instances (
        instance_key, definition_key, version, tenant_id, process_id, state, outcome, ended_at
    )
    values (101, $1, 1, 'default', 'p', $2, $3::text, case when $3 is not null then now() end)
"""


async def write_instance(
    dsn: str, key: int, model: bytes, variables: dict[str, Any] | None = None, *, outcome: str | None = None
) -> None:
    """Insert instance 101 of a definition after its first step, or after its end with an outcome."""
    instance, _ = begin(read_model(model)[0], variables or {}, now=datetime.now(UTC))
    await query(dsn, INSTANCE, key, write_state(instance) if outcome is None else None, outcome)
