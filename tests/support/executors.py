"""Find the executors among the children of a test that acts as the worker."""

from __future__ import annotations

from subprocess import Popen

import psutil

from shardclock_server.workers.local_process import LocalProcess
from shardclock_server.workers.user_process import UserProcess
from tests.support.waiting import eventually


def child_of(process: UserProcess) -> psutil.Process:
    """Return the operating system's process."""
    return psutil.Process(_popen(process).pid)


async def until_reaped(process: UserProcess) -> int:
    """Wait until the worker has reaped the process; return its exit code."""
    popen = _popen(process)
    await eventually(lambda: popen.returncode is not None)
    assert popen.returncode is not None
    return popen.returncode


def _popen(process: UserProcess) -> Popen[bytes]:
    started = process._started
    assert isinstance(started, LocalProcess)
    return started._child
