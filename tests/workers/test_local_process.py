"""A process of the user's code ends with its worker or by a kill, together with all child processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from shardclock_server.workers import local_process
from shardclock_server.workers.process import LocalHandlerProcess
from shardclock_server.workers.user_process import NotCalled, ProcessDied
from tests.support import ROOT
from tests.support.executors import child_of, until_reaped
from tests.support.handlers import delivery, spec_of
from tests.support.waiting import eventually

APP = """
import asyncio, os, re, subprocess, sys, time
import shardclock

@shardclock.on_timer("order.expired")
async def expire(timer):
    what = timer.payload
    print("called", what)
    if what == "blocks":
        time.sleep(60)
    if what == "keeps the lock":
        re.match(r"(a+)+$", "a" * 40 + "b")
    if what == "waits":
        await asyncio.sleep(60)
    if what == "has children":
        return [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid]
    if what == "closes its socket":
        os.close(int(open("/proc/self/cmdline").read().split(chr(0))[5]))
        await asyncio.sleep(60)
    if what == "stops the loop":
        asyncio.get_running_loop().stop()
    if what == "leaves its group":
        os.setpgid(0, os.getpgid(os.getppid()))
    return "done"
"""
# A worker with a handler that never answers.
WORKER = """
import asyncio, json, sys
from shardclock_server.workers.process import LocalHandlerProcess
from tests.support.handlers import delivery, spec_of

async def main(place, payload):
    process = LocalHandlerProcess(spec_of(), modules="app_of_local", directory=place)
    await process.ready()
    print(process._started._child.pid, flush=True)
    await process.call([delivery(payload=json.dumps(payload))])

asyncio.run(main(*sys.argv[1:]))
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "app_of_local.py").write_text(APP)
    return tmp_path


@asynccontextmanager
async def started(place: Path) -> AsyncIterator[LocalHandlerProcess]:
    process = LocalHandlerProcess(spec_of(), modules="app_of_local", directory=str(place))
    try:
        yield process
    finally:
        process.kill()
        await until_reaped(process)


async def called(process: LocalHandlerProcess, what: str) -> object:
    (outcome,) = (await process.call([delivery(payload=json.dumps(what))])).outcomes
    return getattr(outcome, "result", outcome)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, or is a zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def descriptors() -> set[str]:
    """List the open descriptors of this process, each with its file or socket."""
    found = set()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as the kernel lists them
        with suppress(FileNotFoundError):
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")  # noqa: PTH115 - as above
    return found


@pytest.mark.parametrize("payload", ["waits", "blocks", "keeps the lock"])
async def test_a_process_ends_with_its_killed_worker_even_while_the_handler_holds_pythons_lock(
    place: Path, payload: str
) -> None:
    command = [sys.executable, "-c", WORKER, str(place), payload]
    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    worker = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=buffered, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    async with asyncio.timeout(30.0):
        pid = int(await worker.stdout.readline())
        assert (await worker.stdout.readline()).decode() == f"called {payload}\n", "it prints to the worker's output"
    assert not is_gone(pid)

    worker.kill()

    await eventually(lambda: is_gone(pid), within_s=5.0)


async def test_a_process_ends_when_its_worker_closes_the_socket(place: Path) -> None:
    async with started(place) as process:
        await process.ready()
        assert process._socket is not None

        process._socket.close()

        assert await until_reaped(process) == -signal.SIGKILL
        with pytest.raises(NotCalled):
            await called(process, "any")


async def test_a_kill_immediately_ends_the_process_and_its_children_and_fails_the_calls(place: Path) -> None:
    async with started(place) as process:
        await process.ready()
        children = await called(process, "has children")
        assert isinstance(children, list)
        waiting = asyncio.create_task(called(process, "blocks"))
        await asyncio.sleep(0)

        process.kill()

        with pytest.raises(ProcessDied, match=r"^the handler's process was killed by its worker$"):
            await waiting
        with pytest.raises(ProcessDied, match="killed by its worker"):
            await process.gone()
        assert await until_reaped(process) == -signal.SIGKILL
        await eventually(lambda: all(map(is_gone, children)))


async def test_the_children_of_a_process_end_with_the_process(place: Path) -> None:
    async with started(place) as process:
        await process.ready()
        children = await called(process, "has children")
        assert isinstance(children, list)

        child_of(process).kill()

        with pytest.raises(
            ProcessDied, match=r"^the handler's process ended: SIGKILL, by the kernel if memory is short"
        ):
            await process.gone()
        await eventually(lambda: all(map(is_gone, children)))


async def test_a_child_process_that_has_left_its_process_group_is_also_killed(place: Path) -> None:
    async with started(place) as process:
        await process.ready()
        await called(process, "leaves its group")
        assert os.getpgid(child_of(process).pid) == os.getpgrp()

        process.kill()

        assert await until_reaped(process) == -signal.SIGKILL


async def test_a_handler_that_stops_the_loop_ends_its_process(place: Path) -> None:
    async with started(place) as process:
        await process.ready()
        watch = asyncio.create_task(process.gone())

        with suppress(ProcessDied):  # the process may already have sent its answer
            await called(process, "stops the loop")

        with pytest.raises(ProcessDied, match=r"^the handler's process ended: exit code 1$"):
            await watch


async def test_a_process_gets_no_signal_of_the_terminal_and_is_killed_first_if_memory_is_short(
    place: Path,
) -> None:
    async with started(place) as process:
        await process.ready()
        child = child_of(process)

        assert os.getpgid(child.pid) == child.pid
        with open(f"/proc/{child.pid}/oom_score_adj") as adjusted:  # noqa: ASYNC230, PTH123 - no file of a disk
            assert adjusted.read() == "1000\n"


async def test_a_process_that_closes_its_socket_is_unreachable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.workers.call_socket.LOST_S", 0.05)
    monkeypatch.setattr(local_process, "CLOSED_S", 0.05)
    async with started(place) as process:
        await process.ready()

        with pytest.raises(ProcessDied, match="has closed its socket") as lost:
            await called(process, "closes its socket")
        with pytest.raises(ProcessDied, match="has closed its socket"):
            await process.ready()

        assert lost.value.may_live


async def test_a_process_that_is_killed_during_its_import_has_ended(place: Path) -> None:
    (place / "app_of_local.py").write_text("import time\ntime.sleep(60)")
    async with started(place) as process:
        coming = asyncio.create_task(process.ready())
        await asyncio.sleep(0)

        process.kill()

        with pytest.raises(ProcessDied, match="killed by its worker"):
            await coming
        assert await until_reaped(process) == -signal.SIGKILL


async def test_a_process_that_is_killed_before_any_call_leaves_no_descriptor(place: Path) -> None:
    before = descriptors()

    async with started(place):
        pass

    assert descriptors() - before == set()


async def test_without_pidfds_a_thread_waits_for_the_end(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", _refuse)
    async with started(place) as process:
        await process.ready()
        assert await called(process, "any") == "done"

        child_of(process).terminate()

        with pytest.raises(ProcessDied, match=r"^the handler's process ended: SIGTERM$"):
            await process.gone()


async def test_a_failed_start_of_a_process_leaves_no_descriptor(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    monkeypatch.setattr(local_process, "Popen", _refuse)

    with pytest.raises(OSError, match="refused"):
        LocalHandlerProcess(spec_of(), modules="app_of_local", directory=str(place))

    assert descriptors() - before == set()


def _refuse(*_: object, **__: object) -> Callable[[], None]:
    raise OSError(11, "refused")
