"""Find, freeze and kill processes of the system; a process may end by itself at any time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """Find the living processes of a program and its children by a variable in their environment."""
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
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()


def thaw(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Iterator[None]:
    freeze(processes)
    try:
        yield
    finally:
        thaw(processes)


def kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def kill_all(find: Callable[[], list[psutil.Process]]) -> None:
    """Find and kill processes until none is left, because a process may start another before it dies."""
    while found := find():
        kill(found)
        psutil.wait_procs(found, timeout=1)
