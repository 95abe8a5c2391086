"""On real Postgres, a small model for each BPMN element behaves as Camunda 8's documentation says."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.model import InvalidModel
from shardclock_server.service import processes
from tests.support.bpmn_cluster import Processes, running
from tests.support.bpmn_models import HISTORIES, MODELS, ElementModel, Play, folders
from tools.bpmn_page import PAGE, written

EACH = [model for folder in folders() for model in folder.models]


@pytest.mark.parametrize("model", [it for it in EACH if it.moves], ids=lambda it: it.path)
async def test_the_tokens_of_a_model_move_as_its_history_says(model: ElementModel) -> None:
    async with running() as it:
        await processes.deploy(it.session, model.text, resource=model.path)
        play = Play(it)
        assert [(move, await play.move(move)) for move, _ in model.moves] == [
            (move, went) for move, went in model.moves
        ]

        first, *others = await play.instances()
        assert await it.state(first) == ("RUNNING" if model.incident else "COMPLETED")
        assert await sentences(it, first) == ([model.incident] if model.incident else [])
        assert model.result in (None, (await it.see(first)).result)
        assert {await it.state(other) for other in others} <= {"COMPLETED", "CANCELED", "ERROR"}


@pytest.mark.parametrize("model", [it for it in EACH if it.refused], ids=lambda it: it.path)
async def test_an_unsupported_model_is_refused_and_leaves_no_rows(model: ElementModel) -> None:
    async with running() as it:
        with pytest.raises(InvalidModel) as refused:
            await processes.deploy(it.session, model.text, resource=model.path)
        assert str(refused.value) == model.refused
        assert await it.query("select 1 from shardclock.definitions") == []


async def sentences(it: Processes, key: int) -> list[str]:
    return [incident["sentence"] for incident in (await it.see(key)).waits["incident_list"]]


def test_the_page_of_elements_is_up_to_date() -> None:
    assert PAGE.read_text() == written(), "write it anew: make docs"


def test_each_model_has_a_history_and_each_history_a_model() -> None:
    files = {path.relative_to(MODELS).as_posix() for path in MODELS.rglob("*") if path.is_file()}
    assert {path for path in files if not path.endswith(HISTORIES)} == {model.path for model in EACH}
    assert [model.path for model in EACH if bool(model.moves) == bool(model.refused)] == []
