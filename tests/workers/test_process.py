"""Prove where a handler's process is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.support.handlers import spec_of
from workers.process import LEAST_SHARE, RayHandlerProcess

HERE = "a" * 56


class Asked:
    """Records what Ray is asked for."""

    def __init__(self) -> None:
        self.options_given: dict[str, Any] = {}

    def options(self, **given: Any) -> Asked:
        self.options_given = given
        return self

    def remote(self, *_: str) -> Asked:
        return self


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(ray, "remote", lambda _: asked)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: HERE))
    return asked


def test_one_that_reserves_nothing_runs_beside_its_worker(asked: Asked) -> None:
    RayHandlerProcess(spec_of(), modules="app", directory="/app")

    where = asked.options_given["scheduling_strategy"]
    assert isinstance(where, NodeAffinitySchedulingStrategy)
    assert where.node_id == HERE
    assert asked.options_given["resources"] is None


@pytest.mark.parametrize("policy", [{}, {"num_cpus": 2.0}, {"memory_mib": 512}])
def test_with_nodes_for_workers_alone_it_runs_on_one_of_them_whatever_it_reserves(
    asked: Asked, policy: dict[str, Any]
) -> None:
    RayHandlerProcess(spec_of(**policy), modules="app", directory="/app", resource="shardclock_workers")

    assert asked.options_given["resources"] == {"shardclock_workers": LEAST_SHARE}
