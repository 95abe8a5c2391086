"""Read an element's input and output mappings.

errors:  InvalidValue  a mapping can't be read
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.definition import Assignment
from shardclock_server.bpmn.model.expressions import InvalidValue, read_name, read_text, read_variable
from shardclock_server.bpmn.model.names import ZEEBE, camunda_children, local_name, text_of, zeebe_child
from shardclock_server.timers.refusal import shortened

PATH_PARTS_MAX = 20


def read_mappings(element: Element) -> tuple[tuple[Assignment, ...], tuple[Assignment, ...]]:
    """Return an element's input mappings and output mappings."""
    mapping = zeebe_child(element, "ioMapping")
    inputs, outputs = list(_passed(element, "in")), list(_passed(element, "out"))
    for block in camunda_children(element, "inputOutput"):
        for parameter in block:
            target = inputs if local_name(parameter) == "inputParameter" else outputs
            target.append(_camunda_parameter(parameter))
    return _joined(_zeebe_mappings(mapping, "input"), inputs), _joined(_zeebe_mappings(mapping, "output"), outputs)


def _joined(first: Sequence[Assignment], others: Sequence[Assignment]) -> tuple[Assignment, ...]:
    """Append Camunda 7's mappings to Camunda 8's mappings; if both write one variable, use only Camunda 8's mapping."""
    taken = {assignment.target[0] for assignment in first}
    return (*first, *(assignment for assignment in others if assignment.target[0] not in taken))


def _zeebe_mappings(mapping: Element | None, name: str) -> tuple[Assignment, ...]:
    if mapping is None:
        return ()
    return tuple(
        Assignment(_path(required(each, "target")), read_text(_source(each)))
        for each in mapping.findall(f"{{{ZEEBE}}}{name}")
    )


def _source(mapping: Element) -> str:
    """Return a mapping's expression.

    An input without a source sets the variable to null; this hides an outer scope's variable of the same name.
    """
    is_null = local_name(mapping) == "input" and mapping.get("source") is None
    return "=null" if is_null else required(mapping, "source")


def _camunda_parameter(parameter: Element) -> Assignment:
    if len(parameter):
        raise InvalidValue(
            f"{local_name(parameter)} {shortened(parameter.get('name', ''))} contains a script, a list or a map;"
            " write the value in FEEL, after an ="
        )
    name = read_name(required(parameter, "name"), f"{local_name(parameter)}'s name")
    return Assignment((name,), read_text(text_of(parameter) or "=null"))


def _passed(element: Element, name: str) -> list[Assignment]:
    """Read the camunda:in or camunda:out elements of a call activity."""
    passed = []
    for each in camunda_children(element, name):
        variable, expression = each.get("source"), each.get("sourceExpression")
        if variable and expression:
            raise InvalidValue(f"{name} has a source and a sourceExpression; remove one of the two")
        if variable or expression:
            target = (read_name(required(each, "target"), f"{name}'s target"),)
            source = read_variable(variable, f"{name}'s source") if variable else read_text(expression or "")
            passed.append(Assignment(target, source))
        elif each.get("variables") is None:
            raise InvalidValue(f"{name} has no source; add a source, or write variables=all")
    return passed


def required(element: Element, name: str) -> str:
    """Return a required attribute."""
    if value := element.get(name, "").strip():
        return value
    raise InvalidValue(f"{local_name(element)} has no {name}; write one")


def _path(target: str) -> tuple[str, ...]:
    path = tuple(read_name(target, "a mapping's target").split("."))
    if all(path) and len(path) <= PATH_PARTS_MAX:
        return path
    raise InvalidValue(f"{shortened(target)} is not the name of a variable; write a name such as order or order.total")
