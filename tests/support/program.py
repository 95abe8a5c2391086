"""Run the command line as a user does, in this process for speed, or in a separate process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import asyncpg
import pytest

from shardclock_server.cli import main
from tests.support.factories import BOUND_S, sql
from tests.support.roles import for_command

PROGRAM = [sys.executable, "-c", "from shardclock_server.cli import main; main()"]
LOOK_S = 0.02


@dataclass(frozen=True)
class Done:
    """A command's exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Shell:
    """Run commands in this process, on one database, each with the role of least rights."""

    dsn: str
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object, stdin: bytes = b"", tty: bool = False, **environment: str) -> Done:
        """Run `shardclock` with these arguments until it ends; with `tty` the standard input is a terminal."""
        words = ["shardclock", *map(str, arguments)]
        dsn = for_command(self.dsn, words[1]) if words[1:] else self.dsn
        self.capsys.readouterr()
        with (
            mock.patch.dict(os.environ, {"SHARDCLOCK_DSN": dsn, "COLUMNS": "200", **environment}),
            mock.patch.object(sys, "argv", words),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))) as typed,
            mock.patch.object(typed, "isatty", return_value=tty),
            pytest.raises(SystemExit) as end,
        ):
            main()
        said = self.capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, said.out, said.err)

    def sql(self, text: str, *args: Any) -> list[asyncpg.Record]:
        """Run one statement on the database, as a superuser."""
        return sql(self.dsn, text, *args)


def run(
    *arguments: object,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = 4 * BOUND_S,
    cwd: Path | None = None,
) -> Done:
    """Run `shardclock` in a separate process until it ends."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=os.environ | environment,
        timeout=timeout_s,
        cwd=cwd,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def until(holds: Callable[[], Any], what: str, *, within_s: float = 2 * BOUND_S) -> Any:
    """Wait until `holds` returns a true value, and return the value; after `within_s` fail with the name of the
    condition.
    """
    deadline = time.monotonic() + within_s
    while True:
        looked_at = time.monotonic()
        if found := holds():
            return found
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}"
        # The processes under test need processor time, too, so the checks use at most half of the time.
        time.sleep(max(LOOK_S, time.monotonic() - looked_at))
