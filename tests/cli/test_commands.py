"""A command imports no other command, and each error has an exit code."""

from __future__ import annotations

import gc
import subprocess
import sys
from pkgutil import resolve_name

import pytest

from shardclock_server.cli.commands import COMMANDS, MEANT
from shardclock_server.cli.exits import CODES_BY_CLASS
from tests.support.program import Shell

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
COMMAND_MODULES = {place.name.partition(":")[0] for place in COMMANDS.values()}
OURS = "shardclock_server.cli."
LOADED = """
import sys
from shardclock_server.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def _loaded_by(*words: str) -> set[str]:
    """Run a command in a new process, and return the modules that the process has loaded."""
    done = subprocess.run([sys.executable, "-c", LOADED, *words], check=True, capture_output=True, text=True)
    return set(done.stderr.split())


def test_a_command_imports_no_other_command() -> None:
    modules = {name.removeprefix(OURS) for name in _loaded_by("list", "--help")}

    assert {"app", "commands"} <= modules
    assert modules & COMMAND_MODULES == {"inspect"}


@pytest.mark.parametrize(("word", "own"), [("--version", set()), ("--help", {"app", "commands"})])
def test_the_version_and_the_help_load_no_command_and_no_large_library(word: str, own: set[str]) -> None:
    modules = _loaded_by(word)

    assert {name.removeprefix(OURS) for name in modules if name.startswith(OURS)} == {
        "program",
        "streams",
        "version",
        *own,
    }
    assert not {"asyncpg", "pydantic", "ray", "rich", "shardclock", "uvicorn"} & modules
    assert "typer" not in modules or own


def test_the_program_s_help_has_the_summary_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(NOWHERE, capsys)
    page = " ".join(shell("--help").out.split())

    for name, place in COMMANDS.items():
        assert f" {name} {place.summary}" in page
        own = " ".join(shell(name, "--help", COLUMNS="9999").out.split())
        assert f" {place.summary} " in own, name


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("endpoint", "'endpoints'"),
        ("timers", "'list'"),
        ("timer", "'show'"),
        ("instances", "'processes instances'"),
        ("instancse", "'processes show', 'processes instances'"),
        ("when", "'show', 'explain'"),
    ],
)
def test_an_unknown_command_is_refused_with_the_most_similar_command(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Shell(NOWHERE, capsys)(word, "list")

    assert (done.code, done.out) == (2, "")
    assert f"No such command {word!r}. Did you mean {meant}" in done.err


@pytest.mark.parametrize("commands", MEANT.values())
def test_each_suggested_command_exists(commands: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands:
        assert Shell(NOWHERE, capsys)(*command.split(), "--help").code == 0


def test_the_garbage_collector_is_enabled_after_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["list", "--help"], ["nonsense"]):
        Shell(NOWHERE, capsys)(*words)

        assert gc.isenabled()


@pytest.mark.parametrize("name", CODES_BY_CLASS)
def test_each_name_with_an_exit_code_is_an_exception(name: str) -> None:
    kind = resolve_name(name)

    assert issubclass(kind, Exception)
    assert f"{kind.__module__}.{kind.__qualname__}" == name


@pytest.mark.parametrize(
    ("words", "help_of"),
    [("list --nme a", "shardclock list"), ("jobs run a --timeout 3s", "shardclock jobs run")],
)
def test_a_wrong_command_line_leads_to_the_help_of_its_command(shell: Shell, words: str, help_of: str) -> None:
    assert shell(*words.split()).err.endswith(f"(see `{help_of} --help`)\n")
