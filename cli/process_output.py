"""Print the results of the commands about processes."""

import json
from dataclasses import asdict
from typing import Any

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.output import DONE, Verbatim, print_done, print_json, print_note, print_table
from shardclock_server.service import tasks
from shardclock_server.service.processes import local_variables_of, variables_of
from shardclock_server.service.timeline import writer_of
from shardclock_server.sql.processes.instances import FoundStep, WholeInstance
from shardclock_server.sql.processes.tasks import FoundTask, WholeTask

OF_TASKS = (
    "task_key", "name", "process", "instance_key", "business_key", "assignee", "groups", "users", "created", "due"
)  # fmt: skip


def print_sent(instance_key: int, *, sent: bool = True, as_json: bool) -> int:
    """Print that a signal was sent to an instance, or that the instance was cancelled before; return the exit code."""
    shows = f"sent; `shardclock processes show {instance_key}` shows the result"
    message = shows if sent else f"instance {instance_key} was cancelled already"
    return print_done(message, {"instance_key": instance_key, "sent": sent}, as_json=as_json)


def print_reached(reached: list[int], *, as_json: bool, kept: bool = False) -> int:
    """Print the instances that received a message or a signal; return the exit code."""
    if as_json:
        print_json({"instance_keys": reached})
    elif reached:
        print_table("", ["instance_key"], [(key,) for key in reached])
    else:
        print_note("no instance waits for it" + ("; it is stored" if kept else ""))
    return DONE if reached or kept else NOT_DONE


def print_fields(fields: dict[str, Any], *, as_json: bool) -> None:
    """Print one record."""
    if as_json:
        print_json(fields)
    else:
        print_table("", list(fields), [tuple(fields.values())])


def print_instance(found: WholeInstance, steps: list[FoundStep] | None, *, as_json: bool) -> None:
    """Print an instance with its waits, and with its history if `steps` is not None."""
    it, variables = found.found, variables_of(found)
    if as_json:
        print_json(
            asdict(it)
            | {"definition_key": found.definition_key, "error_code": found.error_code}
            | {"result": Verbatim(found.result), "variables": Verbatim(variables)}
            | {"local_variables": Verbatim(local_variables_of(found))}
            | {name: Verbatim(rows) for name, rows in found.waits.items()}
            | ({} if steps is None else {"steps": [_json_of(step) for step in steps]})
        )
        return
    columns = ["instance_key", "process", "version", "business_key", "state", "started", "ended", "variables"]
    shown = json.dumps(found.result if variables is None else variables, ensure_ascii=False)
    row = (it.instance_key, it.process_id, it.version, it.business_key, it.state, it.started_at, it.ended_at, shown)
    print_table("", columns, [row])
    if local := local_variables_of(found):
        rows_of = [(at["token"], at["node_id"], json.dumps(at["variables"], ensure_ascii=False)) for at in local]
        print_table("\nlocal_variables", ["token", "node_id", "variables"], rows_of)
    for kind, waiting in found.waits.items():
        if waiting:
            name = "incidents" if kind == "incident_list" else kind
            fields = list(waiting[0])
            print_table(f"\n{name}", fields, [tuple(row[field] for field in fields) for row in waiting])
    if steps:
        rows = [(step.stepped_at, _signals_of(step), _passes_of(step)) for step in steps]
        print_table("\nsteps", ["at", "signals", "tokens"], rows)


def row_of_task(it: FoundTask) -> tuple[object, ...]:
    """Return an open task's cells, in the order of OF_TASKS."""
    return (
        it.task_key, it.name, it.process_id, it.instance_key, it.business_key, it.assignee,
        ", ".join(it.candidate_groups) or None, ", ".join(it.candidate_users) or None, it.created_at, it.due_date,
    )  # fmt: skip


def print_task(found: WholeTask, *, as_json: bool) -> None:
    """Print a task with its visible variables and its history."""
    variables = tasks.variables_of(found)
    if as_json:
        fields = {name: value for name, value in asdict(found).items() if name not in ("token", "instance_state")}
        print_json(fields | {"variables": Verbatim(variables)})
        return
    columns = ["task_key", "name", "node", "process", "instance_key", "state", "assignee", "groups", "users", "due"]
    row = (
        found.task_key, found.name, found.node_id, found.process_id, found.instance_key, found.state, found.assignee,
        ", ".join(found.candidate_groups or ()), ", ".join(found.candidate_users or ()), found.due_date,
    )  # fmt: skip
    print_table("", columns, [row])
    if variables is not None:
        shown = [(name, json.dumps(value, ensure_ascii=False)) for name, value in variables.items()]
        print_table("\nvariables", ["name", "value"], shown)
    acts = [(act.acted_at, act.act, act.actor, act.detail.get("assignee")) for act in found.acts]
    print_table("\nacts", ["at", "act", "actor", "assignee"], acts)


def _json_of(step: FoundStep) -> dict[str, object]:
    return asdict(step) | {"signals": Verbatim(step.signals)}


def _signals_of(step: FoundStep) -> str:
    return ", ".join(map(_signal_of, step.signals))


def _signal_of(signal: dict[str, Any]) -> str:
    at = f" at {signal['node']}" if "node" in signal else ""
    said = f": {signal['sentence']}" if "sentence" in signal else ""
    names = f" {', '.join(signal['variables'])}" if signal.get("variables") else ""
    by = f" by {signal['by']}" if "by" in signal else ""
    by += f" ({writer_of(signal['key_prefix'])})" if "key_prefix" in signal else ""
    return f"{signal['kind']}{names}{at}{by}{said}{' (stale)' if signal.get('stale') else ''}"


def _passes_of(step: FoundStep) -> str:
    return ", ".join(f"{node} {change}" for _, node, change in step.passes)
