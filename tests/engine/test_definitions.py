"""Prove that a model that takes long to compile keeps nothing else of an engine waiting."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bpmn.model import read_model
from engine.definitions import Definitions
from service import processes
from sql.session import Session
from tests.support.bpmn import model

USER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


async def test_a_model_is_compiled_beside_the_loop(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loops = threading.get_ident()
    compiled_by: list[int] = []

    def read(text: bytes) -> Any:
        compiled_by.append(threading.get_ident())
        return read_model(text)

    monkeypatch.setattr("engine.definitions.read_model", read)
    async with Session(dsn, application="test") as session:
        deployed = await processes.deploy(session, USER, resource="p.bpmn")
        await Definitions().load(session, [deployed[0].definition_key])

    assert compiled_by
    assert loops not in compiled_by
