"""Start, find and signal instances, for clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from shardclock.jsonb import stored_json
from shardclock_server.sql.processes.variables import write_variables
from shardclock_server.sql.session import Session

# The states by which clients search for instances. ENDED means any outcome; INCIDENT means that the instance has an
# incident.
StateFilter = Literal["STARTING", "RUNNING", "COMPLETED", "CANCELED", "ERROR", "ENDED", "INCIDENT"]


@dataclass(frozen=True, slots=True)
class FoundInstance:
    """One instance; `version` is the version of its process, and `state` is RUNNING, COMPLETED, CANCELED or ERROR.

    An instance that no engine has begun yet is STARTING.
    """

    instance_key: int
    tenant_id: str
    process_id: str
    version: int
    state: str
    started_at: datetime
    ended_at: datetime | None
    parent_key: int | None
    incidents: int
    business_key: str | None


@dataclass(frozen=True, slots=True)
class WholeInstance:
    """One instance, with the timers, tasks, messages and calls for which it waits."""

    found: FoundInstance
    definition_key: int
    error_code: str | None
    state: str | None
    result: dict[str, Any] | None
    waits: Mapping[str, Sequence[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class FoundStep:
    """One step of an instance: the signals that the instance has processed, and the moves of its tokens.

    shape:   the fields have the same meaning as the columns of instance_steps
    """

    version: int
    stepped_at: datetime
    signals: list[dict[str, Any]]
    passes: list[list[Any]]


WAITS = ("timers", "service_tasks", "tasks", "subscriptions", "called", "incident_list")


async def start_process(
    session: Session,
    process_id: str,
    *,
    variables: Mapping[str, Any],
    tenant_id: str,
    version: int | None = None,
    idempotency_key: str | None = None,
    business_key: str | None = None,
) -> int:
    """Start an instance, and return its key; an engine begins the instance soon.

    errors:  StoreUnavailable  the outcome is unknown: with an idempotency key, call again
             StatementRefused  the process is unknown, the variables are too large, or the business key is too long
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/start_process.sql
    """
    instance_key = await session.call_one(
        "start_process",
        process_id=process_id,
        variables=write_variables(variables),
        tenant_id=tenant_id,
        version=version,
        idempotency_key=idempotency_key,
        business_key=business_key,
    )
    return int(instance_key)


async def find_instances(
    session: Session,
    *,
    tenant_id: str | None = None,
    process_id: str | None = None,
    business_key: str | None = None,
    state: StateFilter | None = None,
    before: int | None = None,
    page_size: int = 100,
) -> list[FoundInstance]:
    """Find instances, newest first; only a search by business key or state finds an instance that no engine has begun.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/find_instances.sql, sql/processes/find_instances_by_business_key.sql,
             sql/processes/find_instances_with_incident.sql, sql/processes/find_instances_by_outcome.sql,
             sql/processes/find_instances_starting.sql, sql/processes/find_instances_running.sql
    """
    filters = {"tenant_id": tenant_id, "process_id": process_id, "before": before, "page_size": page_size}
    # Each filter has a separate statement, because a generic plan for all filters would read many rows for a rare
    # state.
    if business_key is not None:
        rows = await session.rows("find_instances_by_business_key", business_key=business_key, state=state, **filters)
    elif state == "INCIDENT":
        rows = await session.rows("find_instances_with_incident", **filters)
    elif state == "STARTING":
        rows = await session.rows("find_instances_starting", **filters)
    elif state == "RUNNING":
        rows = await session.rows("find_instances_running", **filters)
    elif state in ("CANCELED", "ERROR"):
        rows = await session.rows("find_instances_by_outcome", state=state, **filters)
    else:
        rows = await session.rows("find_instances", state=state, **filters)
    return [FoundInstance(*row) for row in rows]


async def find_instance(session: Session, instance_key: int, *, tenant_id: str | None = None) -> WholeInstance | None:
    """Find one instance; None: the key is unknown.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/find_instance.sql
    """
    row = await session.row("find_instance", instance_key=instance_key, tenant_id=tenant_id)
    if row is None:
        return None
    values = list(row)
    count = len(FoundInstance.__slots__)
    definition_key, error_code, state, result, *waits = values[count:]
    return WholeInstance(
        FoundInstance(*values[:count]),
        definition_key,
        error_code,
        state,
        result and stored_json(result),
        dict(zip(WAITS, map(stored_json, waits), strict=True)),
    )


async def ended_instances(session: Session, instance_keys: Sequence[int]) -> list[int]:
    """Find the ended instances among the given instances.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/ended_instances.sql
    """
    return [int(row["instance_key"]) for row in await session.rows("ended_instances", instance_keys=instance_keys)]


async def steps_of(session: Session, instance_key: int, *, after: int = 0, page_size: int = 1_000) -> list[FoundStep]:
    """Read the steps of an instance, in order.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/steps_of.sql
    """
    rows = await session.rows("steps_of", instance_key=instance_key, after=after, page_size=page_size)
    return [
        FoundStep(row["version"], row["stepped_at"], stored_json(row["signals"]), stored_json(row["passes"]))
        for row in rows
    ]


async def cancel_instance(session: Session, instance_key: int, *, tenant_id: str | None = None) -> str:
    """Request the cancellation of an instance; return SENT, its outcome if it has ended, or NOT_FOUND.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/cancel_instance.sql
    """
    return str(await session.call_one("cancel_instance", instance_key=instance_key, tenant_id=tenant_id))


async def resolve_incident(session: Session, instance_key: int, token: int, *, tenant_id: str | None = None) -> bool:
    """Resume a stopped token; False: the token has no incident.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/resolve_incident.sql
    """
    return await _sent(session, "resolve_incident", instance_key=instance_key, token=token, tenant_id=tenant_id)


async def set_variables(
    session: Session, instance_key: int, variables: Mapping[str, Any], *, token: int = 1, tenant_id: str | None = None
) -> bool:
    """Set variables of a token; token 1 is the process itself. Return False if the instance has ended or is unknown.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/set_variables.sql
    """
    return await _sent(
        session,
        "set_variables",
        instance_key=instance_key,
        variables=write_variables(variables),
        token=token,
        tenant_id=tenant_id,
    )


async def move_tokens(
    session: Session,
    instance_key: int,
    *,
    terminated: Sequence[int] = (),
    begun: Sequence[str] = (),
    tenant_id: str | None = None,
) -> bool:
    """End tokens and begin other tokens in one change; return False if the instance has ended or is unknown.

    errors:  StoreUnavailable  the outcome is unknown
    source:  sql/functions/processes/move_tokens.sql
    """
    return await _sent(
        session,
        "move_tokens",
        instance_key=instance_key,
        terminated=list(terminated),
        begun=list(begun),
        tenant_id=tenant_id,
    )


async def publish_message(
    session: Session,
    name: str,
    *,
    correlation: str,
    variables: Mapping[str, Any],
    tenant_id: str,
    time_to_live_s: float = 0.0,
) -> list[int]:
    """Publish a message; return the instances that get the message now.

    errors:  StoreUnavailable  the outcome is unknown
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/publish_message.sql
    """
    rows = await session.call(
        "publish_message",
        name=name,
        correlation=correlation,
        variables=write_variables(variables),
        tenant_id=tenant_id,
        time_to_live=timedelta(seconds=time_to_live_s),
    )
    return [row[0] for row in rows]


async def throw_signal(session: Session, name: str, *, variables: Mapping[str, Any], tenant_id: str) -> list[int]:
    """Throw a signal; return the instances that get the signal.

    errors:  StoreUnavailable  the outcome is unknown
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/throw_signal.sql
    """
    rows = await session.call("throw_signal", name=name, variables=write_variables(variables), tenant_id=tenant_id)
    return [row[0] for row in rows]


async def _sent(session: Session, verb: str, **values: object) -> bool:
    return bool(await session.call_one(verb, **values) == "SENT")
