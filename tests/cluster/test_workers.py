"""A real cluster calls handlers in separate processes, and survives killed workers and engines; Ray starts once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import psutil
import pytest

from shardclock_server.sql.cluster.holders import ENGINE, WORKER
from tests.support import ROOT
from tests.support.cli_asserts import DONE, NOT_DONE
from tests.support.cluster_process import ClusterProcess
from tests.support.doc_blocks import blocks
from tests.support.factories import sql
from tests.support.program import run, until

pytestmark = pytest.mark.ray

START_S = 120.0  # the time limit for the start of two workers with seven handlers, on two cores with a load of fifteen
MODEL = str(ROOT / "examples" / "order.bpmn")

ENDS = """
    select to_json(f.payload), to_json(e.intent), e.detail
    from shardclock.command_log e
    join shardclock.command_log f on f.timer_key = e.timer_key and f.intent = 'TRIGGERED'
    where e.position > $1 and e.intent in ('DELIVERED', 'DISCARDED', 'DEAD')
"""


class DeliveryEnd(NamedTuple):
    """The outcome of a delivery."""

    payload: object
    intent: str
    detail: dict[str, Any]


APP = """
import os, time
HERE = os.path.dirname(__file__)
import ray
import shardclock
from pydantic import BaseModel

class Order(BaseModel):
    order: int

@shardclock.on_timer("order.expired")
async def expire(timer: shardclock.Timer[Order]) -> None:
    print("expired", timer.payload.order, flush=True)

@shardclock.on_timer("plain")
def plain(timer: shardclock.Timer) -> None:
    assert os.getpid() != timer.payload

@shardclock.on_timer("asks.ray", max_attempts=1)
async def asks_ray(timer: shardclock.Timer) -> object:
    return await ray.remote(lambda: timer.payload + 1).remote()

@shardclock.on_timer("gets.of.ray", max_attempts=1)
def gets_of_ray(timer: shardclock.Timer) -> object:
    return ray.get(ray.remote(lambda: timer.payload + 1).remote())

@shardclock.on_timer("waits")
def waits(timer: shardclock.Timer) -> None:
    with open(f"{HERE}/calls", "a") as calls:
        calls.write("x")
    while os.path.exists(f"{HERE}/wait"):
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    place = tmp_path_factory.mktemp("workers")
    (place / "reminders.py").write_text(APP)
    (orders,) = [it.text for it in blocks() if it.where.startswith("docs/processes.md") and "on_timer" in it.text]
    (place / "orders.py").write_text(orders)
    cluster = ClusterProcess(place, cwd=place, SHARDCLOCK_APP="reminders,orders")
    try:
        cluster.until_running()
        until(lambda: len(cluster.keepers(WORKER)) == 2, "two workers", within_s=START_S)
        yield cluster
    finally:
        cluster.end()


def schedule(up: ClusterProcess, target: str, payloads: list[object]) -> list[DeliveryEnd]:
    """Schedule timers of a target, due immediately, and wait until their deliveries have ended."""
    (up.place / "lines").write_text(
        "".join(json.dumps({"delay": "PT0S", "target": target, "payload": it}) + "\n" for it in payloads)
    )
    (last,) = ask(up, "select coalesce(max(position), 0) from shardclock.command_log")[0]
    done = run("schedule", "--file", str(up.place / "lines"), environment=up.environment)
    assert done.code == 0, done.err
    until(lambda: len(ask(up, ENDS, last)) == len(payloads), f"{len(payloads)} deliveries of {target} to end")
    return [DeliveryEnd(*map(json.loads, row)) for row in ask(up, ENDS, last)]


def ask(up: ClusterProcess, text: str, *values: object) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sql(up.dsn, text, *values)]


def test_an_async_and_a_plain_handler_are_called_in_processes_of_their_own(up: ClusterProcess) -> None:
    for target, payloads in (("order.expired", [{"order": n} for n in range(20)]), ("plain", [0] * 20)):
        assert {end.intent for end in schedule(up, target, list(payloads))} == {"DELIVERED"}
    pids = {worker.pid for worker in up.keepers(WORKER)}
    hosts = up.processes("HandlerActor")
    assert hosts
    assert pids.isdisjoint(process.pid for process in hosts)


