"""Run one `shardclock up` as a process, with its children, and remove its processes and files at the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, Holder
from tests.support.connections import AWAY
from tests.support.factories import holders_of
from tests.support.processes import kill, processes_with, title
from tests.support.program import PROGRAM, run, until

STOP_S = 30.0  # generous: a stop takes about 3 s on two idle cores, and Ray may need 15 s to notice a lost raylet


class ClusterProcess:
    """One `shardclock up` as a process, with its children."""

    def __init__(
        self, place: Path, *, program: Sequence[str] = PROGRAM, cwd: Path | None = None, **environment: str
    ) -> None:
        self.place = place
        self.mark = str(place)
        self._said = (place / "said").open("w+b")
        # The temporary files of a killed cluster stay here. The path is short, because Ray puts sockets below this
        # path.
        self._temp = tempfile.mkdtemp(prefix="sc-")
        self.environment = {
            "SHARDCLOCK_DATA_DIR": str(place / "data"),
            "TEST_OF_SHARDCLOCK": self.mark,
            "TMPDIR": self._temp,
            # Most tests are about Ray, and look for the keepers on Ray.
            "SHARDCLOCK_STANDBY": "false",
            **environment,
        }
        self._command, self._cwd = [*program, "up"], cwd
        self.process = self._start()

    @property
    def said(self) -> str:
        return (self.place / "said").read_text()

    def start_again(self) -> None:
        """Wait for the end of the killed `up`, then start another `up`."""
        self.process.wait(STOP_S)
        self.process = self._start()

    def until_running(self) -> None:
        until(lambda: "running on" in self.said or self.process.poll() is not None, "the cluster to come up")
        assert self.process.poll() is None, self.said

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Find the cluster's living processes that have `word` in their command lines."""
        return [process for process in processes_with("TEST_OF_SHARDCLOCK", self.mark) if word in title(process)]

    @property
    def temp(self) -> Path:
        """Return the directory for temporary files."""
        return Path(self._temp)

    def ray_dir(self) -> Path:
        return Path(self.processes("shardclock_server.cluster.host")[0].environ()["SHARDCLOCK_HOST_TEMP_DIR"])

    def status(self) -> Any:
        """Return the answer of `shardclock status`; return None if the command fails."""
        done = run("status", "--json", environment=self.environment)
        return done.json if done.code == 0 else None

    @property
    def dsn(self) -> str:
        """Return the name of the cluster's database, which may not exist yet."""
        return self.environment.get("SHARDCLOCK_DSN") or EmbeddedPostgres.at(self.place / "data").dsn

    def keepers(self, role: str) -> list[Holder]:
        """List the holders of a role that have slots; the list is empty while Postgres does not answer."""
        try:
            found = asyncio.run(holders_of(self.dsn, role))
        except AWAY:
            return []
        return [holder for holder in found if holder.part is not None]

    def serving(self) -> list[Holder]:
        """List the shards if two shards serve; otherwise return an empty list."""
        # The list comes from the tables, because a starting cluster needs the cores that `shardclock status` would use.
        shards = self.keepers(SHARD)
        return shards if len(shards) == 2 else []

    def working(self) -> list[Holder]:
        """List the workers if two workers serve; otherwise return an empty list."""
        workers = self.keepers(WORKER)
        return workers if len(workers) == 2 else []

    def advancing(self) -> list[Holder]:
        """List the engines if two engines serve; otherwise return an empty list."""
        engines = self.keepers(ENGINE)
        return engines if len(engines) == 2 else []

    def is_whole(self) -> bool:
        """Return whether the host, Ray and the coordinator run, and both shards in Postgres's list are alive."""
        parts = ("shardclock_server.cluster.host", "gcs_server ", "raylet ", "CoordinatorActor")
        shards = self.serving() if all(map(self.processes, parts)) else []
        return bool(shards) and all(psutil.pid_exists(shard.pid) for shard in shards)

    def end(self) -> None:
        """Stop the cluster, and remove its processes and files, whether the test passed or failed."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        try:
            until(lambda: not self.processes(), "its processes to end", within_s=STOP_S)
        finally:
            kill(self.processes())
            self._said.close()
            shutil.rmtree(self._temp, ignore_errors=True)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env=os.environ | self.environment,
            cwd=self._cwd,
        )
