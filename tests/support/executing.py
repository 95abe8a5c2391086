"""Act as a worker with real executors: python -m tests.support.executing PLACE KIND...

KIND is `local`, `ray`, or `child`, a child of Ray's actor: all scenarios run with executors of this kind. Ray runs in a
separate process, because Ray leaves hooks in its process. The answer on stdout is one JSON object, by kind and
scenario.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from shardclock import Canceled, Completed, RunOrder
from shardclock_server.cluster.ray_cluster import prepare_environment, start_ray
from shardclock_server.cluster.scratch import Scratch, short_place
from shardclock_server.cluster.settings import load_settings
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.interpreter import Interpreter
from shardclock_server.workers.process import HandlerProcess, LocalHandlerProcess, RayHandlerProcess
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.process import LocalRunProcess, RayRunProcess, RunProcess
from shardclock_server.workers.user_process import ProcessDied
from tests.support.handler_queues import running
from tests.support.handlers import delivery, spec_of
from tests.support.waiting import eventually

APP = """
import asyncio, ctypes, os, re, sys, time
import shardclock

def environment():
    server = [it for it in sys.modules if it.startswith("shardclock_server")]
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    return {"server": server, "nice": nice, "omp": os.environ.get("OMP_NUM_THREADS"), "stdin": os.read(0, 1).decode()}

@shardclock.on_timer("plain", priority=3)
def plain(timer):
    return environment()

@shardclock.on_timer("async")
async def asynchronous(timer):
    await asyncio.sleep(0)
    return timer.payload

@shardclock.on_timer("batch", batch=10)
async def batch(timers):
    raise shardclock.Partly({timers[0].timer_key: shardclock.Discard("the first")})

@shardclock.on_timer("exits")
def exits(timer):
    if timer.payload == "bad":
        os._exit(3)

@shardclock.on_timer("crashes")
async def crashes(timer):
    if timer.payload == "bad":
        ctypes.string_at(0)

@shardclock.on_timer("forks")
async def forks(timer):
    if timer.payload == "bad":
        if os.fork() == 0:
            time.sleep(3)  # it has all that is open here
            os._exit(0)
        os._exit(3)

@shardclock.on_timer("hangs")
def hangs(timer):
    while timer.payload == "bad":
        try:
            time.sleep(60)
        except BaseException:
            pass

@shardclock.on_timer("blocks")
async def blocks(timer):
    if timer.payload == "bad":
        re.match(r"(a+)+$", "a" * 40 + "b")  # in C, with Python's lock

@shardclock.job(priority=4)
def looked(run):
    return environment()

@shardclock.job()
async def waits(run):
    run.progress(0.5, "half")
    await asyncio.sleep(60)

@shardclock.job()
def ignores(run):
    re.match(r"(a+)+$", "a" * 40 + "b")
