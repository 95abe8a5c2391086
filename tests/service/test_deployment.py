"""A new model is refused if to read it, or to begin with it, would take too long; one that is stored is read."""

from __future__ import annotations

import pytest

from bpmn.model import InvalidModel, expressions, read_model
from service import deployment
from service.deployment import describe_processes
from service.processes import UnknownProcess, deploy, find_definition
from sql.session import Session
from tests.support.bpmn import model

START = '<startEvent id="s"/>'


def script(element_id: str, text: str) -> str:
    return f'<scriptTask id="{element_id}" scriptFormat="feel"><script>{text}</script></scriptTask>'


def test_all_expressions_of_a_new_model_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "EXPRESSIONS_CHARS_MAX", 1_000)
    half = " + ".join(["abc"] * 83)
    assert 2 * len(half) < 1_000 < 3 * len(half)
    two = model(START + script("a", half) + script("b", half), connected="s>a a>b")
    three = model(START + script("a", half) + script("b", half) + script("c", f"={half}"), connected="s>a a>b b>c")

    assert describe_processes(two)
    assert describe_processes(two)  # each model anew
    with pytest.raises(InvalidModel, match="the model's expressions have more than 1,000 characters together; divide"):
        describe_processes(three)
    assert read_model(three), "an engine reads what was deployed before"


def test_the_start_events_of_a_new_model_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "STARTS_MAX", 2)
    timers = [
        f'<startEvent id="t{n}"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
        for n in range(3)
    ]

    assert len(describe_processes(model(START + "".join(timers[:2])))[0].said["starts"]) == 2
    with pytest.raises(InvalidModel, match="3 start events of the model wait; 2 may: divide it into several models"):
        describe_processes(model(START + "".join(timers)))


async def test_a_model_is_found_by_its_own_tenant_alone_also_without_row_level_security(dsn: str) -> None:
    text = model(START)
    async with Session(dsn, application="test") as session:
        (deployed,) = await deploy(session, text, resource="p.bpmn", tenant_id="acme")

        for tenant_id in ("acme", None):
            assert (await find_definition(session, deployed.definition_key, tenant_id=tenant_id)).model == text
        with pytest.raises(UnknownProcess, match=f"definition {deployed.definition_key} is unknown"):
            await find_definition(session, deployed.definition_key, tenant_id="default")
