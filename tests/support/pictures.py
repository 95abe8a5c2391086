"""Make new pictures in docs/operate/pictures: `python -m tests.support.pictures` takes about four minutes.

A real Prometheus watches a real cluster under load. Meanwhile a shard is killed, a spike of timers falls due, and all
shards are killed and start again. Then the dashboards are drawn from what Prometheus has recorded.
"""

from __future__ import annotations

import subprocess
import sys
import time

from tests.support import ROOT
from tests.support.monitored import Watched
from tests.support.processes import kill
from tests.support.rules import rule_file

# Other pending timers beside the load, in a wave that is due after the pictures are made.
WAVE = """
insert into shardclock.timers (due_date)
select now() + m * interval '1 minute' + n * interval '1 minute' / c.timers
from generate_series(4, 20) as m
cross join lateral (select (14000 + 12000 * sin(m / 2.5))::integer as timers) as c
cross join lateral generate_series(1, c.timers) as n
"""
SPIKE = """
insert into shardclock.timers (due_date)
select now() + interval '45 s' + n * interval '1 ms' from generate_series(1, 10000) as n
"""


def main() -> None:
    """Play the scenes, then draw the pictures."""
    watched = Watched(rule_file(), per_s=100, scrape_s=1.0)
    try:
        marks = _play(watched)
        _draw(watched, marks)
    finally:
        watched.close()


def _play(watched: Watched) -> dict[str, float]:
    watched.sql(WAVE)
    watched.sql("vacuum analyze shardclock.timers")
    watched.command("scale", "--min", 2, "--max", 4, "--target", 250)
    _for(10, "the policy is seen")
    begun = time.time()
    marks: dict[str, float] = {}
    _for(20, "steady load")
    marks["a shard is killed"] = time.time()
    watched.kill_a_shard()
    _for(25, "takeover")
    marks["10,000 timers are scheduled for the same ten seconds"] = time.time()
    watched.sql(SPIKE)
    _for(45, "the spike is foreseen")
    marks["their time comes"] = time.time()
    _for(35, "the spike")
    marks["every shard is killed"] = time.time()
    kill(watched.up.processes("ShardActor"))
    _for(30, "back again")
    return {"begun": begun, **marks}


def _draw(watched: Watched, marks: dict[str, float]) -> None:
    assert watched.prometheus is not None
    minutes = (time.time() - marks.pop("begun")) / 60
    words = [f"--mark={at:.1f}={what}" for what, at in marks.items()]
    subprocess.run(
        [
            sys.executable, "-m", "k8s.monitoring.drawing", "--prometheus", watched.prometheus.url,
            "--minutes", f"{minutes:.3f}", "--rate-interval", "15s", *words,
        ],
        cwd=ROOT,
        check=True,
    )  # fmt: skip


def _for(seconds: float, what: str) -> None:
    """Wait, because the pictures show what happens in this time."""
    sys.stdout.write(f"{what}: {seconds:.0f} s\n")
    sys.stdout.flush()
    time.sleep(seconds)


if __name__ == "__main__":
    main()
