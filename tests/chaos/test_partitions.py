"""Cut the network between hosts in each direction, and judge the runs with the judge of all chaos runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from chaos.checker import EXERCISED, Verdict, judge
from chaos.history import Bounds, History
from chaos.multi_host import HEAD, LISTEN, STORE, TAKEOVER_S, WORKERS, HostedPostmaster, MultiHostCluster
from chaos.network import Network, why_not
from chaos.plan import Plan, PlannedFault, draw
from chaos.running import run
from chaos.sandbox import sandbox_for
from chaos.takeover import takeovers

CALLS_PER_S = 100.0  # about 300 timers a second
KINDS = (
    "let Postgres hear nothing of a host",
    "let a host hear nothing of Postgres",
    "cut a host off from Ray's head",
    "cut a host off from the other workers",
    "cut the coordinator off from Postgres",
    "let a host's link flap",
    "cut a host off and kill the coordinator",
)

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.ray]


@pytest.fixture
def network() -> Iterator[Network]:
    """Yield hosts on a separate network, or skip the test with a reason."""
    if why := why_not():
        pytest.skip(why)
    with Network(HEAD, *WORKERS, STORE) as network:
        yield network


async def _run(
    network: Network, directory: Path, faults: list[PlannedFault], *, length_s: float
) -> tuple[History, Verdict]:
    load = draw(1, length_s=length_s, calls_per_s=CALLS_PER_S, fault_options=())
    cluster = MultiHostCluster(network, directory)
    try:
        async with sandbox_for(cluster, settings=[LISTEN], postmaster=partial(HostedPostmaster, network)) as sandbox:
            history = await run(
                Plan(load.seed, length_s, load.steps, faults), sandbox, bounds=Bounds(), tell=lambda _: None
            )
    finally:
        sys.stdout.write(cluster.said)  # pytest shows this output if the test fails
    assert len(history.faults) == len(faults), "each fault was injected"
    return history, judge(history, exercised=EXERCISED - {"S10", "D1"})


async def test_the_second_separated_host_delays_timers_no_longer_than_the_first(
    network: Network, tmp_path: Path
) -> None:
    faults = [PlannedFault(5.0, "cut a host off", 30.0), PlannedFault(38.0, "cut a host off from Postgres", 15.0)]

    history, verdict = await _run(network, tmp_path, faults, length_s=60.0)

    late_s = [it.seconds or 0.0 for it in takeovers(history)]
    print(f"timers late by at most {late_s} s")  # noqa: T201 - the figures, under -s
    assert verdict.status == "valid", _told(verdict)
    assert len({fault.detail["host"] for fault in history.faults}) == 2
    assert all(0 < it <= TAKEOVER_S for it in late_s)


async def test_partitions_of_hosts_break_no_promise(network: Network, tmp_path: Path) -> None:
    faults = [PlannedFault(4.0 + 8.0 * number, kind, 4.0) for number, kind in enumerate(KINDS)]

    history, verdict = await _run(network, tmp_path, faults, length_s=8.0 * len(KINDS) + 8.0)

    assert verdict.status == "valid", _told(verdict)
    assert [it.detail["coordinators"] for it in history.faults if "coordinators" in it.detail] == [[HEAD]]


def _told(verdict: Verdict) -> list[str]:
    return [*verdict.reasons, *(row for finding in verdict.findings for row in finding.shown)]
