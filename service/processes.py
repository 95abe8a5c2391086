"""What clients do with processes: deploy models, start instances, look at them, and wait for their ends.

`bpmn` is imported by what reads a model or a state: most commands do neither, and it takes a tenth of a second.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from shardclock.jsonb import DEPTH_MAX, TOO_DEEP, UNREADABLE, is_too_deep
from shardclock_server.service.undeclared import undeclared_among
from shardclock_server.sql.deliveries.targets import declared_targets
from shardclock_server.sql.processes import definitions, instances
from shardclock_server.sql.processes.definitions import Deployed, DescribedProcess, StoredDefinition
from shardclock_server.sql.processes.instances import WholeInstance
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.refusal import Refusal

NOT_THERE = "P0002"  # the state with which the functions refuse what names nothing, in a sentence for users
UNKNOWN = "instance {key} is unknown: it is not in the list of instances, or ended and was forgotten"
STATE_LEVELS = 5  # of an instance's state, around its variables
FOLLOW_S = 0.05  # between two looks at an instance whose end somebody waits for

T = TypeVar("T")


class UnknownProcess(Refusal):
    """Refuse a process or an instance that is not there, in one sentence."""


class OverQuota(Refusal):
    """Refuse a write that passes a tenant's quota; `resource` names the quota."""

    def __init__(self, sentence: str, resource: str) -> None:
        super().__init__(sentence)
        self.resource = resource


@dataclass(frozen=True, slots=True)
class DeployedProcess(Deployed):
    """One process of a deployed model, with the types of its service tasks that nobody has declared.

    An app may declare their handlers later, and a program may take them without a declaration.
    """

    undeclared: tuple[str, ...]


async def deploy(session: Session, model: bytes, *, resource: str, tenant_id: str = "default") -> list[DeployedProcess]:
    """Read a model, and deploy its processes: all of them, or none.

    shape:   a process whose newest version is of the same file stays as it is
    errors:  InvalidModel      with each element that can't be run, and why
             StoreUnavailable  the outcome is unknown: call again
    """
    from shardclock_server.service.deployment import describe_processes

    return await deploy_described(session, model, describe_processes(model), resource=resource, tenant_id=tenant_id)


async def deploy_described(
    session: Session, model: bytes, processes: Sequence[DescribedProcess], *, resource: str, tenant_id: str
) -> list[DeployedProcess]:
    """Deploy the processes of a model as `describe_processes` has described them.

    errors:  Refusal           the times of a start event can't be kept
             StoreUnavailable  the outcome is unknown: call again
    """
    deployed = await _unless_refused(
        definitions.deploy_model(session, tenant_id=tenant_id, resource=resource, model=model, processes=processes)
    )
    task_types = {it.said["process_id"]: it.task_types for it in processes}
    declared = await declared_targets(session, tenant_id) if any(task_types.values()) else []
    return [
        DeployedProcess(**asdict(it), undeclared=undeclared_among(task_types[it.process_id], declared))
        for it in deployed
    ]


async def find_definition(session: Session, definition_key: int, *, tenant_id: str | None = None) -> StoredDefinition:
    """Find a version of a process, with its model as it was deployed. A deleted one is found while it is kept.

    errors:  UnknownProcess    there is none, or it is another tenant's
             StoreUnavailable  no answer in time
    """
    found = await definitions.read_definition(session, definition_key)
    if found is None or tenant_id not in (None, found.tenant_id):
        raise UnknownProcess(f"definition {definition_key} is unknown: look for its key in the list of processes")
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
    """Start an instance of a process; return its key. An engine begins it within milliseconds, if one is there.

    With an idempotency key, the same call within a day returns the same instance, and another business key is refused.
    An instance is found by its business key; several may have the same.

    errors:  UnknownProcess    it is not deployed
             Refusal           the variables have more than 1 MiB, the business key more than 255 characters, or only a
                               message, a signal or a timer begins it
             StoreUnavailable  the outcome is unknown: without a key, calling again may start a second one
    """
    return await _unless_refused(
        instances.start_process(
            session,
            process_id,
            variables=variables or {},
            tenant_id=tenant_id,
            version=version,
            idempotency_key=idempotency_key,
            business_key=business_key,
        )
    )


async def find(session: Session, instance_key: int, *, tenant_id: str | None = None) -> WholeInstance:
    """Find one instance, with what it waits for.

    errors:  UnknownProcess    there is none
             StoreUnavailable  no answer in time
    """
    if found := await instances.find_instance(session, instance_key, tenant_id=tenant_id):
        return found
    raise UnknownProcess(UNKNOWN.format(key=instance_key))


