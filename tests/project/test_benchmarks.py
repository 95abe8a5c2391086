"""The benchmarks measure what they say, leave out who is absent, refuse what isn't empty, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import pytest

from benchmarks import disk
from benchmarks.bars import draw
from benchmarks.cases import CASES, drain
from benchmarks.cases.case import PER_S, Figure, Part, lags_of
from benchmarks.contenders import LIMITS, Limit, Peer
from benchmarks.contenders import installed as installed_peers
from benchmarks.contenders.contender import Absent, Batch, Firing, among
from benchmarks.contenders.installed import versions
from benchmarks.contenders.kinds import KINDS, MORE_KINDS, Kind
from benchmarks.disk import Look, stood_still
from benchmarks.page import OtherMachine, read, write
from benchmarks.postgres import NotEmpty, Server, Unusable
from benchmarks.results import Measured, Results, table
from tests.support import ROOT
from tests.support.factories import BOUND_S, query
from tests.support.waiting import eventually

LAG = Figure("p99", "lag p99", "s")
MACHINE = {"cores": "2"}


def measured(name: str, note: str = "", **figures: Sequence[float]) -> Measured:
    return Measured("drain", name, "1.0", "as shipped", {key: list(values) for key, values in figures.items()}, note)


class Small(Limit):
    """The statement alone, with little to do."""

    drained = 2_000


async def test_a_drain_counts_from_the_first_firing_to_the_last(dsn: str) -> None:
    limit = Small()
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
        (look(10.02, 7, 3.02), 0.02),  # busy, and nothing finished
        (look(10.02, 8, 3.02), 0.0),  # busy, and one finished
        (look(10.02, 7, 3.00), 0.0),  # idle
        ({}, 0.0),  # taken out
    ],
)
def test_a_disk_stands_still_while_it_is_busy_and_finishes_nothing(later: dict[str, Look], stood_s: float) -> None:
    assert stood_still(look(10.0, 7, 3.0), later) == pytest.approx(stood_s)


async def test_a_watch_adds_up_for_how_long_a_disk_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_look", lambda: {"a": Look(time.monotonic(), 7, time.monotonic())})
    began_s = time.monotonic()
    async with disk.watched() as stuck:
        await asyncio.sleep(0.2)
    passed_s = time.monotonic() - began_s

    assert stuck.stood_s is not None
    assert 0.1 < stuck.stood_s < passed_s


async def test_a_system_that_does_not_report_its_disk_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    async with disk.watched() as unknown:
        await asyncio.sleep(0.05)

    assert unknown.stood_s is None


@pytest.mark.parametrize("limit", sorted(LIMITS))
def test_the_best_of_a_column_is_bold_but_never_the_limit(limit: str) -> None:
    rows = [measured("ours", per_s=[2e5]), measured(limit, per_s=[3e5]), measured("theirs", per_s=[1e4])]

    assert [line.count("**") for line in table([PER_S], rows).splitlines()[2:]] == [2, 0, 0]


def test_what_is_luck_has_no_best() -> None:
    luck = Figure("stood", "disk stood still", "s", compared=False)

    assert "**" not in table([luck], [measured("ours", stood=[0.1]), measured("theirs", stood=[0.2])])


async def test_firings_are_told_by_batch_and_in_order_of_due_dates() -> None:
    batch = Batch(3, datetime(2030, 1, 1, tzinfo=UTC), 0.5)
    begin_s = batch.begin_s
    inside = [Firing(begin_s + n / 2, begin_s + 9 - n) for n in range(3)]

    assert among([Firing(begin_s - 1, 0), *reversed(inside), Firing(begin_s + 1.5, 0)], batch) == inside


def test_lags_are_told_by_nearest_rank_and_of_nothing_there_are_none() -> None:
    lags = lags_of([Firing(10.0, 10.0 + n / 1000) for n in range(1, 1001)])

    assert {name: round(lag, 3) for name, lag in lags.items()} == {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    assert lags_of([]) == {}


def test_a_table_tells_medians_with_their_spread_and_what_could_not_be_measured() -> None:
    rows = [
        measured("ours", per_s=[3e5, 1e5, 2e5], p99=[0.004]),
        measured("theirs", per_s=[1e4]),
        measured("x", "no npm"),
    ]

    lines = table([PER_S, LAG], rows).splitlines()

    assert lines[2:] == [
        "| ours | **200 k/s (100 k/s to 300 k/s)** | 4 ms |",
        "| theirs | 10 k/s | — |",
        "| x | no npm | |",
    ]


def drawn(*rows: Measured) -> tuple[list[dict[str, float]], set[str | None]]:
    """Draw a picture; its bars or marks, and its texts."""
    picture = ET.fromstring(draw("Drained", Part("", [PER_S]), rows))
    _, *shapes = picture.iter("{http://www.w3.org/2000/svg}rect")
    places = [{name: float(it.attrib[name]) for name in ("x", "width")} for it in shapes]
    return places, {it.text for it in picture.iter("{http://www.w3.org/2000/svg}text")}


def test_a_picture_has_a_bar_for_each_figure_and_a_note_for_each_that_lacks_it() -> None:
    bars, texts = drawn(
        measured("Shardclock", per_s=[2e5, 3e5]), measured("theirs", per_s=[1.25e5]), measured("absent", "no npm")
    )

    assert bars[0]["x"] == bars[1]["x"]
    assert [bars[0]["width"]] == pytest.approx([2 * bars[1]["width"]], rel=0.01)
    assert len(bars) == 2
    assert {"Shardclock", "theirs", "absent", "no npm", "250 k/s", "125 k/s"} <= texts


def test_figures_that_are_far_apart_are_marks_on_an_axis_that_says_so() -> None:
    marks, texts = drawn(measured("Shardclock", per_s=[2.5e5]), measured("theirs", per_s=[1e3]))

    assert marks[0]["width"] == marks[1]["width"] < 10
    assert marks[0]["x"] > marks[1]["x"] + 300
    assert "timers a second; more is better, logarithmic" in texts


def test_a_page_can_be_read_again_as_numbers(tmp_path: Path) -> None:
    results = Results(MACHINE, [measured("ours", per_s=[1.0]), measured("absent", "no npm")], {"drain": "2030-01-31"})

    page = write(results, tmp_path)

    assert CASES["drain"].title in page.read_text()
    assert (tmp_path / "drain.svg").is_file()
    assert read(tmp_path, MACHINE) == results


def test_a_page_of_another_machine_is_not_gone_on_with(tmp_path: Path) -> None:
    write(Results({**MACHINE, "cores": "64"}), tmp_path)

    with pytest.raises(OtherMachine, match="was measured with cores 64, this is 2: name another folder, or delete it"):
        read(tmp_path, MACHINE)


def test_a_case_measured_again_takes_the_place_of_the_first() -> None:
    results = Results(
        MACHINE, [measured("ours", per_s=[1.0]), measured("theirs", per_s=[2.0])], {"drain": "2030-01-31"}
    )

    results.begin(CASES["drain"], "2030-02-01")

    assert results == Results(MACHINE, [], {"drain": "2030-02-01"})


def test_a_peer_that_fell_behind_half_way_has_figures_in_one_table_and_a_note_in_the_next() -> None:
    row = measured("theirs", "fell behind at 5,000 a second", per_s=[1e3])

    assert "| theirs | 1 k/s |" in table([PER_S], [row])
    assert "| theirs | fell behind at 5,000 a second |" in table([LAG], [row])


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Give an empty folder for the peers."""
    monkeypatch.setattr(installed_peers, "INSTALLED", tmp_path)
    versions.cache_clear()
    yield tmp_path
    versions.cache_clear()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", [*KINDS, *MORE_KINDS], ids=lambda kind: kind.name)
