"""Commands report deliveries to a handler that no running worker has, and print the command that starts one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from shardclock_server.service.unserved import line_of
from shardclock_server.sql.deliveries.unserved import COUNTED_MAX, UnservedTarget
from tests.support.cli_asserts import NOT_DONE
from tests.support.deliveries import HANDLER, add_worker, declare, deliver
from tests.support.factories import HolderClient, add_holder, value
from tests.support.job_runs import declare as declare_jobs
from tests.support.job_runs import fire
from tests.support.jobs import job_spec
from tests.support.program import Shell

WAY_OUT = "no running worker has the app of these targets: start one with `shardclock up --app MODULE`"


async def leave_a_delivery(dsn: str, *, targets: tuple[str, ...]) -> int:
    """Fire a timer of a handler while the only worker has handlers for these targets; return the timer's key."""
    await declare(dsn, HANDLER)
    await add_holder(dsn, 1)
    await add_worker(dsn, 0xCAFE, targets=targets)
    async with HolderClient(dsn, holder=1) as shard:
        (key,) = await deliver(shard)
    return key


@pytest.mark.parametrize("targets", [(), ("cart.left",)], ids=["no app", "another app"])
def test_explain_doctor_and_status_report_a_handler_without_a_worker(shell: Shell, targets: tuple[str, ...]) -> None:
    key = asyncio.run(leave_a_delivery(shell.dsn, targets=targets))
    line = f"{WAY_OUT} ({HANDLER} has 1 waiting delivery)"
    assert f"; the delivery to {HANDLER} waits, the next attempt is due at " in assert_reported(shell, key, line)
    assert shell("status", "--json").json["unserved_targets"] == [{"target": HANDLER, "waiting": 1}]


def assert_reported(shell: Shell, key: int, line: str) -> str:
    """Assert that three commands report this line; return the explanation."""
    explained, checked = shell("explain", key, "--json").json, shell("doctor", "--json", SHARDCLOCK_LOCAL="true")
    assert explained["why"].endswith(line)
    assert checked.code == NOT_DONE
    found = [(it["level"], it["text"]) for it in checked.json["findings"] if it["check"] == "targets"]
    assert found == [("fault", line)]
    assert shell("status").out.splitlines().count(line) == 1
    return str(explained["why"])


async def leave_a_start(dsn: str, *, functions: tuple[str, ...], withdraw: bool) -> int:
    """Fire the start of a job while the only worker has these functions; return the timer's key."""
    await declare_jobs(dsn, job_spec("sweep"))
    await add_holder(dsn, 1)
    await add_worker(dsn, 0xCAFE, functions=functions)
    key: int = await value(dsn, "select shardclock.run_job('sweep')")
    async with HolderClient(dsn, holder=1) as shard:
        assert await fire(shard) == 1
    if withdraw:
        await declare_jobs(dsn)
    return key


@pytest.mark.parametrize(("functions", "withdraw"), [(("app:other",), False), ((), True)], ids=["other", "withdrawn"])
def test_explain_doctor_and_status_report_a_start_of_a_job_without_a_worker(
    shell: Shell, functions: tuple[str, ...], *, withdraw: bool
) -> None:
    key = asyncio.run(leave_a_start(shell.dsn, functions=functions, withdraw=withdraw))
    line = f"{WAY_OUT} (job:sweep has 1 waiting start)"
    assert_reported(shell, key, line)
    assert shell("jobs", "list").out.splitlines()[-1] == line
    assert shell("status", "--json").json["unserved_targets"] == [{"target": "job:sweep", "waiting": 1}]


@pytest.mark.parametrize(
    "leave",
    [partial(leave_a_delivery, targets=(HANDLER,)), partial(leave_a_start, functions=("app:sweep",), withdraw=False)],
    ids=["handler", "job"],
)
def test_a_target_that_a_running_worker_has_is_not_reported(shell: Shell, leave: Any) -> None:
    key = asyncio.run(leave(shell.dsn))
    reports = [shell("explain", key), shell("doctor", SHARDCLOCK_LOCAL="true"), shell("status"), shell("jobs", "list")]
    assert all("no running worker" not in " ".join(it.out.split()) for it in reports)


def test_the_report_names_the_first_targets_and_has_a_limited_length() -> None:
    targets = ["order.0", "order.1", "order.2", "order.3", "job:sweep", "order.5", "order.6"]
    unserved = [UnservedTarget(target, number or COUNTED_MAX) for number, target in enumerate(targets)]

    assert line_of(unserved) == (
        f"{WAY_OUT} (order.0 has 1,000 or more waiting deliveries, order.1 has 1 waiting delivery,"
        " order.2 has 2 waiting deliveries, order.3 has 3 waiting deliveries, job:sweep has 4 waiting starts,"
        " and 2 more targets)"
    )
