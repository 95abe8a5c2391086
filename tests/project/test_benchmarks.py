"""Test the benchmarks: their figures, absent systems, databases that are not empty, and their clean-up."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from benchmarks.cases import CASES, drain
from benchmarks.cases.case import lags_of
from benchmarks.contenders import Limit, OnRay, Peer
from benchmarks.contenders import installed as installed_peers
from benchmarks.contenders.contender import Absent, Batch, Firing, among
from benchmarks.contenders.installed import versions
from benchmarks.contenders.kinds import KINDS, MORE_KINDS, Kind
from benchmarks.disk import Look, stood_still
from benchmarks.page import OtherMachine, read, write
from benchmarks.postgres import NotEmpty, Server, Unusable
from benchmarks.results import Measured, Results
from tests.support import ROOT
from tests.support.factories import BOUND_S, query
from tests.support.waiting import eventually

MACHINE = {"cores": "2"}


def measured(name: str, note: str = "", **figures: Sequence[float]) -> Measured:
    return Measured("drain", name, "1.0", "as shipped", {key: list(values) for key, values in figures.items()}, note)


class SmallLimit(Limit):
    """The contender that runs only our statement, with few timers."""

    drained = 2_000


async def test_a_drain_counts_from_the_first_firing_to_the_last(dsn: str) -> None:
    limit = SmallLimit()
    await limit.open(dsn)
    try:
        figures = await drain.measure(limit)
        fired = sorted(it.fired_s for it in await limit.firings())
    finally:
        await limit.close()

    assert len(fired) == 2_000
    assert figures["per_s"] == pytest.approx(1_999 / (fired[-1] - fired[0]))


def look(at_s: float, finished: int, busy_s: float) -> dict[str, Look]:
    return {"a": Look(at_s, finished, busy_s), "b": Look(at_s, round(at_s * 1000), at_s)}


@pytest.mark.parametrize(
    ("later", "stood_s"),
    [
        (look(10.02, 7, 3.02), 0.02),  # the disk is busy, and finishes no request
        (look(10.02, 8, 3.02), 0.0),  # the disk is busy, and finishes one request
        (look(10.02, 7, 3.00), 0.0),  # the disk is idle
        ({}, 0.0),  # the disk was removed
    ],
)
def test_a_disk_pauses_while_it_is_busy_without_finishing_a_request(later: dict[str, Look], stood_s: float) -> None:
    assert stood_still(look(10.0, 7, 3.0), later) == pytest.approx(stood_s)


async def test_firings_are_listed_by_batch_in_order_of_due_dates() -> None:
    batch = Batch(3, datetime(2030, 1, 1, tzinfo=UTC), 0.5)
    begin_s = batch.begin_s
    inside = [Firing(begin_s + n / 2, begin_s + 9 - n) for n in range(3)]

    assert among([Firing(begin_s - 1, 0), *reversed(inside), Firing(begin_s + 1.5, 0)], batch) == inside


def test_quantiles_of_lags_are_nearest_ranks_and_without_a_firing_there_is_no_quantile() -> None:
    lags = lags_of([Firing(10.0, 10.0 + n / 1000) for n in range(1, 1001)])

    assert {name: round(lag, 3) for name, lag in lags.items()} == {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    assert lags_of([]) == {}


def test_a_page_can_be_read_again_as_numbers(tmp_path: Path) -> None:
    results = Results(MACHINE, [measured("ours", per_s=[1.0]), measured("absent", "no npm")], {"drain": "2030-01-31"})

    page = write(results, tmp_path)

    assert CASES["drain"].title in page.read_text()
    assert (tmp_path / "drain.svg").is_file()
    assert read(tmp_path, MACHINE) == results


def test_results_of_another_machine_are_not_continued(tmp_path: Path) -> None:
    write(Results({**MACHINE, "cores": "64"}), tmp_path)

    with pytest.raises(OtherMachine, match="was measured with cores 64, this is 2: name another folder, or delete it"):
        read(tmp_path, MACHINE)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Make an empty folder for the other systems."""
    monkeypatch.setattr(installed_peers, "INSTALLED", tmp_path)
    versions.cache_clear()
    yield tmp_path
    versions.cache_clear()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", [*KINDS, *MORE_KINDS], ids=lambda kind: kind.name)
