"""Run one `shardclock up` as a process, with all that it starts, and leave nothing of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil

from tests.program import PROGRAM, processes_with, run, until

STOP_S = 15.0  # generous: it takes about 3 s on two idle cores


class Up:
    """One `shardclock up` as a process, with all it has started."""

    def __init__(self, place: Path, **environment: str) -> None:
        self.place = place
        self.mark = str(place)
        self._said = (place / "said").open("w+b")
        # What a killed one leaves is found here; a short path, because Ray puts sockets below it.
        self._temp = tempfile.mkdtemp(prefix="sc-")
        self.environment = {
            "SHARDCLOCK_DATA_DIR": str(place / "data"),
            "SHARDCLOCK_TEST": self.mark,
            "TMPDIR": self._temp,
            **environment,
        }
        self.process = subprocess.Popen(
            [*PROGRAM, "up"], stdout=subprocess.DEVNULL, stderr=self._said, env=os.environ | self.environment
        )

    @property
    def said(self) -> str:
        """Read what it has said on stderr."""
        return (self.place / "said").read_text()

    def until_running(self) -> None:
        """Wait until it says so."""
        until(lambda: "running on" in self.said or self.process.poll() is not None, "the cluster to come up")
        assert self.process.poll() is None, self.said

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Find its living processes, those with a word in their command lines."""
        return [process for process in processes_with("SHARDCLOCK_TEST", self.mark) if word in _title(process)]

    def ray_dir(self) -> Path:
        """Name the directory that Ray works in."""
        return Path(self.processes("cluster.host")[0].environ()["SHARDCLOCK_HOST_TEMP_DIR"])

    def status(self) -> Any:
        """Ask the program how it is, or nothing if it can't tell."""
        done = run("status", "--json", environment=self.environment)
        return done.json if done.code == 0 else None

    def serving(self) -> list[Any]:
        """List the shards, once both serve."""
        status = self.status()
        shards = [shard for shard in status["shards"] if shard["shard"] is not None] if status else []
        return shards if len(shards) == 2 else []

    def is_whole(self) -> bool:
        """Say whether each of its processes is there, and both shards that Postgres knows of live."""
        parts = ("cluster.host", "gcs_server ", "raylet ", "CoordinatorActor")
        shards = self.serving() if all(map(self.processes, parts)) else []
        return bool(shards) and all(psutil.pid_exists(shard["pid"]) for shard in shards)

    def end(self) -> None:
        """Leave nothing behind, however the test went."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        try:
            until(lambda: not self.processes(), "its processes to end", within_s=STOP_S)
        finally:
            for process in self.processes():
                process.kill()
            self._said.close()
            shutil.rmtree(self._temp, ignore_errors=True)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join([process.name(), *process.cmdline()])
    except psutil.Error:
        return ""
