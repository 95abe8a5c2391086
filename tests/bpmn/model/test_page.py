"""The page on BPMN agrees with the code about each element."""

import re

import pytest

from shardclock_server.bpmn.model import InvalidModel, document, expressions, extensions, read_model
from shardclock_server.bpmn.model.paths import FLOWS_JOINED_MAX
from shardclock_server.bpmn.model.reading import ID_CHARS_MAX, KINDS, NOT_RUN
from shardclock_server.bpmn.model.support import Support, camunda_7, camunda_8
from shardclock_server.bpmn.step import evaluation_budget, state
from shardclock_server.bpmn.step.advance import ENTRIES_MAX
from shardclock_server.bpmn.step.tokens import CALLS_DEPTH_MAX
from shardclock_server.bpmn.step.wait_opening import WAITED_CHARS_MAX
from shardclock_server.service.deployment import STARTS_MAX
from tests.support import ROOT
from tests.support.bpmn import model

PAGE = (ROOT / "docs" / "bpmn.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (yes|no) \|", PAGE, re.MULTILINE)


def test_the_page_lists_the_supported_and_the_unsupported_elements() -> None:
    assert {name for name, runs in ROWS if runs == "yes"} == set(KINDS)
    assert {name for name, runs in ROWS if runs == "no"} == set(NOT_RUN)


@pytest.mark.parametrize("event", ["conditional", "link", "compensate", "cancel"])
def test_events_that_the_page_excludes_are_refused(event: str) -> None:
    definition = f"<{event}EventDefinition/>"
    with pytest.raises(InvalidModel, match=f"t: {event} events are not supported"):
        read_model(model(f'<startEvent id="s"/><intermediateCatchEvent id="t">{definition}</intermediateCatchEvent>'))


def test_the_page_has_the_limits() -> None:
    bounds = PAGE.partition("## Bounds")[2]
    mib = document.MODEL_BYTES_MAX // 2**20
    assert f"{mib} MiB, {document.ELEMENTS_MAX:,} elements, {document.DEPTH_MAX} levels of elements" in bounds
    assert f"| the id of a process, an element or a flow | {ID_CHARS_MAX} characters |" in bounds
    assert f"| incoming flows of all joining inclusive gateways of a process | {FLOWS_JOINED_MAX:,} |" in bounds
    assert f"{expressions.EXPRESSION_CHARS_MAX:,} characters" in bounds
    assert f"all expressions of a model together | {expressions.EXPRESSIONS_CHARS_MAX:,} characters |" in bounds
    steps, chars = evaluation_budget.ELEMENT_STEPS_MAX, evaluation_budget.ELEMENT_CHARS_MAX
    assert f"of one element together | {steps:,} steps, and {chars:,} returned characters |" in bounds
    assert f"wait for a time, a message or a signal | {STARTS_MAX} |" in bounds
    assert f"| items of a multi-instance | {extensions.ITEMS_MAX:,} |" in bounds
    waited = "a time, a message's or signal's name, a correlation key, an assignee"
    assert f"| {waited} | {WAITED_CHARS_MAX} characters |" in bounds
    assert f"| nested calls of processes | {CALLS_DEPTH_MAX} |" in bounds
    assert f"| nodes entered without waiting | {ENTRIES_MAX:,} |" in bounds
    assert f"| state of an instance | {state.STATE_BYTES_MAX // 2**20} MiB |" in bounds


EXTENSIONS = [
    (prefix, name, Support(support))
    for names, support in re.findall(r"^\| (`(?:zeebe|camunda):.+) \| (read|ignored|refused) \|", PAGE, re.MULTILINE)
    for prefix, name in re.findall(r"`(zeebe|camunda):(\w+)`", names)
]


@pytest.mark.parametrize(("prefix", "name", "support"), EXTENSIONS)
def test_the_page_has_the_support_for_an_extension(prefix: str, name: str, support: Support) -> None:
    table = camunda_8 if prefix == "zeebe" else camunda_7
    rules = (*table.ATTRIBUTES.get(name, ()), *table.ELEMENTS.get(name, ()))
    assert support in {rule.support for rule in rules}


def test_the_page_lists_extensions_of_each_kind_of_support() -> None:
    assert {support for _, _, support in EXTENSIONS} == set(Support)
