"""Without Ray, an app that needs more resources than this machine has is refused; the refusal names the remedy."""

from __future__ import annotations

import os
from typing import Any

import pytest

from shardclock_server.workers.app import App
from shardclock_server.workers.machine import Machine
from tests.support.handlers import spec_of
from tests.support.jobs import job_spec

SMALL = Machine(cpus=2, memory_mib=1_024)
WAY_OUT = (
    "; run `shardclock up` with Ray, and without --local: Ray starts the process on a node with these"
    " resources; or ask for less"
)


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ({"num_cpus": 2.5}, "2.5 CPUs, and this machine has 2"),
        ({"memory_mib": 1_025}, "1025 MiB of memory, and this machine has 1024"),
    ],
)
def test_a_handler_that_asks_for_too_much_is_named(policy: dict[str, Any], asked: str) -> None:
    refused = SMALL.lacks([spec_of("small"), spec_of("large", **policy)], [])

    assert refused == f"handler large (app:large) asks for {asked}{WAY_OUT}"


def test_a_job_that_asks_for_a_gpu_is_named() -> None:
    refused = SMALL.lacks([spec_of()], [job_spec("small"), job_spec("trains", num_gpus=0.5)])

    assert refused is not None
    assert refused.startswith("job trains (")
    assert refused.endswith(f") asks for 0.5 GPUs, which only Ray assigns{WAY_OUT}")


def test_an_app_within_the_machine_s_resources_is_accepted() -> None:
    handlers = [spec_of("none"), spec_of("all", num_cpus=2.0, memory_mib=1_024)]

    assert SMALL.lacks(handlers, [job_spec("nothing", num_cpus=0.0, num_gpus=0.0, memory_mib=1)]) is None


def test_local_keepers_leave_out_handlers_that_need_another_node() -> None:
    app = App("app", "/", (spec_of("small"), spec_of("large", num_cpus=3.0)), (job_spec("trains", num_gpus=1.0),))

    share = SMALL.share_of(app)

    assert [it.target for it in share.handlers] == ["small"]
    assert share.jobs == app.jobs, "their starts are left out by the policies in the table"
    assert App.from_json(share.to_json()) == share
    assert share.modules == "app"


def test_this_machine_has_processors_and_memory() -> None:
    here = Machine.here()

    assert 1 <= here.cpus <= (os.cpu_count() or 1)
    assert here.memory_mib > 100
