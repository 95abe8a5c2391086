"""Test that a plain function runs in a thread that blocks neither the loop nor the exit of the process."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from collections import deque
from contextvars import ContextVar

import pytest

import shardclock.executor.threads as call_threads
from shardclock.executor.threads import IDLE_MAX, in_a_thread
from tests.support.waiting import eventually

NEVER_ENDS = """
import asyncio, time
from shardclock.executor.threads import in_a_thread

async def main():
    try:
        async with asyncio.timeout(0.1):
            await in_a_thread(lambda: time.sleep(3600))
    except TimeoutError:
        print("left")

asyncio.run(main())
"""
FORKS = """
import asyncio, os
from shardclock.executor.threads import in_a_thread

asyncio.run(in_a_thread(int))
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    asyncio.run(asyncio.wait_for(in_a_thread(int), 5))
    os._exit(0)
"""


async def test_a_call_in_a_thread_returns_the_result_or_raises_the_exception() -> None:
    threads: list[threading.Thread] = []

    def fails() -> None:
        threads.append(threading.current_thread())
        raise SystemExit(7)

    assert await in_a_thread(lambda: 42) == 42
    with pytest.raises(SystemExit):
        await in_a_thread(fails)
    assert threads[0] is not threading.current_thread()


async def test_a_call_in_a_thread_has_the_callers_context() -> None:
    which: ContextVar[str] = ContextVar("which")
    which.set("mine")

    assert await in_a_thread(which.get) == "mine"


@pytest.fixture
def _no_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without idle threads of other tests."""
    monkeypatch.setattr(call_threads, "_idle", deque())


@pytest.mark.usefixtures("_no_idle_threads")
async def test_the_result_of_an_abandoned_call_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    gate, threads = threading.Event(), list[threading.Thread]()

    def late() -> None:
        threads.append(threading.current_thread())
        gate.wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await in_a_thread(late)
    gate.set()
    await eventually(lambda: bool(call_threads._idle))
    assert await in_a_thread(threading.current_thread) is threads[0]

    assert faults == []


@pytest.mark.usefixtures("_no_idle_threads")
async def test_a_thread_is_reused_and_makes_one_call_at_a_time() -> None:
    both = threading.Barrier(2)

    def meet() -> threading.Thread:
        both.wait(timeout=10)
        return threading.current_thread()

    one, other = await asyncio.gather(in_a_thread(meet), in_a_thread(meet))
    again = [await in_a_thread(threading.current_thread) for _ in range(20)]

    assert one is not other
    assert set(again) <= {one, other}


@pytest.mark.usefixtures("_no_idle_threads")
async def test_after_many_concurrent_calls_few_idle_threads_remain() -> None:
    many = threading.Barrier(IDLE_MAX + 5)

    def meet() -> threading.Thread:
        many.wait(timeout=10)
        return threading.current_thread()

    threads = await asyncio.gather(*(in_a_thread(meet) for _ in range(IDLE_MAX + 5)))
    await eventually(lambda: sum(it.is_alive() for it in threads) == IDLE_MAX)

    assert len(call_threads._idle) == IDLE_MAX


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("_no_idle_threads")
async def test_an_exception_after_the_end_of_its_call_affects_no_other_call() -> None:
    thread = await in_a_thread(threading.current_thread)
    assert thread.ident is not None

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    async with asyncio.timeout(10):
        assert await in_a_thread(threading.current_thread) is not thread

    await eventually(lambda: not thread.is_alive())


async def test_an_idle_thread_keeps_no_result_in_memory() -> None:
    class Large:
        """A returned object."""

    made = weakref.ref(await in_a_thread(Large))

    await eventually(lambda: gc.collect() >= 0 and made() is None)


def test_an_endless_function_blocks_neither_the_loop_nor_the_exit() -> None:
    done = subprocess.run([sys.executable, "-c", NEVER_ENDS], capture_output=True, text=True, timeout=30, check=True)

    assert (done.stdout, done.stderr) == ("left\n", "")


def test_a_forked_child_makes_calls_in_its_own_threads() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "0\n", done.stderr
