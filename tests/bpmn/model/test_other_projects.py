"""Each test model of other engines is read, or refused for a reason that its author understands."""

import csv
from collections import defaultdict

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.definition import TimerTrigger
from tests.support.other_models import MODELS, REFUSED, names

pytestmark = pytest.mark.skipif(not MODELS.exists(), reason="the shared models are not here")


@pytest.mark.parametrize("name", names())
def test_a_model_is_read_or_refused_for_the_right_reason(name: str) -> None:
    text = (MODELS / name).read_bytes()
    if words := REFUSED.get(name[:3]):
        with pytest.raises(InvalidModel) as refused:
            read_model(text)
        sentences = "; ".join(str(problem) for problem in refused.value.problems)
        assert [word for word in words if word not in sentences] == []
    else:
        assert read_model(text)


def test_the_models_have_the_manually_counted_numbers_of_timers() -> None:
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
            if isinstance(node.trigger, TimerTrigger)
        }
        assert timers == expected
