"""List the broken builds, with the trial in which the checker must find each mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.checker import EXERCISED, PROCESSES

FAULTS = (
    "declare a living shard dead",
    "put a shard's clock ahead",
    "kill postmaster",
    "kill shard",
    "lose clients' commit answers",
    "freeze shard after a claim",
)
WORKER_FAULTS = ("replace a frozen worker", "kill worker", "kill handler", "freeze worker", "kill postmaster")
ENGINE_FAULTS = (
    *["replace a frozen engine"] * 3,  # this fault tests the fence of engines, so it occurs three times as often
    "lose a step's answer",
    "kill engine in a step",
    "freeze engine before a step",
    "kill postmaster",
    "cut engine off",
)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace a text in one file; a missing text is an error, because the build would be sound."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The run of a build: its faults, the numbers of workers and engines, and the share of timers with a target."""

    faults: Sequence[str]
    exercised: frozenset[str]
    workers: int = 0
    targeted: float = 0.0
    engines: int = 0
    instances_per_s: float = 0.0


TRIALS = {
    "timers": Trial(FAULTS, EXERCISED - {"S10"}),
    "deliveries": Trial(WORKER_FAULTS, EXERCISED, workers=2, targeted=0.3),
    "processes": Trial(ENGINE_FAULTS, EXERCISED | PROCESSES, workers=2, engines=2, instances_per_s=8.0),
}


@dataclass(frozen=True, slots=True)
class Build:
    """A build: its edits, its trial, and a list of promises.

    The checker must find that the build breaks at least one of these promises.
    """

    name: str
    edits: Sequence[Edit]
    breaks: Sequence[str]
    trial: str = "timers"


_NESTED = "".join(
    f' "enable_{way}": "off",' for way in ("hashjoin", "mergejoin", "material", "memoize", "sort", "hashagg")
)
_LEASED = "claimed_by <> all (ended_holders)"
_NOW = "coalesce(:now::timestamptz, now())"

_APPLY, _STARTS = "sql/processes/apply_steps.sql", "sql/functions/processes/start_process.sql"

