"""A handler's process: its node, its calls, and its limit of concurrent calls."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shardclock import Completed, InvalidHandler, Timer
from shardclock.executor import handlers, importing
from shardclock.executor.actors import HandlerActor
from shardclock.executor.handlers import HandlerExecutor
from shardclock.executor.runs import RunExecutor
from shardclock.timer import timer_of
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.process import RayHandlerProcess, envelope_of
from shardclock_server.workers.ray_process import LEAST_SHARE
from tests.support.handlers import NOON, delivery, spec_of
from tests.support.user_actors import HERE, Started

pytestmark = pytest.mark.usefixtures("collector")


class RecordedOptions:
    """Record the options of a new actor."""

    def __init__(self) -> None:
        self.options_given: dict[str, Any] = {}

    def options(self, **given: Any) -> RecordedOptions:
        self.options_given = given
        return self

    def remote(self, *_: str) -> RecordedOptions:
        return self


@pytest.fixture(autouse=True)
def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent a change of the test's own priority."""
    monkeypatch.setattr(importing, "lower_priority", lambda _: None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> RecordedOptions:
    asked = RecordedOptions()
    monkeypatch.setattr(ray, "remote", lambda _: asked)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: HERE))
    return asked


def test_a_process_without_reserved_resources_runs_on_its_worker_s_node(asked: RecordedOptions) -> None:
    RayHandlerProcess(spec_of(), modules="app", directory="/app")

    where = asked.options_given["scheduling_strategy"]
    assert isinstance(where, NodeAffinitySchedulingStrategy)
    assert where.node_id == HERE
    assert asked.options_given["resources"] is None


@pytest.mark.parametrize("policy", [{}, {"num_cpus": 2.0}, {"memory_mib": 512}])
def test_if_there_are_nodes_for_workers_a_process_runs_on_such_a_node(
    asked: RecordedOptions, policy: dict[str, Any]
) -> None:
    RayHandlerProcess(spec_of(**policy), modules="app", directory="/app", resource="shardclock_workers")

    assert asked.options_given["resources"] == {"shardclock_workers": LEAST_SHARE}


APP = """
import asyncio, threading, time
import shardclock

running, most = 0, 0

def begin():
    global running, most
    running += 1
    most = max(most, running)

def end():
    global running
    running -= 1

@shardclock.on_timer("{name}.async", concurrency=3)
async def call_async(timer: shardclock.Timer):
    begin()
    await asyncio.sleep(0.001)
    end()
    return most

@shardclock.on_timer("{name}.plain")
def call_plain(timer: shardclock.Timer):
    begin()
    time.sleep(0.0005)
    end()
    return most
"""


@pytest.mark.parametrize(("kind", "calls_max"), [("async", 3), ("plain", 1)])
async def test_the_limit_of_concurrent_calls_applies_to_any_number_of_waiting_calls(
    tmp_path: Path, kind: str, calls_max: int
) -> None:
    name = f"app_{kind}"
    (tmp_path / f"{name}.py").write_text(APP.format(name=name))
    actor = HandlerExecutor(name, str(tmp_path), f"{name}.{kind}", calls_max, 2)
    envelopes = pickle.dumps([envelope_of(delivery(key, target=f"{name}.{kind}")) for key in range(20)])

    answers = map(pickle.loads, await asyncio.gather(actor.answer(envelopes), actor.answer(envelopes)))

    results = [outcome.result for outcomes, _ in answers for outcome in outcomes if isinstance(outcome, Completed)]
    assert len(results) == 40
    assert max(results) == calls_max


@pytest.mark.parametrize(("kind", "calls_max"), [("async", 3), ("plain", 1)])
async def test_a_slow_handler_is_not_called_for_all_deliveries_of_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, calls_max: int
) -> None:
    monkeypatch.setattr(handlers, "BEGINS_S", 0.0)
    name = f"slow_{kind}"
    (tmp_path / f"{name}.py").write_text(APP.format(name=name))
    actor = HandlerExecutor(name, str(tmp_path), f"{name}.{kind}", calls_max, 2)
    envelopes = pickle.dumps([envelope_of(delivery(key, target=f"{name}.{kind}")) for key in range(20)])

    outcomes, _ = pickle.loads(await actor.answer(envelopes))

    assert len(outcomes) == 1
    assert actor._calls._room._value == calls_max, "the reserved resources are free again"


@pytest.mark.parametrize(
    "start",
    [
        lambda modules, directory: HandlerExecutor(modules, directory, "any", 1, 3),
        lambda modules, directory: RunExecutor(modules, directory, 3),
    ],
)
def test_the_process_lowers_its_priority_before_the_import_of_the_user_s_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[str, str], object]
) -> None:
    (tmp_path / "fails_at_import.py").write_text("1 / 0")
    asked: list[int] = []
    monkeypatch.setattr(importing, "lower_priority", asked.append)

    with pytest.raises(InvalidHandler):
        start("fails_at_import", str(tmp_path))

    assert asked == [3]


async def test_a_handler_s_process_is_called_for_each_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "called_each.py").write_text(APP.format(name="called_each"))
    Started(HandlerActor("called_each", str(tmp_path), "called_each.async", 3, 2)).instead_of_ray(monkeypatch)
    handler = RayHandlerProcess(spec_of(), modules="app", directory="/app")
    await handler.ready()

    answer = await handler.call([delivery(1), delivery(2)])

    assert [type(outcome) for outcome in answer.outcomes] == [Completed, Completed]
    handler.kill()


def test_a_handler_s_timer_has_what_the_delivery_has() -> None:
    it = ClaimedDelivery(
        timer_key=1, process_instance_key=2, element_instance_key=3, due_date=NOON,
        fired_at=NOON + timedelta(seconds=1), next_attempt_at=NOON + timedelta(seconds=2),
        redriven_at=NOON + timedelta(seconds=3), occurrence=4, claims=5, failed_attempts=6, given_back=7,
        tenant_id="acme", timer_type="BOUNDARY", target="order.expired", target_element_id="wait", name="cart-7",
        schedule="R/PT1H", payload="[8]",
    )  # fmt: skip

    timer: Timer[str | None] = timer_of(envelope_of(it))

    same = {name: getattr(timer, name) for name in ClaimedDelivery._fields if hasattr(timer, name)}
    assert same == {name: getattr(it, name) for name in same}
    assert len(same) == 13
    assert timer.attempt == 7
    assert timer == Timer(*envelope_of(it))
    with pytest.raises(FrozenInstanceError):
        timer.attempt = 8  # type: ignore[misc]
