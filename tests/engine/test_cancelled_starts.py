"""An instance that is cancelled while its start is tried never begins, though the start is given up."""

from __future__ import annotations

import structlog

from engine.runner import SignalRunner
from engine.stats import EngineStats
from service import processes
from sql.deliveries.dead_letters import redrive_dead_letters
from sql.processes.instances import cancel_instance
from sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import add_holder, query

USER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
TRIES = 10


async def test_an_instance_that_is_cancelled_before_its_start_is_given_up_never_begins(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, USER, resource="p.bpmn")
        engine = SignalRunner(steps, 1, EngineStats(), batch=500, log=structlog.get_logger())
        # Variables may have 1 MiB, and a state, too: with its tokens this one is larger.
        key = await processes.start(session, "p", variables={"a": "x" * 1_048_560})
        await engine.turn()
        assert (await processes.find(session, key)).found.state == "STARTING"

        assert await cancel_instance(session, key) == "SENT"
        for _ in range(TRIES):
            while await engine.turn():
                pass
            await query(dsn, "update shardclock.deliveries set next_attempt_at = now()")

        assert (await processes.find(session, key)).found.state == "CANCELED"
        assert await redrive_dead_letters(session, [key]) == []
        assert (
            await query(dsn, "select 1 from shardclock.deliveries union all select 1 from shardclock.dead_letters")
            == []
        )