"""
# By target: whether it is async, and its timeout.
DEATHS = {"exits": (False, 30.0), "crashes": (True, 30.0), "forks": (True, 30.0), "hangs": (False, 0.5),
          "blocks": (True, 0.5)}  # fmt: skip
Start = Callable[[HandlerSpec], HandlerProcess]
StartRuns = Callable[[RunResources], RunProcess]


async def calls(start: Start) -> object:
    answers = {}
    specs = [spec_of("plain", is_async=False, priority=3), spec_of("async"), spec_of("batch", batch=10)]
    for spec in specs:
        process = start(spec)
        await process.ready()
        answer = await process.call([delivery(key, target=spec.target, payload=str(key)) for key in (1, 2)])
        answers[spec.target] = [it.result if isinstance(it, Completed) else str(it) for it in answer.outcomes]
        await process.ready()
        process.kill()
    return answers


async def deaths(start: Start) -> object:
    """Call handlers for many deliveries; one delivery ends the process or hangs. Return the failed attempts."""

    async def of(target: str, *, is_async: bool, timeout_s: float) -> dict[int, str | None]:
        spec = spec_of(target, is_async=is_async, max_attempts=1, timeout_s=timeout_s)
        async with running(spec, start) as it:
            payloads = {key: '"bad"' if key == 17 else '"good"' for key in range(30)}
            it.queue.add([delivery(key, target=target, payload=text) for key, text in payloads.items()])
            await eventually(lambda: len(it.ends()) == 30)
            return {one.delivery.timer_key: one.reason for one in it.settled if one.ending != "DELIVERED"}

    failed = [of(target, is_async=is_async, timeout_s=timeout_s) for target, (is_async, timeout_s) in DEATHS.items()]
    return dict(zip(DEATHS, await asyncio.gather(*failed), strict=True))


async def refusals(place: Path, handlers: Callable[..., Any], runs: Callable[..., Any]) -> object:
    """Start executors of apps that can't be imported."""
    (place / "raises.py").write_text("import os\nraise ValueError('no such\\nsetting')")
    (place / "exits_at_import.py").write_text("import os\nos._exit(4)")
    refused = {}
    for modules in ("raises", "exits_at_import"):
        for process in (
            handlers(spec_of(), modules=modules, directory=str(place)),
            runs(RunResources(), modules=modules, directory=str(place)),
        ):
            try:
                await process.ready()
            except ProcessDied as died:
                refused[f"{modules} {type(process).__name__[-10:]}"] = str(died)
            process.kill()
    return refused


async def runs(start: StartRuns) -> object:
    """Execute runs in one process: cancel one run, and wait for the timeout of another run."""
    process = start(RunResources(priority=4))
    await process.ready()
    first, _ = await process.run(_order("looked"), lives_s=20)
    await process.ready()
    running = asyncio.create_task(process.run(_order("waits"), lives_s=20))

    async def is_half() -> bool:
        return (await process.poll(lives_s=20)).progress == 0.5

    await eventually(is_half)
    await process.cancel()
    second, seen = await running
    await process.ready()
    try:
        await process.run(_order("ignores"), lives_s=0.5)
        died = ""
    except ProcessDied as error:
        died = str(error)
    process.kill()
    assert isinstance(first, Completed)
    return {"first": first.result, "second": isinstance(second, Canceled), "said": seen.message, "died": died}


def _order(job: str) -> RunOrder:
    return RunOrder(job, f"app_of_executors:{job}", "7.1", 1, datetime.now(UTC), None)


async def _main(kind: str, place: Path) -> dict[str, object]:
    handlers: Callable[..., Any] = LocalHandlerProcess if kind == "local" else RayHandlerProcess
    of_runs: Callable[..., Any] = LocalRunProcess if kind == "local" else RayRunProcess
    if kind == "child":
        # With an explicit interpreter (here the same Python), Ray's actor starts the executor as a child process.
        handlers, of_runs = (partial(it, python=Interpreter.ours()) for it in (handlers, of_runs))
    start = partial(handlers, modules="app_of_executors", directory=str(place))
    scenarios: dict[str, Awaitable[object]] = {
        "calls": calls(start),
        "deaths": deaths(start),
        "refusals": refusals(place, handlers, of_runs),
        "runs": runs(partial(of_runs, modules="app_of_executors", directory=str(place))),
    }
    # Ray needs 2 s or more to start an executor, so all executors start concurrently.
    return dict(zip(scenarios, await asyncio.gather(*scenarios.values()), strict=True))


@contextmanager
def raying() -> Iterator[None]:
    """Run a Ray during a block, in a directory with a path that is short enough for sockets."""
    scratch = Scratch.make("ray", place=short_place())
    try:
        prepare_environment(load_settings(), scratch.path)
        start_ray(load_settings(), scratch.path)
        import ray

        yield
        ray.shutdown()
    finally:
        scratch.remove()


if __name__ == "__main__":
    # Ray and the app also print to stdout, so the test gets only the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    where, *kinds = sys.argv[1:]
    with nullcontext() if kinds == ["local"] else raying():
        json.dump({kind: asyncio.run(_main(kind, Path(where))) for kind in kinds}, answer)
