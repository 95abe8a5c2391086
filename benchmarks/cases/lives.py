"""Run instances from start to end. Measure the number of instances per second, and the delay of boundary timers."""

import asyncio
import os
import time

import psutil

from benchmarks.cases.case import Case, Figure, Figures, NotForIt, Part
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import PATIENCE_S, OnRay
from benchmarks.postgres import connected, settle
from shardclock_server.service.processes import deploy
from shardclock_server.sql.cluster.holders import ENGINE, list_holders

ENGINES = 2
COUNT, AT_ONCE = 20_000, 1_000
PACED_PER_S, PACED_S, TIMER_S = 500, 10, 3
WITHIN_S = 120.0
BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
ZEEBE = "http://camunda.org/schema/zeebe/1.0"
SCRIPTS = 5
START = "select shardclock.start_process($1, jsonb_build_object('order', n)) from generate_series(1, $2::integer) n"
LIFE = "select definition_key from shardclock.definitions where process_id = 'life'"
# The condition on `definition_key` excludes the tasks of other instances.
COMPLETE = """
    select count(shardclock.complete_task(t.task_key))
    from (
        select t.task_key
        from shardclock.instances i
        join shardclock.tasks t on t.instance_key = i.instance_key
        where (i.ended_at is null) is true and i.definition_key = $1::bigint and t.completed_at is null
        limit $2::integer
    ) t
"""
LEFT = """
    select (
            select count(*)
            from shardclock.instances i
            where (i.ended_at is null) is true and i.definition_key = $1::bigint
        )
        + (select count(*) from shardclock.deliveries)
"""
# The time from the due date of each boundary timer until the engine has written the step.
EFFECTS = """
    select percentile_cont(array[0.5, 0.99]) within group (order by extract(epoch from s.stepped_at - l.due_date))
    from shardclock.instance_steps s
    cross join jsonb_array_elements(s.signals) g
    join shardclock.command_log l on l.timer_key = (g ->> 'key')::bigint and l.intent = 'TRIGGERED'
    where g ->> 'kind' = 'fired' and l.timer_type = 'BOUNDARY'
"""
# The time from the start of an instance until its first task.
FIRST_TASKS = """
    select percentile_cont(0.99) within group (order by extract(epoch from a.acted_at - d.asked_at))
    from shardclock.task_acts a
    join shardclock.process_starts d on d.instance_key = a.instance_key
    where a.act = 'CREATED'
"""
PACE = """
    select shardclock.start_process('boundary', idempotency_key => $1::text || n) from generate_series(1, $2::integer) n
"""


class Engines(OnRay):
    """A cluster of two shards and two engines, as `shardclock up` runs after the first deployment of a model."""

    def __init__(self) -> None:
        super().__init__(2)
        self.name = "Shardclock, 2 shards and 2 engines"

    async def start(self) -> None:
        """Deploy models, then start the cluster: an engine starts only if a model is deployed."""
        async with self.session() as session:
            for model in (_life(), _boundary(f"PT{TIMER_S}S", "boundary"), _boundary("P30D", "waiting")):
                await deploy(session, model, resource="benchmark.bpmn")
        await super().start()
        async with self.session() as session:
            while sum(it.part_count == ENGINES for it in await list_holders(session, ENGINE)) < ENGINES:
                await asyncio.sleep(0.05)

    def processes(self) -> list[psutil.Process]:
        """List the engine actors."""
        return [it for it in psutil.Process(os.getpid()).children(recursive=True) if "EngineActor" in it.name()]


async def measure(contender: Contender) -> Figures:
    """Start many instances at the same time, then start further instances at a steady pace."""
    assert isinstance(contender, Engines)
    await contender.start()
    await live_through(contender, AT_ONCE)  # a warm-up of Postgres's plans and of the Python code
    await settle(contender.dsn)
    took_s = await live_through(contender, COUNT)
    return {"per_s": COUNT / took_s, **await _paced(contender)}


