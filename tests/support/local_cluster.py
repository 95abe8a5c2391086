"""Run one `shardclock up --local` as a process, on a database that is there, in a Python that has no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from shardclock_server.sql.cluster.holders import SHARD, Holder
from tests.support.cluster_process import ClusterProcess
from tests.support.factories import query
from tests.support.program import PROGRAM, until
from tests.support.roles import OPERATOR, as_role

HOST, FORK_SERVER = "shardclock_server.cluster.local_host", "multiprocessing.forkserver"
# Python runs this module at its start.
WITHOUT_RAY = "import sys\nsys.modules['ray'] = None\n"


def without_ray(place: Path) -> dict[str, str]:
    """Give the environment of a Python in which each import of Ray fails."""
    (place / "hidden").mkdir()
    (place / "hidden" / "sitecustomize.py").write_text(WITHOUT_RAY)
    return {"PYTHONPATH": str(place / "hidden")}


class LocalCluster(ClusterProcess):
    """One `shardclock up --local`, and the records of its database."""

    def __init__(self, place: Path, dsn: str, cwd: Path | None = None, **environment: str) -> None:
        self.admin_dsn = dsn
        named = {"SHARDCLOCK_DSN": as_role(dsn, "shard"), "SHARDCLOCK_LOCAL": "true", **without_ray(place)}
        super().__init__(place, program=PROGRAM, cwd=cwd, **named, **environment)

    def host(self) -> psutil.Process:
        """Find its host."""
        return until(lambda: self.processes(HOST), "the host")[0]  # type: ignore[no-any-return]

    def shards(self, count: int) -> list[Holder]:
        """Wait until so many shards have all slots, and return them."""

        def found() -> list[Holder]:
            shards = self.keepers(SHARD)
            return shards if [it.part_count for it in shards] == [count] * count else []

        return until(found, f"{count} shards")  # type: ignore[no-any-return]

    @property
    def operator_dsn(self) -> str:
        """Name its database for an operator."""
        return as_role(self.admin_dsn, OPERATOR)

    def why_ended(self, holder: int) -> str | None:
        """Say why a holder was ended; None if it lives."""
        rows = asyncio.run(query(self.admin_dsn, f"select ended_why from shardclock.holders where holder = {holder}"))
        return None if rows[0][0] is None else str(rows[0][0])

    def schedule_many(self, count: int, *, every_s: float) -> None:
        """Schedule timers that fall due one after the other, the first in a moment."""
        asyncio.run(
            query(
                self.admin_dsn,
                "select shardclock.schedule_timer(due_date => now() + i * interval '1 s' * "
                f"{every_s}) from generate_series(1, {count}) i",
            )
        )

    def fired(self) -> int:
        """Count the records of firings."""
        return int(asyncio.run(query(self.admin_dsn, COUNT))[0][0])

    def worst_lag_s(self) -> float:
        """Return how late the latest firing was."""
        return float(asyncio.run(query(self.admin_dsn, LAG))[0][0])


COUNT = "select count(*) from shardclock.command_log where intent = 'TRIGGERED'"
LAG = (
    "select coalesce(max(extract(epoch from recorded_at - due_date)), 0) from shardclock.command_log"
    " where intent = 'TRIGGERED'"
)


@contextmanager
def local_cluster(place: Path, dsn: str, cwd: Path | None = None, **environment: str) -> Iterator[LocalCluster]:
    """Run one for the length of a block."""
    up = LocalCluster(place, dsn, cwd, **environment)
    try:
        up.until_running()
        yield up
    finally:
        up.end()
        assert up.processes() == []


def kill(pid: int) -> None:
    """End a process with -9, and wait until it is gone."""
    psutil.Process(pid).kill()
    until(lambda: not lives(pid), f"process {pid} to end")


def lives(pid: int) -> bool:
    """Say whether a process runs."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
