"""`tail` and `status` show the records and the present state, to people and to programs."""

from __future__ import annotations

import asyncio
import re

from tests.support import ROOT
from tests.support.cli_asserts import DONE, end_all
from tests.support.consumers import append
from tests.support.deliveries import add_deliveries
from tests.support.factories import add_holder, add_timers
from tests.support.program import Shell


def test_tail_prints_each_record_once_in_order(shell: Shell) -> None:
    keys = [shell("schedule", "--in", "PT1H", "--json").json["timer_key"] for _ in range(3)]
    for key in keys:
        shell("cancel", key)

    done = shell("tail", "--from-start", "--stop", "--json")

    assert (done.code, done.err) == (DONE, "")
    assert [(record["timer_key"], record["intent"]) for record in done.lines] == [(key, "CANCELED") for key in keys]
    assert [record["timer_key"] for record in shell("tail", "--from-start", "-n", 2, "--json").lines] == keys[:2]
    assert shell("tail", "--stop").out == "", "without --from-start only what is new"


def test_tail_prints_only_the_records_of_its_filters(shell: Shell) -> None:
    for tenant, name in (("acme", "a"), ("acme", "b"), ("globex", "a")):
        shell("schedule", "--in", "1h", "--name", name, "--tenant", tenant)
        shell("pause", "--name", name, "--tenant", tenant)
        shell("cancel", "--name", name, "--tenant", tenant)

    def tailed(*options: object) -> list[tuple[str, str, str]]:
        lines = shell("tail", "--from-start", "--stop", "--json", *options).lines
        return [(record["tenant_id"], record["name"], record["intent"]) for record in lines]

    assert len(tailed()) == 6
    assert tailed("--tenant", "globex") == [("globex", "a", "PAUSED"), ("globex", "a", "CANCELED")]
    assert tailed("--name", "a", "--intent", "canceled") == [("acme", "a", "CANCELED"), ("globex", "a", "CANCELED")]
    assert tailed("--tenant", "acme", "--intent", "CANCELED", "-n", 1) == [("acme", "a", "CANCELED")]
    assert (len(tailed("--target", "log")), tailed("--target", "nowhere")) == (6, [])
    assert tailed("--tenant", "nobody") == []


def test_status_shows_shards_and_pending_and_overdue_timers(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3))
    asyncio.run(add_holder(shell.dsn, 0xABC, part=1, part_count=2))

    state = shell("status", "--json").json

    assert (state["pending"], state["overdue"], state["shards_wanted"]) == (3, 3, 2)
    assert [(holder["holder"], holder["shard"]) for holder in state["shards"]] == [("0000000000000abc", 1)]
    people = shell("status")
    assert "0000000000000abc" in people.out
    assert "1 of 2 wanted" in people.out
    assert people.err == ""


def test_status_without_a_recent_firing_reports_which_records_it_has_read(shell: Shell) -> None:
    told = "unknown: the last 10,000 records of the log contain no firing"
    assert told in shell("status").out

    shell("schedule", "--at", "2020-01-01T00:00:00Z")
    end_all(shell)
    assert "(last 1 firing)" in shell("status").out

    other = "update shardclock.command_log set intent = 'DELIVERED' where timer_key > 1000000"
    for keys, is_too_far in ((range(1_000_001, 1_010_000), False), (range(1_010_000, 1_010_001), True)):
        asyncio.run(append(shell.dsn, *keys))
        shell.sql(other)
        assert (told in shell("status").out) == is_too_far


def test_status_names_the_cluster_on_standby_and_its_number_of_live_shards(shell: Shell) -> None:
    for holder, cluster_id, shard in ((1, "blue", 0), (2, "blue", 1), (3, "green", None), (4, "green", None)):
        asyncio.run(add_holder(shell.dsn, holder, shard, None if shard is None else 2))
        shell.sql("update shardclock.holders set cluster_id = $2 where holder = $1", holder, cluster_id)
    shell.sql("update shardclock.beats set seen_at = seen_at - interval '10 s' where holder = 4")

    lines = shell("status").out.splitlines()

    assert [line.split()[2:] for line in lines if line.startswith("stands by")] == [["green", "with", "1", "shard"]]
    assert [line.split()[:4] for line in lines if " of 2 " in line and "wanted" not in line] == [
        ["0", "of", "2", "blue"],
        ["1", "of", "2", "blue"],
    ]
    assert [line.split()[:2] for line in lines if line.startswith("-")] == [["-", "green"]] * 2
    shards = shell("status", "--json").json["shards"]
    assert [(shard["cluster_id"], shard["shard"]) for shard in shards] == [
        ("blue", 0), ("blue", 1), ("green", None), ("green", None)
    ]  # fmt: skip


def test_status_reports_silent_shards_and_shows_no_remaining_time(shell: Shell) -> None:
    asyncio.run(add_holder(shell.dsn, 1))
    asyncio.run(add_timers(shell.dsn, 3, "now() - interval '1 minute'"))
    shell.sql("update shardclock.beats set seen_at = now() - interval '70 s'")

    told = shell("status")
    ramped = shell("ramp")

    assert re.search(r"shards +0 of 2 wanted, on 0 nodes; 1 silent", told.out)
    assert "no shard sends a heartbeat" in told.err
    for done in (told, ramped):
        assert "3 timers, waiting for a running shard" in done.out


def test_if_a_cluster_runs_status_does_not_suggest_to_start_another_cluster(shell: Shell) -> None:
    shell("deploy", ROOT / "examples" / "order.bpmn")
    shell("processes", "start", "order")
    asyncio.run(add_holder(shell.dsn, 0xAB))
    asyncio.run(add_deliveries(shell.dsn, 1))

    said = shell("status").err

    assert "the running cluster starts a worker within seconds for an endpoint" in said
    assert "no engine is running, so no instance advances: the running cluster starts an engine soon" in said
    assert "shardclock up" not in said


def test_status_reports_missing_engines_and_waiting_signals(shell: Shell) -> None:
    assert "engine" not in shell("status").out, "no process is deployed"
    shell("deploy", ROOT / "examples" / "order.bpmn")
    for _ in range(2):
        shell("processes", "start", "order")

    dead, state = shell("status"), shell("status", "--json").json["processes"]
    asyncio.run(add_holder(shell.dsn, 0xE1))
    shell.sql("update shardclock.holders set role = 'engine'")
    alive = shell("status")

    assert "0 of 2 wanted" in dead.out
    assert "2, the oldest for" in dead.out
    assert "no engine is running, so no instance advances: start a cluster with `shardclock up`" in dead.err
    assert (state["engines_wanted"], state["engines_alive"], state["signals_waiting"]) == (2, 0, 2)
    assert "1 of 2 wanted" in alive.out
    assert "no engine is running" not in alive.err
    lines = alive.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("engine "))
    columns, row = (re.split(" {2,}", line.strip()) for line in lines[at : at + 2])
    assert len(columns) == len(row), "each column has a name"