async def test_a_peer_that_is_not_installed_is_told_and_left_out(kind: Kind) -> None:
    with pytest.raises(Absent, match=f"{kind.package} is not installed: `make {kind.make}` installs it"):
        await Peer(kind).open("postgresql://nowhere")


async def test_a_peer_whose_script_has_changed_since_is_left_out(installed: Path) -> None:
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


async def test_a_database_that_holds_anything_is_refused_by_name(dsn: str) -> None:
    with pytest.raises(NotEmpty, match=r"holds shardclock\.\w+: a benchmark runs on an empty one only; name another"):
        await Server(dsn).require_empty()


async def test_each_gets_an_empty_database_that_is_gone_afterwards(dsn: str) -> None:
    async with Server(dsn).database() as lent:
        await query(lent, "create table mine ()")
        async with Server(dsn).database() as other:
            await Server(other).require_empty()
    assert await databases(dsn) == []


async def test_a_server_that_does_not_answer_is_told_in_a_line_without_its_password() -> None:
    told = r"^Postgres at 127\.0\.0\.1:1 can't be used: .*; name another with --dsn"
    with pytest.raises(Unusable, match=told) as why:
        await Server("postgresql://me:secret@127.0.0.1:1/empty").require_empty()
    assert "secret" not in str(why.value)


