"""Ctrl-C while `shardclock up` starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from shardclock_server.cli import INTERRUPTED, main, program
from shardclock_server.cluster import host_process
from tests.support.program import PROGRAM, until

END_S = 30
WAITS = """
import os, pathlib, threading
pathlib.Path("pid").write_text(str(os.getpid()))
pathlib.Path("pid").rename("imports")
threading.Event().wait()
"""


def test_ctrl_c_before_the_program_is_imported_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host_process, "start_local_host_ahead", interrupt)
    monkeypatch.setattr(sys, "argv", ["shardclock", "up", "--local"])

    with pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == INTERRUPTED
    assert capsys.readouterr().err == ""


def test_ctrl_c_while_an_import_creates_a_class_ends_the_program_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: list[str]) -> int:
        raise RuntimeError("Error calling __set_name__ on 'Field' instance") from KeyboardInterrupt()  # as Python 3.11

    monkeypatch.setattr(program, "_answer", interrupt)
    monkeypatch.setattr(sys, "argv", ["shardclock", "status"])

    with pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == INTERRUPTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_while_the_app_is_imported_ends_up_quietly(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    up = subprocess.Popen(
        [*PROGRAM, "up", "--local", "--app", "waits"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
        env=os.environ | {"SHARDCLOCK_DSN": "postgresql://127.0.0.1:1/none"},
    )
    try:
        until((tmp_path / "imports").exists, "the import of the app")
        os.killpg(up.pid, number)  # a terminal sends Ctrl-C to all processes of the group
        said = up.communicate(timeout=END_S)[1].decode()
    finally:
        up.kill()
        up.wait()

    assert (up.returncode, said) == (INTERRUPTED, "")
    assert not psutil.pid_exists(int((tmp_path / "imports").read_text()))
