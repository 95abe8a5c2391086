"""A new model is refused if reading or starting it would take too long; a stored model is always read."""

from __future__ import annotations

import pytest

from shardclock.api.refusals.processes import UNKNOWN_DEFINITION
from shardclock_server.bpmn.model import InvalidModel, expressions, read_model
from shardclock_server.service import deployment
from shardclock_server.service.deployment import describe_processes
from shardclock_server.service.processes import deploy, find_definition
from shardclock_server.sql.session import Session
from tests.support.bpmn import boundary, event_subprocess, job, model, timer
from tests.support.refusals import refusing

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
    assert describe_processes(two)  # each model has its own budget of processor time
    with pytest.raises(InvalidModel, match="the model's expressions have more than 1,000 characters together"):
        describe_processes(three)
    assert read_model(three), "an engine reads earlier definitions"


def test_the_number_of_start_events_with_a_trigger_is_bounded_in_a_new_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "STARTS_MAX", 2)
    timers = [
        f'<startEvent id="t{n}"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
        for n in range(3)
    ]

    assert len(describe_processes(model(START + "".join(timers[:2])))[0].description["starts"]) == 2
    with pytest.raises(InvalidModel, match="3 start events of the model wait; 2 may: divide it into several models"):
        describe_processes(model(START + "".join(timers)))


@pytest.mark.parametrize(
    ("cycle", "why"),
    [
        ("0 0 30 2 *", "schedule '0 0 30 2 *' never occurs after"),
        ("R/P9000Y", "never occurs after"),
    ],
)
def test_a_cycle_that_never_occurs_is_refused_in_a_new_model_and_accepted_in_a_stored_model(
    cycle: str, why: str
) -> None:
    event = timer("timeCycle", cycle)
    besides = boundary("b", "a", event, interrupts=False) + event_subprocess("u", event, interrupts=False)
    text = model(f'<startEvent id="s">{event}</startEvent>{job("a")}{besides}', connected="s>a")

    with pytest.raises(InvalidModel) as refused:
        describe_processes(text)

    assert [problem.element_id for problem in refused.value.problems] == ["s", "b", "us"]
    assert all(why in problem.sentence for problem in refused.value.problems)
    assert read_model(text), "an engine reads earlier definitions"


@pytest.mark.parametrize("cycle", ['="0 0 30 2 *"', '="R/P9000Y"', "0 0 * * FRI-TUE"])
def test_a_start_s_cycle_that_never_occurs_is_refused_in_any_notation(cycle: str) -> None:
    with pytest.raises(InvalidModel, match=r"never occurs after|runs backwards"):
        describe_processes(model(f'<startEvent id="s">{timer("timeCycle", cycle)}</startEvent>'))


@pytest.mark.parametrize(
    "cycle",
    ["R/PT1H", "R/PT1H/2020-01-31T08:00Z", "R3/2020-01-31T08:00Z/P1D", "R/PT1H/2999-01-31T08:00Z", "0 0 29 2 *"],
)
def test_a_cycle_that_occurs_again_is_accepted_even_if_it_began_long_ago(cycle: str) -> None:
    (described,) = describe_processes(model(f'<startEvent id="s">{timer("timeCycle", cycle)}</startEvent>'))

    (start,) = described.description["starts"]
    assert start["schedule"] == cycle


async def test_only_its_own_tenant_finds_a_model_even_without_row_level_security(dsn: str) -> None:
    text = model(START)
    async with Session(dsn, application="test") as session:
        (deployed,) = await deploy(session, text, resource="p.bpmn", tenant_id="acme")

        for tenant_id in ("acme", None):
            assert (await find_definition(session, deployed.definition_key, tenant_id=tenant_id)).model == text
        with refusing(UNKNOWN_DEFINITION):
            await find_definition(session, deployed.definition_key, tenant_id="default")
