"""`switch` moves the lead only to a ready cluster, and `leave` ends in time even if Ray does not answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from shardclock_server.cluster.ray_cluster import RayRefused
from shardclock_server.service.processes import deploy
from shardclock_server.sql.cluster.holders import (
    ENGINE,
    SHARD,
    WORKER,
    Incarnation,
    assign,
    list_holders,
    register_holder,
)
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.cli_asserts import DONE, NOT_DONE, assert_refused, recorded_outcomes
from tests.support.program import Shell, until

HERE, ELSEWHERE = "here", "elsewhere"


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run commands in this process, on a host with the name `here`."""
    monkeypatch.setattr("socket.gethostname", lambda: HERE)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return Shell(dsn, capsys)


def do(shell: Shell, work: Callable[[Session], Any]) -> Any:
    async def with_session() -> Any:
        async with Session(shell.dsn, application="test") as session:
            return await work(session)

    return asyncio.run(with_session())


def start(shell: Shell, cluster_id: str, *holders: int, host: str = HERE, role: str = SHARD) -> None:
    """Register keepers (by default shards) of a cluster; the keepers have no slots."""

    async def register(session: Session) -> None:
        for holder in holders:
            name = f"{role}-{cluster_id}-{holder}"
            await register_holder(session, Incarnation(holder, role, cluster_id, name, f"node-of-{host}", host, 1))

    do(shell, register)


def lead_and_serve(shell: Shell, cluster_id: str, leader: int, *holders: int) -> None:
    """Let a cluster lead, and give its shards all slots, as its coordinator would."""

    async def serve(session: Session) -> None:
        leads = await lead(session, leader, cluster_id=cluster_id, lease_s=60.0, fresh=True)
        roles = {h.role for h in await list_holders(session) if h.holder in holders}
        others = {h.holder: None for h in await list_holders(session) if h.role in roles and h.holder not in holders}
        shards: dict[int, int | None] = {**others, **{holder: shard for shard, holder in enumerate(holders)}}
        assert leads.leads
        assert await assign(session, leader=leader, term=leads.term, parts=shards, part_count=len(holders))

    do(shell, serve)


def let_blue_lead(shell: Shell, *of_green: int) -> None:
    """Let the cluster `blue` serve with shards 1 and 2; `green` stands by, by default with shards 3 and 4."""
    start(shell, "blue", 1, 2)
    start(shell, "green", *(of_green or (3, 4)))
    lead_and_serve(shell, "blue", 9, 1, 2)


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a thread while a command runs."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()


def leader_of(shell: Shell) -> tuple[Any, ...]:
    return tuple(shell.sql("select cluster_id, leader from shardclock.leadership")[0])


# switch


def test_an_unknown_cluster_is_refused_with_the_names_of_the_known_clusters(shell: Shell) -> None:
    let_blue_lead(shell)

    done = shell("switch", "gren", "--wait", 0)

    assert_refused(
        done, "'gren'", "the clusters on this database are blue, green", "start the cluster, or name another"
    )
    assert leader_of(shell) == ("blue", 9)


def test_the_lead_does_not_go_to_a_cluster_with_too_few_shards(shell: Shell) -> None:
    let_blue_lead(shell, 3)

    done = shell("switch", "green", "--wait", "0.2")

    assert (done.code, done.out) == (NOT_DONE, "")
    assert "1 of 2 shards ready" in done.err
    assert "the lead was not moved" in done.err
    assert leader_of(shell) == ("blue", 9)


def test_silent_shards_are_not_ready(shell: Shell) -> None:
    start(shell, "green", 3, 4)
    shell.sql("update shardclock.beats set seen_at = now() - interval '6 s'")

    assert_refused(shell("switch", "green", "--wait", 0), "no shard that is ready")


def test_a_switch_whose_shards_do_not_serve_in_time_is_recorded_as_done(shell: Shell) -> None:
    let_blue_lead(shell)

    assert shell("switch", "green", "--wait", 0).code == NOT_DONE
    assert leader_of(shell) == ("green", None)
    assert recorded_outcomes(shell) == ["done"]


