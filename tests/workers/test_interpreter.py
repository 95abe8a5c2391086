"""`up` checks a Python of another environment before any start, and refuses an unfit Python in one sentence."""

from __future__ import annotations

import json
import os
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from shardclock_server.workers.app import App, AppRefused, find_app
from shardclock_server.workers.interpreter import CLIENT, Interpreter, UnfitInterpreter
from tests.support import ROOT
from tests.support.cli_asserts import BAD_INPUT
from tests.support.program import run

OURS = version(CLIENT)
APP = """
import sys
import shardclock

@shardclock.on_timer("told")
def told(timer): ...

@shardclock.job(every="PT10M")
def seen(run): ...

assert not [name for name in sys.modules if name.startswith("shardclock_server")]
"""


def install_client(environment: Path, *, of_version: str) -> Path:
    """Make the client importable in an environment, as an installed version; return the Python of the environment."""
    (site,) = environment.glob("lib/python*/site-packages")
    info = site / f"shardclock_client-{of_version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {CLIENT}\nVersion: {of_version}\n")
    import pydantic

    # A short path to a Python; its environment has neither the server nor Ray.
    for name in ("shardclock", "pydantic", "pydantic_core", "annotated_types", "typing_inspection"):
        folder = ROOT / "client" if name == "shardclock" else Path(pydantic.__file__).parents[1]
        (site / name).symlink_to(folder / name)
    (site / "typing_extensions.py").symlink_to(Path(pydantic.__file__).parents[1] / "typing_extensions.py")
    return environment / "bin" / "python"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    venv.create(tmp_path / "environment", symlinks=True)
    return tmp_path / "environment"


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def refusal_of(name: str) -> str:
    with pytest.raises(UnfitInterpreter) as refused:
        Interpreter.named(name)
    sentence = str(refused.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("name", ["/nowhere/bin/python", "no-such-python", "/etc/passwd", "/tmp"])
def test_a_name_that_is_no_program_is_refused(name: str) -> None:
    assert refusal_of(name) == (
        f"--python {name!r} is no program; name the Python of the environment with your code, such as"
        " /srv/shop/.venv/bin/python"
    )


@pytest.mark.parametrize("text", ["exit 3", "echo hello", "echo '[]'", "kill -9 $$"])
def test_a_program_that_is_no_python_is_refused(tmp_path: Path, text: str) -> None:
    name = program(tmp_path / "python", text)

    assert refusal_of(name) == (
        f"--python {name!r} can't be used: the program is no Python, or is broken; name the Python of the environment"
        " with your code"
    )


@pytest.mark.parametrize("old", [[2, 7], [3, 9], [3, 10]])
def test_a_python_before_3_11_is_refused(tmp_path: Path, old: list[int]) -> None:
    # An old Python prints its version, and does not look for the client.
    printed = json.dumps({"python": old, "client": None, "library": ""})
    name = program(tmp_path / "python", f"echo '{printed}'")

    assert refusal_of(name) == (
        f"--python {name!r} is Python {old[0]}.{old[1]}, and the client needs 3.11 or newer; make your environment with"
        " a newer one"
    )


def test_an_environment_without_the_client_is_refused_with_the_command_that_installs_it(environment: Path) -> None:
    name = str(environment / "bin" / "python")

    assert refusal_of(name) == (
        f"--python {name!r} lacks shardclock-client; install it there:"
        f" `{name} -m pip install shardclock-client=={OURS}`"
    )


def test_a_client_of_another_version_is_refused(environment: Path) -> None:
    name = str(install_client(environment, of_version="0.9.0"))

    assert refusal_of(name) == (
        f"--python {name!r} has shardclock-client 0.9.0, and this server needs {OURS}; install it there:"
        f" `{name} -m pip install shardclock-client=={OURS}`"
    )


def test_a_python_is_found_in_path_and_keeps_its_link(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = install_client(environment, of_version=OURS)
    monkeypatch.setenv("PATH", f"{environment / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(environment)

    for name in ("python", str(python), "bin/python"):
        found = Interpreter.named(name)
        assert found.program == str(python)
        assert Path(found.library).parents[2] == environment


def test_an_app_is_imported_by_the_python_of_its_environment(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    python = str(install_client(environment, of_version=OURS))

    app = find_app("shop", tmp_path, python=python)

    assert ([it.target for it in app.handlers], [it.name for it in app.jobs]) == (["told"], ["seen"])
    assert app.python is not None
    assert app.python.program == python
    assert App.from_json(app.to_json()) == app
    # Without `--app`, the packages of the environment name the app.
    with pytest.raises(AppRefused, match="no installed package names an app; name its modules with --app"):
        find_app("", tmp_path, python=python)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / f"shardclock_client-{OURS}.dist-info" / "entry_points.txt").write_text("[shardclock.handlers]\na = shop\n")
    assert find_app("", tmp_path, python=python).modules == "shop"


def test_an_unfit_python_ends_the_start_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    given = {"SHARDCLOCK_DATA_DIR": str(tmp_path / "data"), "SHARDCLOCK_STANDBY": "false"}

    by_option = run("up", "--app", "shop", "--python", "/nowhere/python", environment=given, cwd=tmp_path)
    by_setting = run("up", "--app", "shop", environment=given | {"SHARDCLOCK_PYTHON": "/nowhere/python"}, cwd=tmp_path)

    assert (by_option.code, by_option.out) == (BAD_INPUT, "")
    assert by_option.err.startswith("shardclock: --python '/nowhere/python' is no program; ")
    assert by_option == by_setting
    assert not (tmp_path / "data").exists()


def test_pythonpath_comes_after_the_libraries_of_the_other_python(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Interpreter.named(str(install_client(environment, of_version=OURS)))
    monkeypatch.setenv("PYTHONPATH", "/srv/shop")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")

    given = python.environment()

    assert given["PYTHONPATH"].split(os.pathsep) == [python.library, "/srv/shop"]
    assert "PYTHONOPTIMIZE" not in given
    assert python.command("shardclock.executor", "handler")[:3] == [python.program, "-P", "-m"]
    assert Interpreter.ours().program == sys.executable
