"""Describe each process of a model for the database: the names, the starts and the task types."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from shardclock_server.bpmn.model import Definition, read_model
from shardclock_server.bpmn.model.definition import ServiceWork, TimerKind, TimerTrigger
from shardclock_server.bpmn.model.expressions import InvalidValue, bounded
from shardclock_server.bpmn.model.refusal import InvalidModel, ModelProblem
from shardclock_server.bpmn.model.times import check_occurs
from shardclock_server.bpmn.step import opened_at_deployment
from shardclock_server.bpmn.step.effects import Effect, MessageOpened, SignalOpened, TimerOpened
from shardclock_server.bpmn.step.variables import EvaluationFailed
from shardclock_server.sql.processes.definitions import DescribedProcess
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.zone import UTC_ZONE, agreed_zone

STARTS_MAX = 100  # the limit of start events with a trigger: the evaluation of each trigger takes up to 0.1 s


def describe_processes(model: bytes) -> list[DescribedProcess]:
    """Read a new model, and describe each of its processes. The call may take seconds.

    errors:  InvalidModel  the message names each element that can't be run, and the reason
    """
    with bounded():
        definitions = read_model(model)
    if (starts := sum(len(definition.starts) for definition in definitions)) > STARTS_MAX:
        raise InvalidModel(
            ModelProblem(
                "", f"{starts:,} start events of the model wait; {STARTS_MAX} may: divide it into several models"
            )
        )
    if never := [problem for definition in definitions for problem in _cycles_that_never_occur(definition)]:
        raise InvalidModel(*never)
    return [_described(definition) for definition in definitions]


def _cycles_that_never_occur(definition: Definition) -> Iterator[ModelProblem]:
    for node in definition.nodes.values():
        match node.trigger:
            case TimerTrigger(TimerKind.CYCLE, str(cycle)):
                try:
                    check_occurs(cycle)
                except InvalidValue as error:
                    yield ModelProblem(node.node_id, str(error))


def _described(definition: Definition) -> DescribedProcess:
    try:
        opened = opened_at_deployment(definition, now=datetime.now(UTC))
    except EvaluationFailed as error:
        raise InvalidModel(ModelProblem(definition.process_id, str(error))) from None
    description = {
        "process_id": definition.process_id,
        "name": definition.name or definition.process_id,
        "starts": [_start_of(effect) for effect in opened],
        "starts_by_hand": definition.root.start is not None,
    }
    types = (node.work.task_type for node in definition.nodes.values() if isinstance(node.work, ServiceWork))
    return DescribedProcess(description, frozenset(it for it in types if isinstance(it, str)))


def _start_of(effect: Effect) -> dict[str, Any]:
    match effect:
        case TimerOpened(_, node_id, TimerKind.CYCLE, text):
            zone = agreed_zone(text, UTC_ZONE).key
            return {"node_id": node_id, "kind": "timer", "schedule": text, "zone": zone}
        case TimerOpened(_, node_id, _, text):
            return {"node_id": node_id, "kind": "timer", "due_date": parse_due_date(text).isoformat()}
        case MessageOpened(_, node_id, name):
            return {"node_id": node_id, "kind": "message", "name": name}
        case SignalOpened(_, node_id, name):
            return {"node_id": node_id, "kind": "signal", "name": name}
    raise AssertionError(f"a start event can't open {type(effect).__name__}")