async def test_a_system_that_is_not_installed_is_reported_and_left_out(kind: Kind) -> None:
    with pytest.raises(Absent, match=f"{kind.package} is not installed: `make {kind.make}` installs it"):
        await Peer(kind).open("postgresql://nowhere")


async def test_a_system_with_a_changed_script_is_left_out(installed: Path) -> None:
    kind = KINDS[0]
    (installed / "node_modules" / kind.package).mkdir(parents=True)
    manifest = {"name": kind.package, "version": "1.2.3"}
    (installed / "node_modules" / kind.package / "package.json").write_text(json.dumps(manifest))
    (installed / kind.script).write_text("// an older one")

    peer = Peer(kind)

    assert peer.version == "1.2.3"
    with pytest.raises(
        Absent, match="its script has changed since it was installed: `make bench-peers` installs it ag"
    ):
        await peer.open("postgresql://nowhere")


async def test_a_database_that_is_not_empty_is_refused_by_name(dsn: str) -> None:
    with pytest.raises(NotEmpty, match=r"has the table shardclock\.\w+: a benchmark needs an empty database"):
        await Server(dsn).require_empty()


async def test_each_system_gets_an_empty_database_that_is_dropped_afterwards(dsn: str) -> None:
    async with Server(dsn).database() as lent:
        await query(lent, "create table mine ()")
        async with Server(dsn).database() as other:
            await Server(other).require_empty()
    assert await databases(dsn) == []


async def test_a_server_without_an_answer_is_reported_in_one_line_without_its_password() -> None:
    told = r"^Postgres at 127\.0\.0\.1:1 can't be used: .*; give another DSN with --dsn"
    with pytest.raises(Unusable, match=told) as why:
        await Server("postgresql://me:secret@127.0.0.1:1/empty").require_empty()
    assert "secret" not in str(why.value)


def benchmark(*arguments: str, dsn: str) -> subprocess.Popen[str]:
    """Run the command on the server of the test, with an empty database `postgres`."""
    server = urlunsplit(urlsplit(dsn)._replace(path="/postgres"))
    command = [sys.executable, "-m", "benchmarks", *arguments, "--dsn", server]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def databases(dsn: str) -> list[str]:
    """List the databases that a benchmark has made and not dropped."""
    rows = await query(dsn, "select datname from pg_database where datname ~ '^shardclock_bench_'")
    return [str(row["datname"]) for row in rows]


def test_a_case_that_cannot_be_measured_is_refused_at_the_start(dsn: str) -> None:
    running = benchmark("drain", "--only", "oban", dsn=dsn)
    _, complained = running.communicate(timeout=BOUND_S)

    assert running.returncode == 2
    assert "--only oban: no contender's name contains this text: Shardclock, 1 shard, " in complained


@pytest.mark.exhaustive
def test_one_command_measures_and_writes_a_page(dsn: str, tmp_path: Path) -> None:
    running = benchmark("drain", "--rounds", "1", "--only", "alone", "--json", "--to", str(tmp_path), dsn=dsn)
    said, complained = running.communicate(timeout=4 * BOUND_S)

    assert running.returncode == 0, complained
    row = json.loads(said)
    assert (row["case"], row["contender"], len(row["per_s"])) == ("drain", "the statement alone", 1)
    page = (tmp_path / "README.md").read_text()
    assert "the statement alone" in page
    assert re.search(r"A commit took [\d.]+ .?s, and the slowest of a hundred [\d.]+ .?s; 1 rounds?\.", page)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_an_interrupted_benchmark_drops_its_databases(dsn: str, number: signal.Signals) -> None:
    running = benchmark("drain", "--only", "alone", dsn=dsn)

    async def has_begun() -> bool:
        return bool(await databases(dsn))

    await eventually(has_begun)
    running.send_signal(number)
    await asyncio.to_thread(running.communicate, timeout=BOUND_S)

    assert running.returncode != 0
    assert await databases(dsn) == []


@pytest.mark.ray
async def test_our_shards_are_actors_of_ray(dsn: str) -> None:
    ours = OnRay(1)
    await ours.open(dsn)
    try:
        await ours.launch()

        assert len(ours.processes()) == 1
    finally:
        await ours.close()
