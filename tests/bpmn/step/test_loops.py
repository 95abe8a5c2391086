"""A multi-instance activity is executed once for each item of a list."""

from shardclock_server.bpmn.step.effects import ServiceTaskOpened
from shardclock_server.bpmn.step.signals import ActivityCompleted
from tests.support.bpmn import Played, definition, job

OUTPUT = ' outputCollection="results" outputElement="=result"'


def looped(attributes: str = "", inside: str = "", *, items: object = None, zeebe: str = OUTPUT) -> Played:
    """Run a process with a job that is executed for each of `items`."""
    characteristics = (
        f"<multiInstanceLoopCharacteristics {attributes}><extensionElements>"
        f'<zeebe:loopCharacteristics inputCollection="=items" inputElement="item"{zeebe}/></extensionElements>'
        f"{inside}</multiInstanceLoopCharacteristics>"
    )
    return Played(
        definition(f'<startEvent id="s"/>{job("a", characteristics)}<endEvent id="e"/>', connected="s>a a>e"),
        {"items": items},  # type: ignore[dict-item]
    )


def jobs(played: Played) -> dict[int, ServiceTaskOpened]:
    """Return the open jobs; the keys are the numbers of the executions."""
    opened = [job for job in played.open.values() if isinstance(job, ServiceTaskOpened)]
    return {int(str(job.variables["loopCounter"])): job for job in opened}


def test_a_collection_that_is_not_a_list_is_an_incident() -> None:
    played = looped(items="x")
    (incident,) = played.incidents.values()
    assert (
        incident.sentence
        == "the collection of the multi-instance loop is 'x', not a list (the variable 'items' of the process p"
        " is a text)"
    )


def test_output_mappings_of_an_execution_write_inside_the_activity() -> None:
    characteristics = (
        "<multiInstanceLoopCharacteristics><extensionElements>"
        '<zeebe:loopCharacteristics inputCollection="=items" outputCollection="all" outputElement="=doubled"/>'
        "</extensionElements></multiInstanceLoopCharacteristics>"
    )
    task = (
        '<serviceTask id="a"><extensionElements><zeebe:taskDefinition type="a"/><zeebe:ioMapping>'
        '<zeebe:input source="=null" target="doubled"/><zeebe:output source="=result * 2" target="doubled"/>'
        f"</zeebe:ioMapping></extensionElements>{characteristics}</serviceTask>"
    )
    played = Played(definition(f'<startEvent id="s"/>{task}', connected="s>a"), {"items": [1, 2]})
    for number in (1, 2):
        assert played.send(ActivityCompleted(jobs(played)[number].token, {"result": number}))
    assert played.result.variables == {"items": [1, 2], "all": [2, 4]}


def test_a_worker_s_result_belongs_to_its_own_execution() -> None:
    played = looped(items=["x", "y"])
    tokens = {number: opened.token for number, opened in jobs(played).items()}
    assert played.send(ActivityCompleted(tokens[1], {"result": 1, "loopCounter": 99}))
    assert played.send(ActivityCompleted(tokens[2], {"result": 2, "loopCounter": "x"}))
    assert played.result.variables["results"] == [1, 2]


def test_a_cardinality_of_camunda_7_numbers_its_executions() -> None:
    characteristics = (
        "<multiInstanceLoopCharacteristics><loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics>"
    )
    played = Played(definition(f'<startEvent id="s"/>{job("a", characteristics)}', connected="s>a"))
    assert list(jobs(played)) == [1, 2, 3]
