"""Processes on a real cluster, with the commands of docs/processes.md, and with killed engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from shardclock_server.sql.cluster.holders import ENGINE, WORKER
from tests.support import ROOT
from tests.support.cli_asserts import DONE
from tests.support.cluster_process import ClusterProcess
from tests.support.doc_blocks import blocks
from tests.support.program import run, until

pytestmark = pytest.mark.ray

MODEL = str(ROOT / "examples" / "order.bpmn")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    place = tmp_path_factory.mktemp("processes")
    (module,) = [it.text for it in blocks() if it.where.startswith("docs/processes.md") and "on_timer" in it.text]
    (place / "orders.py").write_text(module)
    cluster = ClusterProcess(place, cwd=place, SHARDCLOCK_APP="orders")
    try:
        cluster.until_running()
        until(lambda: len(cluster.keepers(WORKER)) == 2, "two workers")
        yield cluster
    finally:
        cluster.end()


def said(up: ClusterProcess, *words: str) -> Any:
    done = run(*words, "--json", environment=up.environment)
    assert done.code == DONE, done.err
    return done.json


def engines_of(up: ClusterProcess, *, without: frozenset[int] = frozenset()) -> frozenset[int]:
    """Wait until two engines serve that are not in `without`; return the engines' processes."""

    def serving() -> frozenset[int]:
        return frozenset(it.pid for it in up.keepers(ENGINE))

    until(lambda: len(serving()) == 2 and not serving() & without, "two engines")
    return serving()


def start(up: ClusterProcess, order: int) -> int:
    key = said(up, "processes", "start", "order", "--variables", f'{{"order": {order}}}')["instance_key"]
    until(lambda: bool(task_of(up, key)), "the task")
    return int(key)


def task_of(up: ClusterProcess, instance_key: int) -> Any:
    tasks = said(up, "tasks", "list", "--instance", str(instance_key))
    return tasks[0]["task_key"] if tasks else None


def state_of(up: ClusterProcess, instance_key: int) -> Any:
    return said(up, "processes", "show", str(instance_key))["state"]


def test_an_order_is_approved_and_charged_even_if_its_engines_are_killed(up: ClusterProcess) -> None:
    assert up.keepers(ENGINE) == []  # nothing is deployed
    (deployed,) = said(up, "deploy", MODEL)
    assert (deployed["process_id"], deployed["version"], deployed["is_new"]) == ("order", 1, True)
    pids = engines_of(up)
    first, second = start(up, 42), start(up, 43)

    said(up, "tasks", "complete", str(task_of(up, first)), "--variables", '{"approved": true}')
    until(lambda: state_of(up, first) == "COMPLETED", "the first order")
    shown = said(up, "processes", "show", str(first))
    assert shown["result"] == {"order": 42, "approved": True, "receipt": "R-42"}

    for pid in pids:
        psutil.Process(pid).kill()
    said(up, "tasks", "complete", str(task_of(up, second)), "--variables", '{"approved": true}')
    until(lambda: state_of(up, second) == "COMPLETED", "the second order, by another engine")
    assert engines_of(up, without=pids)
    assert said(up, "processes", "show", str(second))["result"]["receipt"] == "R-43"