BUILDS = (
    Build("sound", (), ()),
    Build(
        "no fence",
        (
            Edit(
                "sql/firing/fire_due.sql",
                "            and t.claimed_by = :holder\n            and t.xmin = s.version\n",
                "            and :holder::bigint is not null\n",
            ),
            Edit("sql/firing/fire_due.sql", " and t.claimed_by = :holder and t.xmin = mine.version\n", "\n"),
            Edit(
                "sql/firing/fire_due.sql",
                "        and t.claimed_by = :holder\n",
                "        and :holder::bigint is not null\n",
            ),
            Edit(
                "sql/firing/fire_due.sql",
                "            (t.timer_key, t.xmin::text) in (\n",
                "            t.timer_key in (\n",
            ),
            Edit("sql/firing/fire_due.sql", "select s.timer_key, s.version::text\n", "select s.timer_key\n"),
        ),
        ("S8",),
    ),
    Build(
        "no due_date <= now() in fire",
        (Edit("sql/firing/fire_due.sql", f"and (t.due_date <= {_NOW}) is true", f"and {_NOW} > '-infinity'"),),
        ("S1",),
    ),
    Build(
        "clock from the shard",
        (
            Edit(
                "shards/shard.py",
                "fire_due(self._fires, self.holder, firings, grants=grants, lag_edges=LAG_EDGES)",
                "fire_due(self._fires, self.holder, firings, grants=grants, lag_edges=LAG_EDGES, now=now)",
            ),
        ),
        ("S1",),
    ),
    Build("lease ignored", (Edit("sql/functions/timers/is_free.sql", _LEASED, "false"),), ("S8",)),
    Build(
        "no sweep",
        (Edit("shards/scan_planner.py", "= now_s >= self.swept_at_s + self.settings.sweep_s", "= False"),),
        ("L1", "L3"),
    ),
    Build(
        "retry without re-read",
        (
            Edit(
                "sql/clients/schedule_timers.sql",
                "where not exists (select from logged l where l.timer_key = s.timer_key)\n",
                "",
            ),
        ),
        ("S3", "S7"),
    ),
    Build(
        "passes unsettled positions",
        (Edit("sql/functions/log/read_log.sql", "        and l.position <= settled\n", ""),),
        ("L4",),
    ),
    Build(
        "answers before it is on disk",
        (Edit("sql/session_settings.py", '"synchronous_commit": "on"', '"synchronous_commit": "off"'),),
        ("D1", "S2"),
    ),
    Build(
        "in (... limit)",
        (
            Edit(
                "sql/included/fire_or_lease_due.sql",
                """    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease
    where t.timer_key = any (array(select due.timer_key from due))
""",
                """    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease
    where t.timer_key in (
        select i.timer_key
        from shardclock.timers i
        cross join scan
        where i.due_date <= coalesce(:now::timestamptz, now()) + :horizon::interval
            and i.slot % scan.step = scan.first_slot
            and (i.claimed_until is null or i.claimed_until <= coalesce(:now::timestamptz, now()))
        limit :batch::integer
        for update of i skip locked
    )
""",
            ),
            # The mistake has an effect only with nested loops, so the build forces this query plan.
            Edit("sql/session.py", '    "jit": "off",', f'    "jit": "off",{_NESTED}'),
        ),
        ("B1",),
    ),
    Build("sound, with workers", (), (), trial="deliveries"),
    Build(
        "settles other workers' deliveries",
        (
            Edit(
                "sql/deliveries/settle_deliveries.sql",
                "        and d.claimed_by = :holder::bigint\n",
                "        and :holder::bigint is not null\n",
            ),
            Edit("sql/deliveries/settle_deliveries.sql", "        and a.claims = d.claims\n", ""),
            Edit(
                "sql/deliveries/settle_deliveries.sql",
                "        and d.claimed_by = :holder\n    returning",
                "    returning",
            ),
        ),
        ("S10",),
        trial="deliveries",
    ),
    Build(
        "fires without a delivery",
        (
            Edit("sql/included/deliver.sql", "where f.target <> 'log'", "where f.target = 'none'"),
            # The edit above removes the inserts of deliveries. This edit also stops the shard from passing deliveries
            # to workers at the firing.
            Edit("sql/included/deliver_and_measure.sql", "where exists (select from granted)", "where false"),
        ),
        ("S10",),
        trial="deliveries",
    ),
    Build(
        "calls nothing that it was handed",
        (
            Edit(
                "workers/deliveries.py",
                "        self._take(deliveries, claimed_s=time.monotonic() + left_s"
                " - self._settings.delivery_lease_s)\n",
                "        self._leases.take(deliveries, now_s=time.monotonic())\n"
                "        self._settler.add([Settlement(it, 'DELIVERED') for it in deliveries])\n",
            ),
        ),
        ("S10",),
        trial="deliveries",
    ),
    Build("sound, with engines", (), (), trial="processes"),
    Build(
        "an engine without a fence",
        (
            Edit(
                _APPLY,
                "where i.instance_key = s.instance_key and i.version = s.was\n",
                "where i.instance_key = s.instance_key\n",
            ),
            Edit(_APPLY, "        and i.version = s.was\n    returning", "    returning"),
            # A step also fails if its signal no longer exists. This edit disables that check, because the check would
            # protect the instance even without the fence.
            Edit(_APPLY, "where g.timer_key not in (select h.timer_key from held h)", "where false"),
            # Without `on conflict`, the primary key of the history would refuse the second step.
            Edit(
                _APPLY,
                "(select w.instance_key from written w)\n),\nclosed as",
                "(select w.instance_key from written w)\n    on conflict do nothing\n),\nclosed as",
            ),
        ),
        ("P3", "P4"),
        trial="processes",
    ),
    Build(
        "a taken signal stays",
        (
            Edit(
                _APPLY,
                "taken as (\n    delete from shardclock.deliveries d\n    where ",
                "taken as (\n    delete from shardclock.deliveries d\n    where d.timer_key % 10 <> 0 and ",
            ),
        ),
        ("P3",),
        trial="processes",
    ),
    Build(
        "a start forgets its key",
        (Edit(_STARTS, "if before.instance_key is not null then", "if before.instance_key < 0 then"),),
        ("P2",),
        trial="processes",
    ),
)