async def test_a_user_who_may_not_create_databases_is_told_so(dsn: str) -> None:
    await query(dsn, "create role poor login")
    try:
        poor = f"{dsn}{'&' if urlsplit(dsn).query else '?'}role=poor"
        with pytest.raises(Unusable, match=r"permission denied to create database: .* name a role that may"):
            async with Server(poor).database():
                pass
    finally:
        await query(dsn, "drop role poor")


def benchmark(*arguments: str, dsn: str) -> subprocess.Popen[str]:
    """Run the command on the server of the test, whose database `postgres` holds nothing."""
    server = urlunsplit(urlsplit(dsn)._replace(path="/postgres"))
    command = [sys.executable, "-m", "benchmarks", *arguments, "--dsn", server]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def databases(dsn: str) -> list[str]:
    """List those that a benchmark has made and not dropped."""
    rows = await query(dsn, "select datname from pg_database where datname ~ '^shardclock_bench_'")
    return [str(row["datname"]) for row in rows]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["drian"], "'drian' is none of drain, paced, "),
        (["drain", "--rounds", "0"], "--rounds 0: one at least"),
        (["drain", "--only", "oban"], "--only oban: in the name of nobody who takes part: Shardclock, 1 shard, "),
    ],
)
def test_what_nobody_can_measure_is_refused_before_anything_begins(dsn: str, arguments: list[str], why: str) -> None:
    running = benchmark(*arguments, dsn=dsn)
    _, complained = running.communicate(timeout=BOUND_S)

    assert running.returncode == 2
    assert why in complained


@pytest.mark.exhaustive
def test_one_command_measures_and_writes_a_page(dsn: str, tmp_path: Path) -> None:
    running = benchmark("drain", "--rounds", "1", "--only", "alone", "--json", "--to", str(tmp_path), dsn=dsn)
    said, complained = running.communicate(timeout=4 * BOUND_S)

    assert running.returncode == 0, complained
    row = json.loads(said)
    assert (row["case"], row["contender"], len(row["per_s"])) == ("drain", "the statement alone", 1)
    page = (tmp_path / "README.md").read_text()
    assert "the statement alone" in page
    assert re.search(r"whose disk took [\d.]+ .?s for a commit and [\d.]+ .?s for one in a hundred; 1 rounds?\.", page)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_interrupted_it_drops_what_it_made(dsn: str, number: signal.Signals) -> None:
    running = benchmark("drain", "--only", "alone", dsn=dsn)

    async def has_begun() -> bool:
        return bool(await databases(dsn))

    await eventually(has_begun)
    running.send_signal(number)
    await asyncio.to_thread(running.communicate, timeout=BOUND_S)

    assert running.returncode != 0
    assert await databases(dsn) == []
