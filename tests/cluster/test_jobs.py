"""On a real cluster, a job has its own process, and the death of this process is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.jobs.jobs import Job
from tests.support.cluster_process import ClusterProcess
from tests.support.factories import sql
from tests.support.job_runs import is_whole, job_of, outcomes, runs_of
from tests.support.program import run, until

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

APP = """
import os, time
HERE = os.path.dirname(__file__)
import shardclock
from pydantic import BaseModel

class Settings(BaseModel):
    city: str = "Berlin"

@shardclock.job(every="PT0.2S", retry_period="PT1S")
async def beat(run: shardclock.Run) -> dict:
    return {"pid": os.getpid()}

@shardclock.job(config={"city": "Rome"})
def greets(run: shardclock.Run[Settings]) -> str:
    print("hello", run.config.city)
    run.progress(0.5, "half way")
    return run.config.city

@shardclock.job(max_retries=1, retry_period="PT1S")
def waits(run: shardclock.Run) -> int:
    while os.path.exists(f"{HERE}/wait"):
        time.sleep(0.01)
    return os.getpid()

@shardclock.job(cron="0 3 * * *", zone="Europe/Berlin")
def nightly(run): ...

@shardclock.job(num_gpus=1)
def trains(run: shardclock.Run) -> str:
    return os.environ["CUDA_VISIBLE_DEVICES"]

@shardclock.job(num_gpus=8)
def trains_on_eight(run): ...

@shardclock.job(num_gpus=16)
def trains_on_sixteen(run): ...
"""

GPU = """import os, sys

class BeforeRay:
    @staticmethod
    def find_spec(name, *_):
        if name == "ray":
            os.environ["RAY_OVERRIDE_RESOURCES"] = '{"GPU": 1}'

if "shardclock_server.cluster.host" in sys.orig_argv:
    sys.meta_path.insert(0, BeforeRay)
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    place = tmp_path_factory.mktemp("jobs")
    (place / "recurring.py").write_text(APP)
    # Ray does not check a declared GPU, so a machine without a GPU can declare one. Our own Ray ignores the shell's
    # variables, so the host process declares the GPU when it loads `ray`.
    (place / "sitecustomize.py").write_text(GPU)
    cluster = ClusterProcess(place, cwd=place, SHARDCLOCK_APP="recurring", PYTHONPATH=str(place))
    try:
        cluster.until_running()
        until(lambda: len(cluster.keepers(WORKER)) == 2, "two workers")
        yield cluster
    finally:
        cluster.end()


def ask(up: ClusterProcess, text: str, *values: object) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sql(up.dsn, text, *values)]


def job(up: ClusterProcess, name: str) -> Job:
    return asyncio.run(job_of(up.dsn, name))


def counts(up: ClusterProcess, name: str) -> Counter[str]:
    return asyncio.run(outcomes(up.dsn, name))


def start(up: ClusterProcess, name: str) -> None:
    ask(up, "select shardclock.run_job($1)", name)


def test_an_interval_is_kept_and_the_jobs_of_the_app_are_declared(up: ClusterProcess) -> None:
    until(lambda: job(up, "beat").successes >= 5, "five runs")

    beat = job(up, "beat")
    assert (beat.failures, beat.crashes, beat.every_s) == (0, 0, 0.2)
    workers = {worker.pid for worker in up.keepers(WORKER)}
    pids = {pid for (pid,) in ask(up, "select result ->> 'pid' from shardclock.job_runs where job = 'beat'")}
    assert pids - {None}
    assert pids.isdisjoint(map(str, workers))
    assert run("show", "--name", "job:nightly", environment=up.environment).code == 0


def test_a_run_has_its_configuration_and_leaves_result_progress_and_lines(up: ClusterProcess) -> None:
    start(up, "greets")
    until(lambda: counts(up, "greets")["SUCCEEDED"] == 1, "its run")

    (made,) = asyncio.run(runs_of(up.dsn, "greets"))
    assert (made.result, made.log) == ('"Rome"', "hello Rome")


def test_a_run_has_the_gpu_that_its_job_requests_and_a_second_run_waits_for_another_gpu(up: ClusterProcess) -> None:
    start(up, "trains_on_eight")
    until(lambda: job(up, "trains_on_eight").state == "STARTING", "the first that no node can hold")
    start(up, "trains_on_sixteen")
    start(up, "trains")

    until(lambda: counts(up, "trains")["SUCCEEDED"] == 1, "the run on a GPU", within_s=60.0)

    (made,) = asyncio.run(runs_of(up.dsn, "trains"))
    assert made.result == '"0"'
    for name in ("trains_on_eight", "trains_on_sixteen"):
        ask(up, "select shardclock.disable_job($1)", name)


def test_the_run_of_a_killed_worker_ends_and_the_crash_is_counted(up: ClusterProcess) -> None:
    before = job(up, "waits").crashes
    (up.place / "wait").touch()
    start(up, "waits")
    until(lambda: job(up, "waits").state == "RUNNING", "its run")
    ((pid,),) = ask(up, "select pid from shardclock.holders where holder = $1", job(up, "waits").holder)

    psutil.Process(pid).kill()

    until(lambda: job(up, "waits").crashes == before + 1, "the crash to be counted")
    (up.place / "wait").unlink()
    until(lambda: counts(up, "waits")["SUCCEEDED"] == 1, "the next attempt", within_s=60.0)
    until(lambda: len(up.keepers(WORKER)) == 2, "the next worker")
    assert asyncio.run(is_whole(up.dsn)) == []