def test_switch_moves_the_lead_to_the_named_cluster_and_counts_its_shards(shell: Shell) -> None:
    let_blue_lead(shell)

    def green_takes_over() -> None:
        until(lambda: leader_of(shell) == ("green", None), "the lead to be handed over")
        lead_and_serve(shell, "green", 10, 3, 4)

    with meanwhile(green_takes_over):
        done = shell("switch", "green", "--wait", 20, "--json")

    assert done.code == DONE, done
    assert done.json.items() >= {"cluster_id": "green", "switched": True, "serving": 2}.items()
    assert 0 <= done.json["took_s"] < 20
    assert leader_of(shell) == ("green", 10)


def test_a_switch_waits_for_a_starting_cluster(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_and_serve(shell, "green", 10)
    start(shell, "green", 3)

    told: list[str] = []
    monkeypatch.setattr("shardclock_server.cli.handover.print_note", told.append)

    def the_second_one_comes() -> None:
        until(lambda: told, "it to say that it waits")
        start(shell, "green", 4)
        lead_and_serve(shell, "green", 10, 3, 4)

    with meanwhile(the_second_one_comes):
        done = shell("switch", "green", "--wait", 20)

    assert done.code == DONE, done
    assert told == ["cluster 'green' has 1 of 2 shards ready; waiting"]


def test_a_switch_to_the_leading_cluster_changes_nothing(shell: Shell) -> None:
    start(shell, "green", 3, 4)
    lead_and_serve(shell, "green", 10, 3, 4)

    done = shell("switch", "green", "--json")

    assert (done.code, done.json["switched"], done.json["serving"]) == (DONE, False, 2)
    assert leader_of(shell) == ("green", 10)


def test_a_cluster_that_does_not_take_the_lead_is_reported_and_any_cluster_may_take_it_soon(shell: Shell) -> None:
    let_blue_lead(shell)

    done = shell("switch", "green", "--wait", "0.2", "--json")

    assert (done.code, done.json["serving"]) == (NOT_DONE, 0)
    left = "select lease_until - now() between interval '1 ms' and interval '10 s' from shardclock.leadership"
    assert shell.sql(left)[0][0]
    assert [holder.part for holder in do(shell, list_holders)][:2] == [0, 1], "blue's shards fire on"


@pytest.fixture
def engines_wanted(shell: Shell) -> None:
    """Deploy a process, so that the cluster wants two engines."""
    elements = '<startEvent id="s"/><userTask id="u"/>'
    do(shell, partial(deploy, model=model(elements, connected="s>u"), resource="p.bpmn"))


@pytest.mark.usefixtures("engines_wanted")
def test_the_lead_does_not_go_to_a_cluster_without_the_wanted_engines(shell: Shell) -> None:
    let_blue_lead(shell)

    done = shell("switch", "green", "--wait", "0.2")

    assert (done.code, done.out) == (NOT_DONE, "")
    assert "cluster 'green' has 0 of 2 engines ready, so the lead was not moved: wait longer" in done.err
    assert leader_of(shell) == ("blue", 9)


def test_engines_do_not_count_as_shards(shell: Shell) -> None:
    start(shell, "green", 3)
    start(shell, "green", 5, 6, role=ENGINE)

    assert "1 of 2 shards ready" in shell("switch", "green", "--wait", 0).err


@pytest.mark.usefixtures("engines_wanted")
def test_a_switch_is_done_when_the_new_engines_keep_all_slots(shell: Shell) -> None:
    start(shell, "green", 3, 4)
    start(shell, "blue", 7, 8, role=ENGINE)
    start(shell, "green", 5, 6, role=ENGINE)
    lead_and_serve(shell, "green", 10, 3, 4)
    lead_and_serve(shell, "green", 10, 7, 8)

    waits = shell("switch", "green", "--wait", "0.2", "--json")
    lead_and_serve(shell, "green", 10, 5, 6)
    done = shell("switch", "green", "--wait", "0.2", "--json")

    assert (waits.code, waits.json["serving"], waits.json["engines_serving"]) == (NOT_DONE, 2, 0)
    assert (done.code, done.json["serving"], done.json["engines_serving"]) == (DONE, 2, 2)


# leave


def test_a_host_without_shards_leaves_immediately(shell: Shell) -> None:
    start(shell, "blue", 1, host=ELSEWHERE)

    done = shell("leave", "--within", 20)

    assert (done.code, done.err) == (DONE, f"no shard, worker or engine is left on {HERE}\n")
    assert len(do(shell, list_holders)) == 1


def test_without_ray_a_leaving_host_waits_and_then_ends_only_its_own_shards(shell: Shell) -> None:
    start(shell, "blue", 1, 2)
    start(shell, "blue", 3, host=ELSEWHERE)
    lead_and_serve(shell, "blue", 9, 1, 2, 3)

    began = time.monotonic()
    done = shell("leave", "--yes", "--within", "0.3")

    assert time.monotonic() - began >= 0.3
    assert done.code == DONE, done
    assert "SHARDCLOCK_RAY_ADDRESS" in done.err
    assert f"ended 2 shards, which were still on {HERE}" in done.err
    assert [holder.holder for holder in do(shell, list_holders)] == [3]
    ended = shell.sql("select ended_why from shardclock.holders where holder < 3")
    assert [row[0] for row in ended] == ["left", "left"]


def test_the_keepers_of_each_role_are_counted_before_they_leave(shell: Shell) -> None:
    start(shell, "blue", 1, 2)
    start(shell, "blue", 3, 4, role=WORKER)
    start(shell, "blue", 5, role=ENGINE)

    counts = "2 shards, 2 workers, 1 engine"
    assert_refused(shell("leave"), f"{counts} on here, and no keepers elsewhere", "--yes", code=NOT_DONE)
    assert f"ended {counts}, which were still on {HERE}" in shell("leave", "--yes", "--within", "0").err


def test_the_last_shards_leave_only_after_a_confirmation(shell: Shell) -> None:
    start(shell, "blue", 1, 2)
    start(shell, "blue", 3, host=ELSEWHERE)
    silent = "update shardclock.beats set seen_at = seen_at - interval '10 s' where holder = 3"
    shell.sql(silent)

    assert_refused(
        shell("leave", "--within", "0"), "2 shards on here, and no keepers elsewhere", "--yes", code=NOT_DONE
    )
    refused = shell("leave", "--within", "0", stdin=b"n\n", tty=True)
    assert (refused.code, "Continue? [y/N]" in refused.err) == (NOT_DONE, True)
    assert len(do(shell, list_holders)) == 3

    assert shell("leave", "--within", "0", stdin=b"y\n", tty=True).code == DONE
    assert [holder.holder for holder in do(shell, list_holders)] == [3]


def test_leave_ends_as_soon_as_the_last_shard_has_moved(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    start(shell, "blue", 1)
    asked: list[tuple[str, float]] = []

    def drain(_: object, node_id: str, *, within_s: float) -> None:
        asked.append((node_id, within_s))
        shell.sql("update shardclock.holders set ended_at = now(), ended_why = 'drained' where holder = 1")

    monkeypatch.setattr("shardclock_server.cluster.drain.drain_node", drain)
    began = time.monotonic()

    done = shell("leave", "--yes", "--within", 60)

    assert (done.code, done.err) == (DONE, f"no shard, worker or engine is left on {HERE}\n")
    assert asked == [(f"node-of-{HERE}", 60.0)]
    assert time.monotonic() - began < 20


def test_leave_ends_after_a_time_limit_if_ray_does_not_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    # Kubernetes kills a process that has not ended in time; Ray's client waits up to a minute for a lost head.
    start(shell, "blue", 1)
    answers = threading.Event()
    monkeypatch.setattr("shardclock_server.cluster.drain.drain_node", lambda *_, **__: answers.wait(30))
    began = time.monotonic()

    done = shell("leave", "--yes", "--within", "0.3")

    assert done.code == DONE, done
    assert 0.3 <= time.monotonic() - began < 10
    assert do(shell, list_holders) == []
    answers.set()


def test_a_refusal_of_ray_is_reported_and_leave_waits_for_the_shards(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(shell, "blue", 1)

    def refuse(*_: object, **__: object) -> None:
        raise RayRefused("Ray does not drain it")

    monkeypatch.setattr("shardclock_server.cluster.drain.drain_node", refuse)

    done = shell("leave", "--yes", "--within", "0.3")

    assert done.code == DONE
    assert "Ray does not drain it; waiting for its shards nevertheless" in done.err
