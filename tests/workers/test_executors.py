"""A real executor keeps the same promises whether Ray or the worker has started it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardclock.executor.niceness import NICE
from tests.support import ROOT
from tests.support.executing import APP, DEATHS

pytestmark = pytest.mark.slow
BOUND_S = 240.0
OF_RAY = (pytest.mark.ray, pytest.mark.exhaustive)


@pytest.fixture(scope="module")
def played_locally(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all scenarios with executors that the worker starts."""
    return _played(tmp_path_factory.mktemp("executors"), "local")


@pytest.fixture(scope="module")
def played_with_ray(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all scenarios with Ray's actors, and with child processes of the actors, in one Ray."""
    return _played(tmp_path_factory.mktemp("executors"), "ray", "child")


@pytest.fixture(scope="module", params=["local", *(pytest.param(it, marks=OF_RAY) for it in ("ray", "child"))])
def played(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the answers of all scenarios with one kind of executors."""
    answers = request.getfixturevalue("played_locally" if request.param == "local" else "played_with_ray")
    return dict(answers[request.param])


def _played(place: Path, *kinds: str) -> dict[str, Any]:
    (place / "app_of_executors.py").write_text(APP)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.executing", str(place), *kinds],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=BOUND_S,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_plain_async_and_batch_handlers_are_called(played: dict[str, Any]) -> None:
    assert [it["server"] for it in played["calls"]["plain"]] == [[], []]
    assert played["calls"]["async"] == [1, 2]
    assert ["Discarded" in str(it) for it in played["calls"]["batch"]] == [True, False]


def test_an_executor_loads_no_module_of_the_server_and_lowers_its_priority(played: dict[str, Any]) -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    handler, run = played["calls"]["plain"][0], played["runs"]["first"]

    assert (handler["server"], run["server"]) == ([], [])
    assert (handler["nice"], run["nice"]) == (max(ours, NICE[3]), max(ours, NICE[4]))
    assert (handler["omp"], run["omp"]) == ("1", "1")
    assert handler["stdin"] == run["stdin"] == ""


@pytest.mark.parametrize("target", DEATHS)
def test_only_the_delivery_that_ends_the_process_fails(played: dict[str, Any], target: str) -> None:
    failed = played["deaths"][target]

    assert [*failed] == ["17"]
    said = r"0\.5 s" if target in {"hangs", "blocks"} else "^the handler's process ended"
    assert re.search(said, failed["17"]), failed


def test_an_app_that_can_t_be_imported_is_refused_in_one_sentence(played: dict[str, Any]) -> None:
    refused = played["refusals"]

    assert len(refused) == 4
    for name, sentence in refused.items():
        owner = "run" if name.endswith("RunProcess") else "handler"
        assert sentence.isprintable()
        if name.startswith("raises"):
            assert sentence.startswith(f"the {owner}'s process does not start: ")
            assert "ValueError: no such setting, in " in sentence
        else:
            assert sentence.startswith(f"the {owner}'s process ended")


def test_a_process_makes_runs_one_after_the_other_and_ends_without_polls(played: dict[str, Any]) -> None:
    runs = played["runs"]

    assert (runs["second"], runs["said"]) == (True, "half")
    assert runs["died"].startswith("the run's process ended")