async def live_through(contender: Engines, count: int) -> float:
    """Start instances, complete their tasks, and wait until all have ended; return the total duration."""
    give_up_s = time.monotonic() + WITHIN_S
    async with connected(contender.dsn) as connection:
        life = await connection.fetchval(LIFE, timeout=PATIENCE_S)
        began_s = time.perf_counter()
        for _ in range(0, count, AT_ONCE):
            await connection.execute(START, "life", AT_ONCE, timeout=PATIENCE_S)
        completed = 0
        while completed < count:
            some = await connection.fetchval(COMPLETE, life, AT_ONCE, timeout=PATIENCE_S)
            completed += some
            if time.monotonic() > give_up_s:
                raise NotForIt(f"{count - completed:,} tasks were not there within {WITHIN_S:.0f} s")
            await asyncio.sleep(0 if some else 0.01)
        while await connection.fetchval(LEFT, life, timeout=PATIENCE_S):
            if time.monotonic() > give_up_s:
                raise NotForIt(f"some instances did not end within {WITHIN_S:.0f} s")
            await asyncio.sleep(0.05)
        return time.perf_counter() - began_s


async def _paced(contender: Engines) -> Figures:
    """Start instances at a pace, each with a task that a boundary timer ends."""
    each = PACED_PER_S // 50
    async with connected(contender.dsn) as connection:
        begin_s = time.monotonic()
        for number in range(50 * PACED_S):
            await asyncio.sleep(begin_s + number / 50 - time.monotonic())
            await connection.execute(PACE, f"{number}-", each, timeout=PATIENCE_S)
        await asyncio.sleep(TIMER_S + 2)
        p50, p99 = await connection.fetchval(EFFECTS, timeout=PATIENCE_S)
        return {"p50": float(p50), "p99": float(p99), "task": float(await connection.fetchval(FIRST_TASKS))}


def _model(process_id: str, elements: str, flows: str) -> bytes:
    connected_by = "".join(
        f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}"/>'
        for source, target in (flow.split(">") for flow in flows.split())
    )
    return (
        f'<definitions xmlns="{BPMN}" xmlns:zeebe="{ZEEBE}"><process id="{process_id}" isExecutable="true">'
        f"{elements}{connected_by}</process></definitions>"
    ).encode()


def _timer(duration: str) -> str:
    return f"<timerEventDefinition><timeDuration>{duration}</timeDuration></timerEventDefinition>"


def _life() -> bytes:
    scripts = "".join(
        f'<scriptTask id="x{number}"><extensionElements><zeebe:script expression="=order + {number}"'
        f' resultVariable="v{number}"/></extensionElements></scriptTask>'
        for number in range(SCRIPTS)
    )
    catch = f'<intermediateCatchEvent id="t">{_timer("PT1S")}</intermediateCatchEvent>'
    elements = f'<startEvent id="s"/><userTask id="u"/>{catch}{scripts}<endEvent id="e"/>'
    between = " ".join(f"x{number}>x{number + 1}" for number in range(SCRIPTS - 1))
    return _model("life", elements, f"s>u u>t t>x0 {between} x{SCRIPTS - 1}>e")


def _boundary(duration: str, process_id: str) -> bytes:
    event = f'<boundaryEvent id="b" attachedToRef="u">{_timer(duration)}</boundaryEvent>'
    return _model(process_id, f'<startEvent id="s"/><userTask id="u"/>{event}<endEvent id="e"/>', "s>u b>e")


CASE = Case(
    "lives",
    "Processes",
    f"{COUNT:,} instances of a BPMN process run, each with a user task, a timer of one second and {SCRIPTS} scripts."
    " Clients start the instances and complete the tasks in SQL. The figure is the number of completed instances per"
    f" second, from the first start to the last end. Then {PACED_PER_S} instances a second start, each with a task that"
    " a boundary timer interrupts. The figures are the time from the timer's due date until the timer's step is"
    " committed, and the time from the start of an instance until its task exists.",
    (
        Part(
            "",
            (
                Figure("per_s", "completed instances a second", "cps", more_is_better=True),
                Figure("p50", "a timer's effect, p50", "s"),
                Figure("p99", "p99", "s"),
                Figure("task", "the first task, p99", "s"),
            ),
        ),
    ),
    lambda: [Engines()],
    measure,
)
