"""A token moves to a node that accepts a token. The gateway refuses any other move before it writes a signal."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import aiohttp
import pytest
from fastapi import FastAPI

from shardclock_server.bpmn.model import Definition, read_model
from shardclock_server.cluster.testing import cluster
from shardclock_server.service import processes, token_moves
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.bpmn import model
from tests.support.bpmn_cluster import running
from tests.support.gateways import Api

INSIDE = '<startEvent id="i"/><userTask id="in"/><sequenceFlow id="f" sourceRef="i" targetRef="in"/>'
MODEL = f'<startEvent id="s"/><userTask id="u"/><subProcess id="sub">{INSIDE}</subProcess><endEvent id="e"/>'
FLOWS = "s>u u>sub sub>e"


async def test_a_move_of_tokens_or_nodes_that_the_instance_lacks_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"begun": ["nodes"]}, "node 'nodes' is not in the instance's process: its nodes are 's', 'u', 'sub', "),
        ({"begun": ["p"]}, "node 'p' is not in the instance's process: its nodes are "),
        ({"begun": ["in"]}, "node 'in' is inside 'sub', where no token is now; begin 'sub' instead"),
        ({"terminated": [9]}, "token 9 is not in the instance now: its tokens are 3 at 'u'"),
        ({"terminated": [1]}, "token 1 is the process itself; cancel the instance instead"),
    ]
    async with running() as it:
        await it.deploy(MODEL, connected=FLOWS)
        key = await it.start()
        stored = await token_moves.model_of(it.session, key)
        assert stored is not None
        definition = token_moves.definition_in(stored)
        for moved, sentence in cases:
            with pytest.raises(Refusal) as refused:
                await token_moves.move(it.session, key, definition=definition, **moved)
            assert str(refused.value).startswith(sentence)
        await it.settle()
        assert await it.stale(key) == []


EACH = (
    '<multiInstanceLoopCharacteristics><extensionElements><zeebe:loopCharacteristics inputCollection="=[1, 2]"/>'
    "</extensionElements></multiInstanceLoopCharacteristics>"
)


@pytest.mark.parametrize(
    ("loop", "terminated", "sentence"),
    [
        ("", [3], "node 'in' is inside 'sub', whose token 3 ends with a terminated token; "),
        (EACH, [], "node 'in' is inside 'sub', which has several executions (tokens "),
    ],
)
async def test_a_move_that_the_engine_would_ignore_is_refused(loop: str, terminated: list[int], sentence: str) -> None:
    process = f'<startEvent id="s"/><subProcess id="sub">{loop}{INSIDE}</subProcess><endEvent id="e"/>'
    async with running() as it:
        await it.deploy(process, connected="s>sub sub>e")
        key = await it.start()
        stored = await token_moves.model_of(it.session, key)
        assert stored is not None
        definition = token_moves.definition_in(stored)
        with pytest.raises(Refusal) as refused:
            await token_moves.move(it.session, key, definition=definition, terminated=terminated, begun=["in"])
        assert str(refused.value).startswith(sentence)


async def test_a_token_is_moved_over_http_and_a_missing_one_is_refused() -> None:
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        await api.deploy(model(MODEL, connected=FLOWS))
        key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]
        await sc.advance("PT0S")
        path, move = f"/v1/instances/{key}/move", {"terminated": [3], "begun": ["sub"]}
        threads = list[str]()

        def note(text: bytes) -> tuple[Definition, ...]:
            threads.append(threading.current_thread().name)
            return read_model(text)

        with mock.patch.object(token_moves, "read_model", note):
            assert (await api.post(path, move)).status == 202
        assert [name.startswith("models") for name in threads] == [True]  # not in the event loop's thread
        await sc.advance("PT0S")
        (task,) = (await api.get("/v1/tasks")).json["tasks"]
        assert task["node_id"] == "in"
        (await api.post(path, move)).assert_problem("refused", 422, "token 3 is not in the instance now")
        late = await api.post(f"/v1/instances/{key}/variables", {"variables": {"a": 1}, "token": 3})
        late.assert_problem("refused", 422, "token 3 is not in the instance now")
        assert (await api.post("/v1/instances/7/move", move)).status == 404
        async with Session(sc.dsn, application="test") as session:
            assert (await processes.find(session, key)).found.state == "RUNNING"
