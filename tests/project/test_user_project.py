"""Test a user's project with modules that have the names of the server's packages, from this tree and from wheels."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardclock import Completed, RunOrder
from shardclock_server.workers.process import LocalHandlerProcess
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.process import LocalRunProcess
from tests.support.cluster_process import ClusterProcess
from tests.support.executors import until_reaped
from tests.support.factories import sql
from tests.support.handlers import NOON, delivery, spec_of
from tests.support.program import until

MODULES = ("cli", "client", "metrics", "service", "webhooks")
PACKAGES = ("engine", "sql", "workers")
ON_PYTHONPATH = ("shards", "timers")
JOBS = """
import sys
import shardclock
import cli, metrics, service, webhooks

def found():
    import client, engine.inner, shards, sql.inner, timers, workers.inner
    modules = [cli, client, metrics, service, webhooks, engine.inner, sql.inner, workers.inner, shards, timers]
    server = [it for it in sys.modules if it.startswith("shardclock_server")]
    return {"mine": [it.WHOSE for it in modules], "server": server[:10]}  # a result has at most 16 KiB

@shardclock.on_timer("told")
def told(timer):
    return found()

@shardclock.job(every="PT10M")
def looked(run):
    return found()
"""
OWN_TEST = """
import asyncio
import metrics
import shardclock.testing

async def results():
    async with shardclock.testing.cluster(app="jobs,workers.app") as sc:
        for target in ("told", "alone"):
            await sc.client.schedule(delay="PT1H", target=target)
        await sc.advance("PT1H")
        return {it.target: it.detail.get("result") for it in await sc.log() if it.intent == "DELIVERED"}

def test_each_target_is_called():
    ended = asyncio.run(results())
    assert metrics.WHOSE == "mine"
    assert ended["told"]["mine"] == ["mine"] * 10
    assert (ended["alone"], "job:looked" in ended) == ("mine", True)
"""
ALONE = """
import shardclock
from engine import WHOSE

@shardclock.on_timer("alone")
async def alone(timer):
    return WHOSE
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {f"{name}.py" for name in MODULES} | {f"lib/{name}.py" for name in ON_PYTHONPATH}
    files |= {f"{name}/{file}.py" for name in PACKAGES for file in ("__init__", "inner")}
    texts = dict.fromkeys(files, 'WHOSE = "mine"\n')
    texts |= {"jobs.py": JOBS, "workers/app.py": ALONE, "tests/test_app.py": OWN_TEST}
    for name, text in texts.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def _ends(dsn: str) -> dict[str, Any]:
    text = (
        "select distinct on (target) target, detail from shardclock.command_log where intent = 'DELIVERED' order by 1"
    )
    return {target: json.loads(detail).get("result") for target, detail in sql(dsn, text)}


def _see_a_cluster(programs: Path, project: Path, place: Path) -> None:
    program, lib = [str(programs / "shardclock")], str(project / "lib")
    up = ClusterProcess(place, program=program, cwd=project, SHARDCLOCK_APP="jobs,workers.app", PYTHONPATH=lib)
    try:
        up.until_running()
        until(up.working, "two workers")
        asked = [["jobs", "run", "looked"], *(["schedule", "--in", "0s", "--target", it] for it in ("told", "alone"))]
        for command in ([*program, *words] for words in asked):
            subprocess.run(command, cwd=project, env=os.environ | up.environment, check=True, capture_output=True)
        until(lambda: {"told", "alone", "job:looked"} <= _ends(up.dsn).keys(), "two calls and a run")
        ends = _ends(up.dsn)
    finally:
        up.end()

    assert ends["alone"] == "mine"
    for target in ("told", "job:looked"):
        assert ends[target] == {"mine": ["mine"] * 10, "server": []}


def _run_its_tests(programs: Path, project: Path) -> None:
    done = subprocess.run(
        [programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "lib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_cluster_runs_the_users_project_from_this_tree(project: Path, place: Path) -> None:
    _see_a_cluster(Path(sys.executable).parent, project, place)


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_cluster_from_wheels_runs_the_users_project_while_another_package_metrics_is_installed(
    other: Path, project: Path, place: Path
) -> None:
    _see_a_cluster(other, project, place)


@pytest.mark.slow
async def test_processes_without_ray_import_the_users_project_and_no_module_of_the_server(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project / "lib"))
    app: dict[str, Any] = {"modules": "jobs,workers.app", "directory": str(project)}
    handler = LocalHandlerProcess(spec_of("told", is_async=False), **app)
    runs = LocalRunProcess(RunResources(), **app)
    try:
        await asyncio.gather(handler.ready(), runs.ready())
        (told,) = (await handler.call([delivery(target="told")])).outcomes
        looked, _ = await runs.run(RunOrder("looked", "jobs:looked", "7.1", 1, NOON, None), lives_s=20)
    finally:
        handler.kill()
        runs.kill()
        await asyncio.gather(until_reaped(handler), until_reaped(runs))

    assert told == looked == Completed({"mine": ["mine"] * 10, "server": []})


@pytest.mark.slow
def test_the_tests_of_the_users_project_run_from_this_tree(project: Path) -> None:
    _run_its_tests(Path(sys.executable).parent, project)


@pytest.mark.exhaustive
def test_the_tests_of_the_users_project_run_from_wheels_while_another_package_metrics_is_installed(
    other: Path, project: Path
) -> None:
    _run_its_tests(other, project)
