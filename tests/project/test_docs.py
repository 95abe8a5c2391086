"""Test that the code blocks of the README and the docs run."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from shardclock_server.service.processes import deploy
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.timers.model import NewTimer
from tests.support import ROOT
from tests.support.cli_asserts import DONE, NOT_DONE
from tests.support.doc_blocks import CodeBlock, blocks
from tests.support.factories import BOUND_S
from tests.support.gateways import serving_beside
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.memory import IN_MEMORY
from tests.support.postgres import Server
from tests.support.program import Shell
from tests.support.roles import COMMANDS
from tests.support.sql_client import session as session_of

LONG_RUNNING = ("up", "demo", "tail")  # these commands never end, so the test only checks that they exist
FOR_A_SHELL = frozenset("$`|&;<>*?~\\")
GATEWAY = "http://127.0.0.1:9841"
NAMED = ("order-1", "order-2")
EXAMPLE = ROOT / "examples" / "order.bpmn"
NEEDS_YES = "; add --yes"
QUOTED = re.compile(r"'[^']*'")
OURS = [command for commands in COMMANDS.values() for command in commands]  # the commands with a known role


def of(kind: str) -> list[object]:
    """List the blocks of a kind as parameters; a block with a reason is skipped."""
    return [pytest.param(b, id=b.where, marks=[*_skipped(b), *_slow(b)]) for b in blocks() if b.kind == kind]


def _skipped(block: CodeBlock) -> list[pytest.MarkDecorator]:
    return [pytest.mark.skip(reason=block.reason)] if block.reason else []


def _slow(block: CodeBlock) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if GATEWAY in block.text else []


def commands(text: str) -> list[str]:
    """List the typed commands of a block, each on one line."""
    joined = text.replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def checked(command: str) -> str:
    """If a command never ends or sets up a machine, replace it by a check that the command exists."""
    words = shlex.split(command, comments=True)
    if words[:1] == ["make"]:
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        goals = [word for word in words[1:] if "=" not in word]
        assert set(goals) <= set(targets), f"the Makefile has no {goals}"
        return ":"
    if words[:3] == ["python", "-m", "chaos"]:
        return "python -m chaos --help > /dev/null"
    program = next((i for i, word in enumerate(words) if word.endswith("shardclock")), None)
    verb = words[program + 1 : program + 2] if program is not None else []
    if verb and verb[0] in LONG_RUNNING and "--stop" not in words:
        return f"shardclock {verb[0]} --help"
    return command


def in_words(command: str) -> list[str] | None:
    """Split a shardclock command into words; return None if the command needs a shell or another program."""
    words = shlex.split(command, comments=True)
    is_ours = words[:1] == ["shardclock"] and words[1] in OURS
    return words[1:] if is_ours and not set(QUOTED.sub("", command)) & FOR_A_SHELL else None


@pytest.mark.slow
@pytest.mark.parametrize("block", of("console"))
def test_the_commands_of_a_block_exit_with_0_and_with_1_only_if_a_confirmation_lacks(
    block: CodeBlock, dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = [checked(command) for command in commands(block.text)]
    if GATEWAY in block.text:
        _ask(typed, block, dsn)
        return
    each = [words for command in typed if (words := in_words(command)) is not None]
    if len(each) < len(typed):
        _type("\n".join(["set -e", *typed]), block, dsn)
        return
    # The command runs in this process, because a process for each command would take ten times as long. The README's
    # commands run in a shell below.
    monkeypatch.chdir(ROOT)
    shell = Shell(dsn, capsys)
    for words in each:
        done = shell(*words)
        assert done.code == (NOT_DONE if NEEDS_YES in done.err else DONE), f"{block.where}: {words}: {done.err}"


def _ask(typed: list[str], block: CodeBlock, dsn: str) -> None:
    """Run commands against a gateway that has the timers of the page's earlier blocks."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    asyncio.run(_schedule_named(dsn, *NAMED))
    with serving_beside(dsn) as url:
        _type("\n".join(["set -e", *typed]).replace(GATEWAY, url), block, dsn)


async def _schedule_named(dsn: str, *names: str) -> None:
    async with session_of(dsn) as session:
        await ScheduleBatch([NewTimer.from_fields({"delay": "PT1H", "name": name}) for name in names]).send(session)


def _type(script: str, block: CodeBlock, dsn: str) -> None:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as data_dir:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=os.environ | {"SHARDCLOCK_DSN": dsn, "SHARDCLOCK_DATA_DIR": data_dir, "PATH": path},
            capture_output=True,
            text=True,
            timeout=4 * BOUND_S,
            check=False,
        )
    assert done.returncode == 0, f"{block.where}: {done.stdout}{done.stderr}"


@pytest.mark.exhaustive
def test_the_readme_s_commands_work_in_a_clone_in_their_order() -> None:
    if not (ROOT / ".venv" / "bin" / "activate").exists():
        pytest.skip("`make setup` was not run here")
    readme = [block for block in blocks() if block.where.startswith("README.md") and block.reason is None]
    shown = [block for block in readme if block.kind == "console" and GATEWAY not in block.text]
    typed = [command for block in shown for command in commands(block.text)]
    # For a long command, the test only checks that the shell finds it; requests to a gateway are tested above.
    script = "\n".join(["set -e", *(checked(command) for command in typed)])
    elsewhere = [path for path in os.environ["PATH"].split(":") if not (Path(path) / "shardclock").exists()]
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as data_dir:
        kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=kept | {"SHARDCLOCK_DATA_DIR": data_dir, "PATH": ":".join(elsewhere)},
            capture_output=True,
            text=True,
            timeout=8 * BOUND_S,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr}"


@pytest.fixture(scope="module")
def with_examples(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Make a database with the job and the process of the examples; each SQL block gets a copy."""

    async def write(dsn: str) -> None:
        await declare(dsn, job_spec("refresh", every_s=900.0))
        async with session_of(dsn) as session:
            await deploy(session, EXAMPLE.read_bytes(), resource=EXAMPLE.name)

    with postgres(18).database(write) as dsn:
        yield dsn


@pytest.mark.parametrize("block", of("sql"))
def test_an_sql_block_runs(block: CodeBlock, postgres: Callable[[int], Server], with_examples: str) -> None:
    async def execute(dsn: str) -> None:
        connection = await asyncpg.connect(dsn, timeout=BOUND_S)
        try:
            await connection.execute(block.text, timeout=BOUND_S)
        finally:
            await connection.close(timeout=BOUND_S)

    with postgres(18).database(execute, of=with_examples):
        pass


@pytest.mark.parametrize("block", of("python"))
def test_a_python_block_runs(block: CodeBlock, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_DSN", dsn)
    if GATEWAY not in block.text:
        _execute(block.text, block)
        return
    with serving_beside(dsn) as url:
        _execute(block.text.replace(GATEWAY, url), block)


def _execute(text: str, block: CodeBlock) -> None:
    exec(compile(text, block.where, "exec"), {"__name__": "__main__"})