@pytest.mark.parametrize("target", ["asks.ray", "gets.of.ray"])
def test_a_handler_may_run_tasks_on_ray(up: ClusterProcess, target: str) -> None:
    (end,) = schedule(up, target, [41])

    assert (end.intent, end.detail.get("result"), end.detail.get("reason")) == ("DELIVERED", 42, None)


def test_the_page_about_handlers_works(up: ClusterProcess) -> None:
    page = [block for block in blocks() if block.where.startswith("docs/handlers.md")]
    module, _ = [block.text for block in page if block.kind == "python"]
    exec(compile(module, "docs/handlers.md", "exec"), {"__name__": "on_the_page"})
    assert module.splitlines()[0] in APP, "the app above has the target of the page"
    for text in [block.text for block in page if block.kind == "console"]:
        for line in [line[2:] for line in text.splitlines()]:
            if line.startswith(("pip", "shardclock up")):
                continue
            words = shlex.split(line)[1:]
            done = run(*words, environment=up.environment)
            assert done.code in (0, NOT_DONE), f"{line}: {done.err}"
    (statement,) = [block.text for block in page if block.kind == "sql"]
    done = run("psql", "-c", statement, environment=up.environment)
    assert done.code == 0, done.err
    until(
        lambda: "delivered to order.expired" in run("explain", "--name", "order-42", environment=up.environment).out,
        "the delivery to end",
    )
    assert run("scale", "workers=2", environment=up.environment).code == 0


def test_the_readme_s_handler_is_called(up: ClusterProcess) -> None:
    module, start, typed = [block.text for block in blocks() if block.where.startswith("README.md") and block.reason]
    exec(compile(module, "README.md", "exec"), {"__name__": "on_the_page"})
    assert '@shardclock.on_timer("order.expired")' in module, "the app above has this target"
    assert start == "$ shardclock up --app reminders\n"
    commands = [shlex.split(line)[2:] for line in typed.splitlines()]

    assert [run(*words, environment=up.environment).code for words in commands] == [0, 0]

    until(
        lambda: "delivered to order.expired" in run(*commands[-1], environment=up.environment).out,
        "the delivery to end",
    )


def test_a_delivery_that_a_killed_worker_had_claimed_is_called_by_the_next_worker_before_its_lease_ends(
    up: ClusterProcess,
) -> None:
    schedule(up, "waits", [0] * 20)  # with this number of calls, each worker has a process
    calls = up.place / "calls"
    calls.unlink()
    (up.place / "wait").touch()
    run("schedule", "--in", "PT0S", "--target", "waits", "--name", "waits", environment=up.environment)
    until(calls.exists, "a call")
    ((holder,),) = ask(up, "select claimed_by from shardclock.deliveries")
    ((pid,),) = ask(up, "select pid from shardclock.holders where holder = $1", holder)

    psutil.Process(pid).kill()

    until(lambda: len(calls.read_text()) == 2, "the next call", within_s=8.0)  # before a lease of 10 s would expire
    (up.place / "wait").unlink()
    until(lambda: not ask(up, "select from shardclock.deliveries"), "its end")
    until(lambda: len(up.keepers(WORKER)) == 2, "the next worker")


def said(up: ClusterProcess, *words: str) -> Any:
    done = run(*words, "--json", environment=up.environment)
    assert done.code == DONE, done.err
    return done.json


def engines_of(up: ClusterProcess, *, without: frozenset[int] = frozenset()) -> frozenset[int]:
    """Wait until two engines that are not in `without` have slots; return the engines' processes."""

    def serving() -> frozenset[int]:
        return frozenset(it.pid for it in up.keepers(ENGINE))

    until(lambda: len(serving()) == 2 and not serving() & without, "two engines")
    return serving()


def start(up: ClusterProcess, order: int) -> int:
    key = said(up, "processes", "start", "order", "--variables", f'{{"order": {order}}}')["instance_key"]
    until(lambda: bool(task_of(up, key)), "the task")
    return int(key)


def task_of(up: ClusterProcess, instance_key: int) -> Any:
    tasks = said(up, "tasks", "list", "--instance", str(instance_key))["tasks"]
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
