"""Prove that a plain function is called in a thread which keeps nothing from ending."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from workers.threads import in_a_thread

NEVER_ENDS = """
import asyncio, time
from workers.threads import in_a_thread

async def main():
    try:
        async with asyncio.timeout(0.1):
            await in_a_thread(lambda: time.sleep(3600))
    except TimeoutError:
        print("left")

asyncio.run(main())
"""


async def test_it_returns_what_the_function_returns_and_raises_what_it_raises() -> None:
    threads: list[threading.Thread] = []

    def fails() -> None:
        threads.append(threading.current_thread())
        raise SystemExit(7)

    assert await in_a_thread(lambda: 42) == 42
    with pytest.raises(SystemExit):
        await in_a_thread(fails)
    assert threads[0] is not threading.current_thread()


async def test_the_function_sees_the_callers_context() -> None:
    which: ContextVar[str] = ContextVar("which")
    which.set("mine")

    assert await in_a_thread(which.get) == "mine"


async def test_an_end_that_nobody_waits_for_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
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
    await asyncio.to_thread(threads[0].join)

    assert faults == []


def test_a_function_that_never_ends_keeps_neither_the_loop_nor_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", NEVER_ENDS], capture_output=True, text=True, timeout=30, check=True)

    assert (done.stdout, done.stderr) == ("left\n", "")