async def wait_for_end(
    session: Session, instance_key: int, *, within_s: float, tenant_id: str | None = None
) -> WholeInstance:
    """Wait until an instance has ended, or the time is over; return it as it is then.

    errors:  as `find`
    """
    deadline_s = time.monotonic() + within_s
    found = await find(session, instance_key, tenant_id=tenant_id)
    while found.found.ended_at is None and time.monotonic() < deadline_s:
        await asyncio.sleep(FOLLOW_S)
        found = await find(session, instance_key, tenant_id=tenant_id)
    return found


def why_not_canceled(instance_key: int, outcome: str) -> str:
    """Say why an instance was not told to end; `outcome` is as of `cancel_instance`, and not SENT."""
    if outcome == "NOT_FOUND":
        return UNKNOWN.format(key=instance_key)
    if outcome == "CANCELED":
        return f"instance {instance_key} was cancelled already"
    return f"instance {instance_key} has ended, it is {outcome}: there is nothing to cancel"


@dataclass(frozen=True, slots=True)
class NotTold:
    """Why an instance was not told something: the state that it has, NOT_FOUND if there is none, and a sentence."""

    state: str
    sentence: str


async def why_not_told(
    session: Session, instance_key: int, in_vain: str, *, runs: str = "", tenant_id: str | None = None
) -> NotTold:
    """Find out why an instance was not told something; `in_vain` is what can't be, `runs` the reason if it does run.

    errors:  StoreUnavailable  no answer in time
    """
    whole = await instances.find_instance(session, instance_key, tenant_id=tenant_id)
    if whole is None:
        return NotTold("NOT_FOUND", UNKNOWN.format(key=instance_key))
    state = whole.found.state
    if whole.found.ended_at is not None:
        return NotTold(state, f"instance {instance_key} has ended, it is {state}: {in_vain}")
    if state == "STARTING" and not whole.found.incidents:
        return NotTold(state, f"no engine has begun instance {instance_key} yet: {in_vain}")
    if state == "STARTING":
        redrive = f"redrive dead letter {instance_key}, or cancel the instance"
        return NotTold(state, f"the start of instance {instance_key} was given up: {redrive}")
    return NotTold(state, runs or f"instance {instance_key} has begun meanwhile: send it again")


async def _unless_refused(work: Awaitable[T]) -> T:
    try:
        return await work
    except StatementRefused as error:
        if error.sqlstate == NOT_THERE:
            raise UnknownProcess(str(error)) from None
        if error.is_over_quota:
            raise OverQuota(str(error), error.constraint) from None
        if error.is_for_users:
            raise Refusal(str(error)) from None
        raise


def variables_of(whole: WholeInstance) -> dict[str, Any] | None:
    """Return the variables of an instance's process while it runs.

    shape:   None: it has not begun, or has ended, or a newer release has written it
    """
    from shardclock_server.bpmn.step.state import ROOT

    return variables_at(whole.state, ROOT)


def local_variables_of(whole: WholeInstance) -> list[dict[str, Any]]:
    """List the variables that belong to a token and not to the process: those of input mappings, items, sub-processes.

    shape:   objects of `token`, `node_id` and `variables`, in the order of the tokens; empty where `variables_of` can't
             tell the variables
    """
    from shardclock_server.bpmn.step import StateTooNew, read_state
    from shardclock_server.bpmn.step.state import ROOT

    if whole.state is None or is_too_deep(whole.state, DEPTH_MAX + STATE_LEVELS):
        return []
    try:
        tokens = read_state(whole.state).tokens.values()
    except StateTooNew:
        return []
    return [
        {"token": it.key, "node_id": it.node_id, "variables": it.variables}
        for it in tokens
        if it.key != ROOT and it.variables
    ]


def variables_at(state: str | None, token: int) -> dict[str, Any] | None:
    """Return the variables that a token of an instance sees: its own, and those of the scopes around it.

    shape:   None: it is not there, or a newer release has written the instance's state; of a state that no client can
             read as JSON, an object that says why
    """
    from shardclock_server.bpmn.step import StateTooNew, read_state
    from shardclock_server.bpmn.step.variables import visible

    if state is None:
        return None
    if is_too_deep(state, DEPTH_MAX + STATE_LEVELS):
        return {UNREADABLE: f"it {TOO_DEEP}"}
    try:
        instance = read_state(state)
    except StateTooNew:
        return None
    found = instance.tokens.get(token)
    return None if found is None else visible(instance, found)
