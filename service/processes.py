"""Deploy models, start instances, find them, and wait for their ends.

Functions that read a model or a state import `bpmn` themselves, because the import takes a tenth of a second, and most
commands do not need `bpmn`.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from shardclock.api.refusals.processes import (
    INSTANCE_BEGAN,
    INSTANCE_ENDED,
    INSTANCE_GIVEN_UP,
    INSTANCE_STARTING,
    UNKNOWN_DEFINITION,
    UNKNOWN_INSTANCE,
)
from shardclock.jsonb import DEPTH_MAX, TOO_DEEP, UNREADABLE, is_too_deep
from shardclock_server.service.undeclared import undeclared_among
from shardclock_server.sql.deliveries.targets import declared_targets
from shardclock_server.sql.processes import definitions, instances
from shardclock_server.sql.processes.definitions import Deployed, DescribedProcess, StoredDefinition
from shardclock_server.sql.processes.instances import WholeInstance
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

if TYPE_CHECKING:
    from shardclock_server.bpmn.step.state import Token

STATE_LEVELS = 5  # An instance's state nests its variables in this many levels of JSON.
FOLLOW_S = 0.05  # The pause between two polls of an instance, while a client waits for its end.


@dataclass(frozen=True, slots=True)
class DeployedProcess(Deployed):
    """One process of a deployed model, with its service task types that are not declared.

    An app may declare handlers later, and programs may lease tasks of undeclared types.
    """

    undeclared: tuple[str, ...]


async def deploy(session: Session, model: bytes, *, resource: str, tenant_id: str = "default") -> list[DeployedProcess]:
    """Read a model, and deploy all of its processes or none.

    shape:   a process stays unchanged if its newest version comes from the same file
    errors:  InvalidModel      the message names each element that can't be run, and the reason
             StoreUnavailable  the outcome is unknown: call again
    """
    from shardclock_server.service.deployment import describe_processes

    return await deploy_described(session, model, describe_processes(model), resource=resource, tenant_id=tenant_id)


async def deploy_described(
    session: Session, model: bytes, processes: Sequence[DescribedProcess], *, resource: str, tenant_id: str
) -> list[DeployedProcess]:
    """Deploy the processes that `describe_processes` has described.

    errors:  StatementRefused  quota_definitions, quota_timers; or the dates of a timer start event can't be stored
             StoreUnavailable  the outcome is unknown: call again
    """
    deployed = await definitions.deploy_model(
        session, tenant_id=tenant_id, resource=resource, model=model, processes=processes
    )
    task_types = {it.description["process_id"]: it.task_types for it in processes}
    declared = await declared_targets(session, tenant_id) if any(task_types.values()) else []
    return [
        DeployedProcess(**asdict(it), undeclared=undeclared_among(task_types[it.process_id], declared))
        for it in deployed
    ]


async def find_definition(session: Session, definition_key: int, *, tenant_id: str | None = None) -> StoredDefinition:
    """Find a version of a process with its model. A deleted version is found until its data are removed.

    errors:  Refusal           unknown_definition
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await definitions.read_definition(session, definition_key)
    if found is None or tenant_id not in (None, found.tenant_id):
        raise Refusal.of(UNKNOWN_DEFINITION, definition_key=definition_key)
    return found


async def start(
    session: Session,
    process_id: str,
    *,
    variables: Mapping[str, Any] | None = None,
    tenant_id: str = "default",
    version: int | None = None,
    idempotency_key: str | None = None,
    business_key: str | None = None,
) -> int:
    """Start an instance of a process; return its key. A live engine starts the instance within milliseconds.

    For a day, a repeated call with the same idempotency key returns the same instance. A call with the same idempotency
    key and a different business key is refused. Several instances may have the same business key.

    errors:  StatementRefused  unknown_process, unknown_version, process_without_start, start_key_used, quota_instances,
                               invalid_variables, invalid_business_key
             StoreUnavailable  the outcome is unknown: a second call without idempotency key may start another instance
    """
    return await instances.start_process(
        session,
        process_id,
        variables=variables or {},
        tenant_id=tenant_id,
        version=version,
        idempotency_key=idempotency_key,
        business_key=business_key,
    )


