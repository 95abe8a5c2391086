"""Prove that the demo keeps its promises, and that its own file is valid."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardclock_server.demo import run as demo_run
from shardclock_server.demo.example import BUSY, CLOSED, OPEN, TARGET, example_lines
from shardclock_server.timers.model import NewTimer
from tests.support import ROOT
from tests.support.local_cluster import without_ray
from tests.support.memory import IN_MEMORY
from tests.support.program import Done, run

TAKEOVER_MAX_S = 2.0


@pytest.fixture
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as folder:
        yield Path(folder) / "timers.ndjson"


def write_timers(file: Path) -> None:
    """Write 600 timers, 200 with an order for the demo's handler. One order is retried, another always fails."""
    orders: dict[int, dict[str, object]] = {
        n: {"target": TARGET, "payload": {"warehouse": OPEN}} for n in range(0, 600, 3)
    }
    orders[3]["payload"] = {"warehouse": CLOSED}
    orders[300]["payload"] = {"warehouse": BUSY}
    lines = [json.dumps({"delay": f"PT{2 + n / 100}S", "payload": n, **orders.get(n, {})}) for n in range(600)]
    file.write_text("\n".join(lines))


def assert_kept(done: Done) -> None:
    """Check the verdict of a demo of `write_timers`."""
    assert done.code == 0, done
    verdict = done.json
    assert (verdict["fired"], verdict["early"], verdict["lost"], verdict["double"]) == (600, 0, 0, 0)
    assert verdict["takeover_s"] is not None
    assert verdict["takeover_s"] <= TAKEOVER_MAX_S
    deliveries = verdict["deliveries"]
    assert [deliveries[it] for it in ("promised", "delivered", "dead", "retried", "lost")] == [200, 199, 1, 1, 0]
    assert deliveries["called_again"] is not None
    assert "kill -9 of shard" in done.err
    assert "kill -9 of worker" in done.err
    assert "Traceback" not in done.err
    print(f"takeover {verdict['takeover_s']:.2f} s, lag p99 {verdict['lag_p99_ms']:.1f} ms, {deliveries}")  # noqa: T201 - the figures, under -s


def test_every_line_of_the_example_is_a_timer() -> None:
    timers = [NewTimer.from_line(line) for line in example_lines()]

    assert len(timers) == 5_000
    assert len({timer.tenant_id for timer in timers}) > 1
    assert any(timer.schedule for timer in timers)
    assert any(timer.payload for timer in timers)
    assert list(example_lines()) == list(example_lines()), "each demo fires the same"


def test_every_line_of_the_shown_file_is_a_timer() -> None:
    for line in (ROOT / "examples" / "timers.ndjson").read_bytes().splitlines():
        NewTimer.from_line(line)


@pytest.mark.ray
@pytest.mark.exhaustive
def test_the_demo_fires_and_delivers_each_timer_though_a_shard_and_a_worker_are_killed(file: Path) -> None:
    write_timers(file)

    done = run("demo", "--file", file, "--json", environment={})

    assert_kept(done)


@pytest.mark.slow
def test_the_demo_runs_as_local_processes_without_ray_and_does_not_change_other_data(file: Path) -> None:
    write_timers(file)
    elsewhere = file.parent / "default"
    mode = without_ray(file.parent) | {"SHARDCLOCK_RAY_ADDRESS": "10.0.0.1:6379"}

    done = run("demo", "--file", file, "--json", environment=mode | {"SHARDCLOCK_DATA_DIR": str(elsewhere)})

    assert_kept(done)
    assert "starting two shards and two workers as local processes (Ray is not installed)" in done.err
    assert "starting Ray" not in done.err
    assert not elsewhere.exists(), "the demo has its own data directory"


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_file_with_an_invalid_line_is_refused_completely_with_the_line_number(file: Path) -> None:
    file.write_text('{"delay": "PT1S"}\n{"delay": "soon"}\n')

    done = run("demo", "--file", file, "--json", environment={})

    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("shardclock: timers.ndjson line 2: ")


def test_the_demo_joins_no_other_ray_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHARDCLOCK_RAY_ADDRESS", "ray.example.com:6379")

    settings, _ = demo_run._settings(tmp_path)

    assert settings.ray_address is None
    assert "SHARDCLOCK_RAY_ADDRESS" not in os.environ, "the host process inherits the environment"
