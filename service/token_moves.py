"""Move tokens of an instance, and set variables of tokens; refuse an impossible request before a signal is sent."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice

from shardclock_server.bpmn.model import Definition, read_model
from shardclock_server.bpmn.step import Instance, StateTooNew, read_state
from shardclock_server.bpmn.step.moves import scopes_for
from shardclock_server.bpmn.step.state import ROOT
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.feel import Json
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.definitions import StoredDefinition, read_definition
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

LISTED_MAX = 20  # one sentence names at most this many tokens or nodes


async def model_of(session: Session, instance_key: int, *, tenant_id: str | None = None) -> StoredDefinition | None:
    """Read the model of a running instance; None: the instance has not started, has ended or does not exist.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await instances.find_instance(session, instance_key, tenant_id=tenant_id)
    return None if found is None or found.state is None else await read_definition(session, found.definition_key)


def definition_in(stored: StoredDefinition) -> Definition | None:
    """Compile an instance's process. The call may take seconds, so call it in a thread, not on a shared event loop.

    errors:  InvalidModel  this release can't read the model
    """
    return next((it for it in read_model(stored.model) if it.process_id == stored.process_id), None)


async def move(
    session: Session,
    instance_key: int,
    *,
    terminated: Sequence[int] = (),
    begun: Sequence[str] = (),
    definition: Definition | None,
    tenant_id: str | None = None,
) -> bool:
    """End some tokens and create tokens at other nodes in one change; False: the instance has ended or does not exist.

    `definition` is the instance's definition; without a definition, nodes are not checked. The check reads the present
    state, so the move has no effect if the instance advances before the engine processes the move.

    errors:  Refusal           the move names no token and no node, the present state has no such token, the process has
                               no such node, or a newer release has written the state
             StoreUnavailable  the outcome is unknown
    """
    if not terminated and not begun:
        raise Refusal("the move names neither a token nor a node; give a token to end or a node to begin")
    found = await instances.find_instance(session, instance_key, tenant_id=tenant_id)
    if found is not None and found.state is not None:
        try:
            instance = read_state(found.state)
        except StateTooNew as error:
            raise Refusal(f"instance {instance_key} can't be moved from here: {error}; use the newer one") from None
        for token in terminated:
            _check_token(token, instance)
        if definition is not None:
            step = StepContext(definition, instance, datetime.now(UTC))
            for node_id in begun:
                _check_node(node_id, step, terminated)
    return await instances.move_tokens(session, instance_key, terminated=terminated, begun=begun, tenant_id=tenant_id)


async def set_variables(
    session: Session,
    instance_key: int,
    variables: Mapping[str, Json],
    *,
    token: int = ROOT,
    tenant_id: str | None = None,
) -> bool:
    """Set variables of a token (token 1 is the process itself); False: the instance has ended or does not exist.

    If the instance advances before the engine applies the change, the token may be gone.

    errors:  Refusal           the present state has no such token, or a text can't be stored
             StatementRefused  the variables are too large
             StoreUnavailable  the outcome is unknown: call again
    """
    if token != ROOT:
        found = await instances.find_instance(session, instance_key, tenant_id=tenant_id)
        if found is not None and found.state is not None:
            with suppress(StateTooNew):  # no check here: the engine of the newer release checks the token
                _check_is_there(token, read_state(found.state))
    return await instances.set_variables(session, instance_key, variables, token=token, tenant_id=tenant_id)


def _check_token(token: int, instance: Instance) -> None:
    if token == ROOT:
        raise Refusal(f"token {ROOT} is the process itself; cancel the instance instead")
    _check_is_there(token, instance)


def _check_is_there(token: int, instance: Instance) -> None:
    if token not in instance.tokens:
        there = (f"{it.key} at {shortened(it.node_id)}" for it in instance.tokens.values() if it.key != ROOT)
        raise Refusal(f"token {token} is not in the instance now: {_listed(there, 'its tokens are')}")


def _check_node(node_id: str, step: StepContext, terminated: Sequence[int]) -> None:
    definition = step.definition
    node = definition.nodes.get(node_id)
    if node is None or node_id == definition.process_id:
        nodes = (shortened(it) for it in definition.nodes if it != definition.process_id)
        raise Refusal(f"node {shortened(node_id)} is not in the instance's process: {_listed(nodes, 'its nodes are')}")
    scopes = scopes_for(step, node_id)
    where = f"node {shortened(node_id)} is inside {shortened(node.scope_id)}"
    if not scopes:
        raise Refusal(f"{where}, where no token is now; begin {shortened(node.scope_id)} instead")
    if len(scopes) > 1:
        tokens = ", ".join(str(it.key) for it in scopes[:LISTED_MAX])
        raise Refusal(f"{where}, which has several executions (tokens {tokens}): a node can't be begun in one of them")
    if step.is_inside(scopes[0], [step.alive(key) for key in terminated]):
        raise Refusal(f"{where}, whose token {scopes[0].key} ends with a terminated token; do only one of the two")


def _listed(names: Iterable[str], opening: str) -> str:
    shown = list(islice(names, LISTED_MAX + 1))
    if not shown:
        return "it has none"
    return f"{opening} {', '.join(shown[:LISTED_MAX])}{' …' if len(shown) > LISTED_MAX else ''}"
