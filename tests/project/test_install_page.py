"""Each command of docs/install.md that installs or starts something works from the built wheels."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.distributions import INSTALL_S, pip
from tests.support.doc_blocks import blocks
from tests.support.program import until

THIS_FILE = Path(__file__).relative_to(ROOT).as_posix()
BLOCKS = [it for it in blocks() if it.reason is not None and it.reason.startswith(f"{THIS_FILE} runs it")]
RUN_S = 600
APP = """
import shardclock

@shardclock.on_timer("order.expired")
def expired(timer): ...
"""
UV = re.search(r"^UV := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)


@dataclass(frozen=True)
class PageReader:
    """A reader of the page; the test's folders replace the folders on the page."""

    place: Path
    environment: Mapping[str, str]

    def type(self, command: str) -> None:
        """Run a command to its end; start an `up`, and stop it when it runs."""
        for folder in ("/srv/", "/opt/"):
            command = command.replace(folder, f"{self.place}{folder}")
        if " up " in command:
            self._run_up(command)
            return
        done = self._start(command)
        said, _ = done.communicate(timeout=RUN_S)
        assert done.returncode == 0, f"{command}: {said}"

    def _run_up(self, command: str) -> None:
        said = self.place / "said"
        said.write_text("")
        with self._start(f"exec {command} > {said} 2>&1") as up:
            try:
                until(lambda: "console at" in said.read_text() or up.poll() is not None, "the console", within_s=RUN_S)
                until(lambda: "running on" in said.read_text() or up.poll() is not None, "the cluster", within_s=RUN_S)
                up.send_signal(signal.SIGINT)
                assert up.wait(RUN_S) == 0, said.read_text()
            finally:
                if up.poll() is None:
                    os.killpg(up.pid, signal.SIGKILL)
        for words in ("HTTP API at http://", "console at http://", "running on the embedded Postgres at "):
            assert words in said.read_text()

    def _start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.place / "empty",
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def reader(wheels: dict[str, Path]) -> Iterator[PageReader]:
    """Make a machine that has only uv and Python; its pip and uv find the wheels as on a package index."""
    # Not pytest's folder, which only its owner may read: root's embedded Postgres runs as another user.
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as folder:
        Path(folder).chmod(0o755)
        yield _machine(Path(folder), wheels["server"].parent)


def _machine(place: Path, wheels: Path) -> PageReader:
    (place / "empty").mkdir()
    (place / "srv/shop/shop").mkdir(parents=True)
    (place / "srv/shop/shop/jobs.py").write_text(APP)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "uv")], check=True, timeout=INSTALL_S)
    assert UV is not None
    try:
        pip(place / "uv" / "bin", "install", "--quiet", f"uv=={UV[1]}")
    except AssertionError as error:
        pytest.skip(f"no package can be installed here: {str(error).splitlines()[-1]}")
    (place / "bin").mkdir()
    (place / "bin" / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHARDCLOCK_", "PYTHON", "UV_"))}
    return PageReader(
        place,
        kept
        | {
            "PATH": f"{place}/bin:{place}/uv/bin:/usr/bin:/bin",
            "PIP_FIND_LINKS": str(wheels),
            "UV_FIND_LINKS": str(wheels),
            "UV_CACHE_DIR": str(place / "cache"),
            "UV_PYTHON": str(place / "bin" / "python3"),
            "UV_PYTHON_DOWNLOADS": "never",
            "PYTHONPATH": str(place / "srv/shop"),
            "SHARDCLOCK_DATA_DIR": str(place / "data"),
            "SHARDCLOCK_METRICS_PORT": "0",
            "SHARDCLOCK_GATEWAY_PORT": "0",
        },
    )


@pytest.mark.exhaustive  # the time limit is long, because the installations download and unpack hundreds of megabytes
def test_each_command_of_the_page_works_in_its_order(reader: PageReader) -> None:
    typed = [line[2:] for block in BLOCKS for line in block.text.splitlines()]

    for command in typed:
        reader.type(command)

    assert [command for command in typed if command.startswith("uvx ")] == ["uvx shardclock up --local"]
    assert list((reader.place / "empty").iterdir()) == [reader.place / "empty" / ".venv"]


def test_the_page_covers_a_laptop_an_application_a_server_and_a_cluster() -> None:
    text = (ROOT / "docs" / "install.md").read_text()

    for title in ("Laptop", "Application", "Server", "Cluster"):
        section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        assert [block for block in BLOCKS if block.text in section]
