"""A command imports no other command, and each error has an exit code."""

from __future__ import annotations

import gc
import subprocess
import sys
from pkgutil import resolve_name

import pytest

from shardclock_server.cli.commands import COMMANDS
from shardclock_server.cli.exits import CODES_BY_CLASS
from tests.support.program import Shell

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
COMMAND_MODULES = {place.partition(":")[0] for place in COMMANDS.values()}
LOADED = """
import sys
from shardclock_server.cli import main
try:
    main()
finally:
    print(*[name for name in sys.modules if name.startswith("shardclock_server.cli.")], file=sys.stderr)
"""


@pytest.mark.parametrize(("words", "loaded"), [(["list", "--help"], {"inspect"}), (["--version"], set())])
def test_a_command_imports_no_other_command(words: list[str], loaded: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *words], check=True, capture_output=True, text=True)

    modules = {name.removeprefix("shardclock_server.cli.") for name in done.stderr.split()}
    assert {"app", "commands"} <= modules
    assert modules & COMMAND_MODULES == loaded


def test_an_unknown_command_is_refused_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(NOWHERE, capsys)("endpoint", "list")

    assert (done.code, done.out) == (2, "")
    assert "No such command 'endpoint'. Did you mean 'endpoints'" in done.err


def test_the_garbage_collector_is_enabled_after_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["list", "--help"], ["nonsense"]):
        Shell(NOWHERE, capsys)(*words)

        assert gc.isenabled()


@pytest.mark.parametrize("name", CODES_BY_CLASS)
def test_each_name_with_an_exit_code_is_an_exception(name: str) -> None:
    kind = resolve_name(name)

    assert issubclass(kind, Exception)
    assert f"{kind.__module__}.{kind.__qualname__}" == name
