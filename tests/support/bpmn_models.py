"""The models of each BPMN element, `tests/engine/models`: moves in an instance, and the paths of its tokens.

Each folder has a `histories.toml` with a table for each of its models. A model that runs has `moves`, pairs of a move
and the history after it; a refused model has the sentence.

    start {"order": 42}         begin an instance, with variables
    advance PT1H                move the clock
    complete approve {…}        complete a user task
    do charge {…}               complete a service task, as a program that has claimed it
    fail charge why             fail at it
    throw charge CODE {…}       throw a BPMN error there
    message paid 42 {…}         publish a message with a correlation key
    signal stop {…}             throw a signal
    set {…}                     set variables
    resolve charge              resolve the incident of a node

A history has `a+` where a token enters the node a, `a-` where it leaves a, `ax` where it ends early. The histories of
several instances are divided by ` | `, in the order in which they began.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from shardclock_server.service import processes
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.processes.service_tasks import (
    activate_service_tasks,
    complete_service_task,
    fail_service_task,
    throw_service_task_error,
)
from tests.support import ROOT
from tests.support.bpmn_cluster import Processes

MODELS = ROOT / "tests" / "engine" / "models"
# The order of the folders on the page.
FOLDERS = (
    "start", "end", "task", "gateway", "sub-process", "boundary", "intermediate", "multi-instance", "data", "refused",
)  # fmt: skip
HISTORIES = "histories.toml"


@dataclass(frozen=True, slots=True)
class ElementModel:
    """One model, and its expected behavior.

    shape:   moves     pairs of a move and the history after the move; empty if the model is `refused`
             result    the variables at the end of the first instance; None: the test does not check them
             incident  the incident of the first instance, which has not ended
    """

    folder: str
    name: str
    element: str
    says: str = ""
    moves: list[tuple[str, str]] = field(default_factory=list)
    result: dict[str, Any] | None = None
    incident: str | None = None
    refused: str | None = None

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}.bpmn"

    @property
    def text(self) -> bytes:
        return (MODELS / self.path).read_bytes()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of models, with its title on the page."""

    title: str
    models: list[ElementModel]


def folders() -> list[Folder]:
    return [_folder(name) for name in FOLDERS]


def _folder(name: str) -> Folder:
    told = tomllib.loads((MODELS / name / HISTORIES).read_text())
    title = told.pop("title")
    return Folder(title, [ElementModel(name, of, **said) for of, said in told.items()])


class Play:
    """Make moves in a cluster, and return the history after each."""

    def __init__(self, it: Processes) -> None:
        self._it = it
        self._told: Counter[int] = Counter()

    async def instances(self) -> list[int]:
        """Return all instances, in the order in which they began."""
        return sorted(one.instance_key for one in await instances.find_instances(self._it.session))

    async def move(self, move: str) -> str:
        """Make a move; return the new history."""
        verb, _, said = move.partition(" ")
        words, variables = _read(said)
        await MOVES[verb](self._it, words, variables)
        await self._it.settle()
        return " | ".join([new for key in await self.instances() if (new := await self._new_of(key))])

    async def _new_of(self, key: int) -> str:
        history = await self._it.history(key)
        told = self._told[key]
        self._told[key] = len(history)
        return " ".join(history[told:])


def _read(said: str) -> tuple[list[str], dict[str, Any]]:
    words, brace, variables = said.partition("{")
    return words.split(), json.loads(brace + variables) if brace else {}


async def _start(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    await processes.start(it.session, "order", variables=variables)


async def _advance(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    await it.advance(words[0])


async def _complete(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    found = [task for task in await tasks.find_tasks(it.session) if task.node_id == words[0]]
    first = min(found, key=lambda task: task.task_key)
    assert await tasks.complete_task(it.session, first.task_key, variables=variables) == "COMPLETED"


async def _task(it: Processes, task_type: str) -> tuple[int, int]:
    (task,) = await activate_service_tasks(it.session, task_type, most=1, lease_s=30.0, tenant_id="default")
    return task.task_key, task.claim


async def _do(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    taken = await _task(it, words[0])
    assert await complete_service_task(it.session, *taken, variables=variables) == "COMPLETED"


async def _fail(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    task_type, *why = words
    assert await fail_service_task(it.session, *await _task(it, task_type), reason=" ".join(why)) in ("RETRIED", "DEAD")


async def _throw(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    task_type, code = words
    taken = await _task(it, task_type)
    assert await throw_service_task_error(it.session, *taken, code=code, variables=variables) == "DISCARDED"


async def _message(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    name, key = words
    await instances.publish_message(it.session, name, correlation=key, variables=variables, tenant_id="default")


async def _signal(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    await instances.throw_signal(it.session, words[0], variables=variables, tenant_id="default")


async def _set(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    (key,) = [one.instance_key for one in await instances.find_instances(it.session)]
    assert await instances.set_variables(it.session, key, variables)


async def _resolve(it: Processes, words: list[str], variables: dict[str, Any]) -> None:
    keys = [one.instance_key for one in await instances.find_instances(it.session)]
    ((key, incident),) = [(key, raised) for key in keys for raised in (await it.see(key)).waits["incident_list"]]
    assert incident["node_id"] == words[0]
    assert await instances.resolve_incident(it.session, key, incident["token"])


MOVES: dict[str, Callable[[Processes, list[str], dict[str, Any]], Awaitable[None]]] = {
    "start": _start, "advance": _advance, "complete": _complete, "do": _do, "fail": _fail, "throw": _throw,
    "message": _message, "signal": _signal, "set": _set, "resolve": _resolve,
}  # fmt: skip
