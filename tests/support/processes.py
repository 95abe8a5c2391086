"""Processes of the system: find, freeze and kill them, though each of them may end by itself meanwhile."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """Find the living processes with a variable in their environment: a program and its children."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(variable) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def title(process: psutil.Process) -> str:
    """Read a process's name and command line; "" if it has ended."""
    try:
        return " ".join([process.name(), *process.cmdline()])
    except psutil.Error:
        return ""


def freeze(processes: Iterable[psutil.Process]) -> None:
    """Stop processes where they stand (SIGSTOP)."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()


def thaw(processes: Iterable[psutil.Process]) -> None:
    """Let frozen processes go on."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Keep processes from doing anything during a block."""
    freeze(processes)
    try:
        yield
    finally:
        thaw(processes)


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill processes with -9."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def kill_all(find: Callable[[], list[psutil.Process]]) -> None:
    """Kill what is found, until nothing more is: a process may have started another before it died."""
    while found := find():
        kill(found)
        psutil.wait_procs(found, timeout=1)