async def find(session: Session, instance_key: int, *, tenant_id: str | None = None) -> WholeInstance:
    """Find one instance, with its open timers, tasks and subscriptions.

    errors:  Refusal           unknown_instance
             StoreUnavailable  Postgres did not answer within the timeout
    """
    if found := await instances.find_instance(session, instance_key, tenant_id=tenant_id):
        return found
    raise Refusal.of(UNKNOWN_INSTANCE, instance_key=instance_key)


async def wait_for_end(session: Session, instance_key: int, *, within_s: float) -> WholeInstance:
    """Wait until an instance has ended, but at most `within_s`; return the instance's present state.

    errors:  as `find`
    """
    deadline_s = time.monotonic() + within_s
    found = await find(session, instance_key)
    while found.found.ended_at is None and time.monotonic() < deadline_s:
        await asyncio.sleep(FOLLOW_S)
        found = await find(session, instance_key)
    return found


def not_canceled(instance_key: int, outcome: str) -> Refusal:
    """Return the refusal to cancel an instance; `outcome` is NOT_FOUND or the state of an ended instance."""
    code = UNKNOWN_INSTANCE if outcome == "NOT_FOUND" else INSTANCE_ENDED
    why = "there is nothing to cancel"
    return Refusal.of(code, instance_key=instance_key, state=outcome, why=why, members={"state": outcome})


async def not_sent(
    session: Session, instance_key: int, why: str, *, running: Refusal | None = None, tenant_id: str | None = None
) -> Refusal:
    """Return the refusal of a command; the code depends on the state of the instance.

    `why` is the part of the sentence that names the refused command; `running` is the refusal for a running instance.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    whole = await instances.find_instance(session, instance_key, tenant_id=tenant_id)
    state = "NOT_FOUND" if whole is None else whole.found.state
    if whole is None:
        code = UNKNOWN_INSTANCE
    elif whole.found.ended_at is not None:
        code = INSTANCE_ENDED
    elif state == "STARTING":
        code = INSTANCE_GIVEN_UP if whole.found.incidents else INSTANCE_STARTING
    elif running is not None:
        return running
    else:
        code = INSTANCE_BEGAN
    return Refusal.of(code, instance_key=instance_key, state=state, why=why, members={"state": state})


def variables_of(whole: WholeInstance) -> dict[str, Any] | None:
    """Return the process variables of a running instance.

    shape:   None: the instance has not started, has ended, or has a state that a newer release has written
    """
    from shardclock_server.bpmn.step.state import ROOT

    return variables_at(whole.state, ROOT)


def local_variables_of(whole: WholeInstance) -> list[dict[str, Any]]:
    """List the variables of all tokens except the process itself: of tasks, loops and sub-processes.

    shape:   objects of `token`, `node_id` and `variables`, in the order of the tokens; empty if the state can't be read
    """
    return [
        {"token": it.key, "node_id": it.node_id, "variables": it.variables}
        for it in _tokens_within(whole.state)
        if it.variables
    ]


def tokens_of(whole: WholeInstance) -> list[tuple[int, str]]:
    """List the tokens of a running instance, each with its node; the process itself is left out.

    shape:   in the order of the tokens; empty if the state can't be read
    """
    return [(it.key, it.node_id) for it in _tokens_within(whole.state)]


def _tokens_within(state: str | None) -> list["Token"]:
    from shardclock_server.bpmn.step import StateTooNew, read_state
    from shardclock_server.bpmn.step.state import ROOT

    if state is None or is_too_deep(state, DEPTH_MAX + STATE_LEVELS):
        return []
    try:
        return [it for it in read_state(state).tokens.values() if it.key != ROOT]
    except StateTooNew:
        return []


def variables_at(state: str | None, token: int) -> dict[str, Any] | None:
    """Return the variables that a token of an instance sees: its own, and the variables of enclosing scopes.

    shape:   None: the token is gone, or a newer release has written the state. If the state is nested too deeply to be
             read, an object with the reason
    """
    from shardclock_server.bpmn.step import StateTooNew, read_state
    from shardclock_server.bpmn.step.variables import visible_variables

    if state is None:
        return None
    if is_too_deep(state, DEPTH_MAX + STATE_LEVELS):
        return {UNREADABLE: f"it {TOO_DEEP}"}
    try:
        instance = read_state(state)
    except StateTooNew:
        return None
    found = instance.tokens.get(token)
    return None if found is None else visible_variables(instance, found)
