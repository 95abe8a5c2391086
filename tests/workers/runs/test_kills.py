"""If workers are killed, each run is recorded, each crash is counted, and the runs of a job never overlap."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, Popen

import psutil
import pytest

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.session import Session
from tests.support import ROOT
from tests.support.deliveries import add_worker
from tests.support.factories import BOUND_S, HolderClient, query, value
from tests.support.job_runs import declare, fire, is_whole
from tests.support.jobs import job_spec
from tests.support.roles import as_role
from tests.support.waiting import eventually

JOBS, KILLS = 8, 4
# Each run writes its start, its end and its process id; a killed run writes no end.
APP = """
import os, time, shardclock

def note(run, what):
    line = f"{time.monotonic()} {run.job} {run.run_id} {what} {os.getpid()}\\n"
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(line)

@shardclock.job("busy", every="PT0.1S")
def busy(run):
    note(run, "begins")
    time.sleep(0.05)
    note(run, "ends")
"""
SETTINGS = json.dumps({"run_places": 4, "run_lease_s": 5.0, "delivery_poll_s": 0.02})
SUMS = "select sum(runs), sum(successes), sum(crashes), count(run_timer_key) from shardclock.jobs"
RUNS = "select outcome, count(*) from shardclock.job_runs group by 1"

pytestmark = pytest.mark.slow


@contextmanager
def worker_process(place: Path, holder: int, specs: list[JobSpec], dsn: str) -> Iterator[Popen[bytes]]:
    """Run a worker in a separate process during a block; then kill the worker and the processes of its runs."""
    described = json.dumps([spec.to_json() for spec in specs])
    command = [sys.executable, "-m", "tests.support.worker_process", str(holder), "app_of_kills", "[]"]
    log = (place / "log").open("ab")
    process = Popen(
        [*command, as_role(dsn, "shard"), described, SETTINGS],
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=log,
        cwd=place,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'client'}:{place}", "NOTES": str(place / "notes")},
    )
    try:
        yield process
    finally:
        children = psutil.Process(process.pid).children() if process.poll() is None else []
        process.kill()
        process.wait(BOUND_S)
        psutil.wait_procs(children, timeout=BOUND_S)
        log.close()


@asynccontextmanager
async def firing(dsn: str, shard: HolderClient) -> AsyncIterator[None]:

    async def forever() -> None:
        while True:
            await fire(shard)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(forever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def declared(dsn: str) -> list[JobSpec]:
    specs = [job_spec(f"job{number}", every_s=0.1, max_retries=1_000, retry_period_s=0.1) for number in range(JOBS)]
    await declare(dsn, *specs)
    await query(dsn, "update shardclock.jobs set function = 'app_of_kills:busy'")
    return [JobSpec.of(spec.to_json() | {"reference": "app_of_kills:busy"}) for spec in specs]


@pytest.mark.exhaustive
async def test_after_many_kills_of_a_worker_each_run_is_recorded_and_each_crash_counted(
    dsn: str, shard: HolderClient, tmp_path: Path
) -> None:
    (tmp_path / "app_of_kills.py").write_text(APP)
    specs, chance = await declared(dsn), random.Random(7)

    async with firing(dsn, shard), Session(as_role(dsn, "shard"), application="test") as session:
        for holder in range(101, 101 + KILLS):
            await add_worker(dsn, holder)
            with worker_process(tmp_path, holder, specs, dsn):
                done = await _successes(dsn)
                await eventually(partial(_more_than, dsn, done + 2 * JOBS))
                await asyncio.sleep(chance.uniform(0.0, 0.2))
            await end_holders(session, [holder], why="dead")
        await add_worker(dsn, 200)
        with worker_process(tmp_path, 200, specs, dsn):
            done = await _successes(dsn)
            await eventually(lambda: _more_than(dsn, done + 2 * JOBS))
            await eventually(lambda: _no_mark_is_old(dsn))
            assert await is_whole(dsn) == []

    counts = Counter({row[0] or "going": row[1] for row in await query(dsn, RUNS)})
    (sums,) = await query(dsn, SUMS)
    assert counts["CRASHED"] >= KILLS, "otherwise the test proves little"
    assert list(sums) == [
        sum(counts.values()), counts["SUCCEEDED"], counts["CRASHED"] + counts["going"], counts["going"]
    ]  # fmt: skip
    assert overlaps(tmp_path / "notes") == []


def overlaps(notes: Path) -> list[str]:
    """Return the runs of a job that started before the end of another run was written."""
    open_runs: dict[str, tuple[str, str]] = {}
    wrong: list[str] = []
    for line in sorted(notes.read_text().splitlines(), key=lambda line: float(line.partition(" ")[0])):
        _, job, run, what, pid = line.split()
        if what == "begins":
            open_runs[job] = run, pid
        elif open_runs.pop(job, None) != (run, pid):
            wrong.append(line)
    return wrong


async def _successes(dsn: str) -> int:
    return int(await value(dsn, "select coalesce(sum(successes), 0) from shardclock.jobs"))


async def _more_than(dsn: str, count: int) -> bool:
    return await _successes(dsn) > count


async def _no_mark_is_old(dsn: str) -> bool:
    text = "select count(*) from shardclock.jobs where run_timer_key is not null and run_holder <> 200"
    return bool(await value(dsn, text) == 0)
