"""Every model that other engines test with is run, or refused for a reason that its author understands."""

import csv
from collections import defaultdict

import pytest

from bpmn.model import InvalidModel, read_model
from bpmn.model.definition import Timer
from tests.support import ROOT

MODELS = ROOT.parent / "shared" / "cases" / "bpmn"
pytestmark = pytest.mark.skipif(not MODELS.exists(), reason="the shared models are not here")

# Which words of the refusal tell the author what to change; the others run.
REFUSED = {
    "04_": ("no condition; write one", "no start events"),  # drawn, never meant to run
    "12_": ("a start event in a sub-process has no trigger", "2 start events"),
    "24_": ("not a timeCycle", "not after a timeDuration", "exactly one start event, with a trigger"),
    "34_": ("its language is 'groovy'",),
    "38_": ('isExecutable="true"', "'${StartDate}/PT10S' mixes text and an expression"),
    "44_": ("the signal 'startSignal', which the model doesn't have",),
    "48_": ('isExecutable="true"', "'2s' is not an ISO 8601 duration"),
    "54_": ("not after a timeDuration",),
    "58_": ("it refers to no message",),
}


def names() -> list[str]:
    return sorted(path.name for path in MODELS.glob("*") if path.suffix in {".bpmn", ".bpmn2", ".xml"})


@pytest.mark.parametrize("name", names())
def test_a_model_is_run_or_refused_for_the_right_reason(name: str) -> None:
    text = (MODELS / name).read_bytes()
    if words := REFUSED.get(name[:3]):
        with pytest.raises(InvalidModel) as refused:
            read_model(text)
        sentences = "; ".join(str(problem) for problem in refused.value.problems)
        assert [word for word in words if word not in sentences] == []
    else:
        assert read_model(text)


def test_the_timers_of_a_model_are_those_that_were_counted_by_hand() -> None:
    counted: defaultdict[str, dict[str, tuple[str, bool]]] = defaultdict(dict)
    with (MODELS / "index.csv").open() as index:
        for row in csv.DictReader(index):
            if row["file"][:3] not in REFUSED:
                counted[row["file"]][row["element_id"]] = (row["timer_type"], row["interrupting"] != "false")
    assert counted
    for name, expected in counted.items():
        nodes = {n.node_id: n for each in read_model((MODELS / name).read_bytes()) for n in each.nodes.values()}
        timers = {
            key: (node.trigger.kind, node.is_interrupting)
            for key, node in nodes.items()
            if isinstance(node.trigger, Timer)
        }
        assert timers == expected
