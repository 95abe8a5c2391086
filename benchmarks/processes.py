"""Measure the processor time of processes and of their children."""

from collections.abc import Iterable

import psutil

from shardclock_server.sql.session import Session


async def server_of(session: Session) -> psutil.Process:
    """Find the process of the Postgres server: the parent of the backend that serves this connection."""
    async with session.connection() as connection:
        backend: int = await connection.fetchval("select pg_backend_pid()")
    return psutil.Process(psutil.Process(backend).ppid())


def family_of(process: psutil.Process) -> list[psutil.Process]:
    """List a process and all its children."""
    return [process, *process.children(recursive=True)]


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Sum the processor time of processes, and of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
