"""Read what Camunda 8 and Camunda 7 add to BPMN: who does a task, with which variables, how often.

Camunda 8's extensions come first; where an element has none, Camunda 7's are read.

errors:  Unreadable  what is written can't be read, or only an engine in Java can run it
"""

from xml.etree.ElementTree import Element

from bpmn.model.definition import Assignment, Call, Loop, Script, ServiceWork, UserWork
from bpmn.model.expressions import Text, Unreadable, read_expression, read_text
from bpmn.model.names import (
    ZEEBE,
    bpmn,
    camunda_attribute,
    camunda_children,
    is_true,
    local_name,
    text_of,
    zeebe_child,
)
from timers.refusal import shortened

PATH_PARTS_MAX = 20
RETRIES_MAX = 1_000


def read_service_work(element: Element) -> ServiceWork:
    """Read who does a service task, or what is like one."""
    headers = zeebe_child(element, "taskHeaders")
    if (task := zeebe_child(element, "taskDefinition")) is not None:
        return ServiceWork(
            read_text(_required(task, "type")),
            retries=_retries(task.get("retries")),
            headers=tuple((header.get("key", ""), header.get("value", "")) for header in (headers or ())),
        )
    source = _external(element)
    if topic := camunda_attribute(source, "topic"):
        return ServiceWork(read_text(topic))
    raise Unreadable("nothing says who does it; name a zeebe:taskDefinition's type or an external task's topic")


def _retries(written: str | None) -> Text | None:
    retries = _optional(written)
    if isinstance(retries, str):
        check_retries(retries)
    return retries


def check_retries(written: object) -> int:
    """Read how many attempts a service task has.

    errors:  Unreadable  it is no such number
    """
    try:
        number = int(str(written))
    except ValueError:
        number = -1
    if 0 <= number <= RETRIES_MAX:
        return number
    raise Unreadable(f"the task's retries are {shortened(written)}, not a number from 0 to {RETRIES_MAX:,}")


def _external(element: Element) -> Element:
    """Find the element that has Camunda 7's attributes: an event's stand at its message."""
    message = element.find(bpmn("messageEventDefinition"))
    return element if message is None else message


def read_user_work(element: Element) -> UserWork:
    """Read who may do a user task, and until when."""
    assignment = zeebe_child(element, "assignmentDefinition")
    schedule = zeebe_child(element, "taskSchedule")
    form = zeebe_child(element, "formDefinition")

    def written(zeebe: Element | None, name: str) -> Text | None:
        return _optional(camunda_attribute(element, name) if zeebe is None else zeebe.get(name))

    if form is None:
        keys = [camunda_attribute(element, name) for name in ("formKey", "formRef")]
    else:
        keys = [form.get(name) for name in ("formKey", "formId", "externalReference")]
    return UserWork(
        assignee=written(assignment, "assignee"),
        candidate_groups=written(assignment, "candidateGroups"),
        candidate_users=written(assignment, "candidateUsers"),
        due_date=written(schedule, "dueDate"),
        form_key=next((key for key in keys if key), None),
    )


def read_script(element: Element) -> Script:
    """Read a script, which must be FEEL."""
    if (script := zeebe_child(element, "script")) is not None:
        return Script(read_expression(_required(script, "expression")), script.get("resultVariable"))
    language = element.get("scriptFormat", "")
    if language.lower() != "feel":
        raise Unreadable(
            f"its language is {shortened(language)}; write it in FEEL, as a zeebe:script or with scriptFormat=feel"
        )
    written = text_of(element.find(bpmn("script")))
    return Script(read_expression(written), camunda_attribute(element, "resultVariable"))


def read_call(element: Element) -> Call:
    """Read which process is called, and which variables pass."""
    if (called := zeebe_child(element, "calledElement")) is not None:
        _require_latest(called.get("bindingType"))
        return Call(
            read_text(_required(called, "processId")),
            passes_all_in=is_true(called.get("propagateAllParentVariables", "true")),
            passes_all_out=is_true(called.get("propagateAllChildVariables", "true")),
        )
    if not (process_id := element.get("calledElement")):
        raise Unreadable("nothing says which process is called; name a zeebe:calledElement's processId")
    _require_latest(camunda_attribute(element, "calledElementBinding"))
    return Call(
        read_text(process_id),
        passes_all_in=is_true(camunda_attribute(element, "inheritVariables"))
        or any(child.get("variables") == "all" for child in camunda_children(element, "in")),
        passes_all_out=any(child.get("variables") == "all" for child in camunda_children(element, "out")),
    )


def _require_latest(binding: str | None) -> None:
    if binding not in (None, "", "latest"):
        raise Unreadable(
            f"it calls by {shortened(binding)}; here a call is of the newest version: leave the binding out"
        )


def read_mappings(element: Element) -> tuple[tuple[Assignment, ...], tuple[Assignment, ...]]:
    """Read which variables go in and out.

    shape:   the inputs, and the outputs
    """
    if (mapping := zeebe_child(element, "ioMapping")) is not None:
        return _zeebe_mappings(mapping, "input"), _zeebe_mappings(mapping, "output")
    inputs, outputs = list(_passed(element, "in")), list(_passed(element, "out"))
    for block in camunda_children(element, "inputOutput"):
        for parameter in block:
            target = inputs if local_name(parameter) == "inputParameter" else outputs
            target.append(_camunda_parameter(parameter))
    return tuple(inputs), tuple(outputs)


def _zeebe_mappings(mapping: Element, name: str) -> tuple[Assignment, ...]:
    return tuple(
        Assignment(_path(_required(each, "target")), read_text(_source(each)))
        for each in mapping.findall(f"{{{ZEEBE}}}{name}")
    )


def _source(mapping: Element) -> str:
    """Find what a mapping evaluates. An input without a source is null, so that the task doesn't see what is around."""
    is_null = local_name(mapping) == "input" and mapping.get("source") is None
    return "=null" if is_null else _required(mapping, "source")


def _camunda_parameter(parameter: Element) -> Assignment:
    if len(parameter):
        raise Unreadable(
            f"{local_name(parameter)} {shortened(parameter.get('name', ''))} holds a script, a list or a map;"
            " write its value in FEEL, after an ="
        )
    return Assignment((_required(parameter, "name"),), read_text(text_of(parameter)))


def _passed(element: Element, name: str) -> list[Assignment]:
    """Read camunda:in and camunda:out of a call activity."""
    passed = []
    for each in camunda_children(element, name):
        source = each.get("sourceExpression") or (f"={each.get('source')}" if each.get("source") else "")
        if not source and each.get("variables") is None:
            raise Unreadable(f"{name} has no source; write one, or variables=all")
        if source:
            passed.append(Assignment((_required(each, "target"),), read_text(source)))
    return passed


def read_loop(element: Element) -> Loop | None:
    """Read how often an activity is executed; None: once."""
    if element.find(bpmn("standardLoopCharacteristics")) is not None:
        raise Unreadable("it has a standard loop; write a sequence flow back, or a multi-instance over a list")
    if (loop := element.find(bpmn("multiInstanceLoopCharacteristics"))) is None:
        return None
    extension = zeebe_child(loop, "loopCharacteristics")
    return _loop(loop, extension if extension is not None else _camunda_loop(loop))


def _camunda_loop(loop: Element) -> Element:
    """Write Camunda 7's attributes of a loop as Camunda 8 would."""
    collection = camunda_attribute(loop, "collection")
    element = Element("loopCharacteristics")
    if collection:
        element.set("inputCollection", collection)
    if name := camunda_attribute(loop, "elementVariable"):
        element.set("inputElement", name)
    return element


def _loop(loop: Element, extension: Element) -> Loop:
    completion = loop.find(bpmn("completionCondition"))
    count = text_of(loop.find(bpmn("loopCardinality")))
    items = extension.get("inputCollection", "")
    output_item = extension.get("outputElement", "")
    if bool(output_item) != bool(extension.get("outputCollection")):
        raise Unreadable("a multi-instance has an outputCollection and an outputElement, or neither; write both")
    if extension.get("inputElement") and not items:
        raise Unreadable("a multi-instance has a variable of its items and no collection; write both, or neither")
    if completion is not None and not text_of(completion):
        raise Unreadable("its completionCondition is empty; write one, or leave it out")
    if bool(items) == bool(count):
        raise Unreadable("a multi-instance needs either a collection or a cardinality; it has both, or neither")
    return Loop(
        is_sequential=is_true(loop.get("isSequential")),
        items=read_expression(items) if items else None,
        count=read_text(count) if count else None,
        item_name=extension.get("inputElement"),
        output_name=extension.get("outputCollection"),
        output_item=read_expression(output_item) if output_item else None,
        completion=None if completion is None else read_expression(text_of(completion)),
    )


def _required(element: Element, name: str) -> str:
    if value := element.get(name, "").strip():
        return value
    raise Unreadable(f"{local_name(element)} has no {name}; write one")


def _optional(written: str | None) -> Text | None:
    return read_text(written) if written else None


def _path(target: str) -> tuple[str, ...]:
    path = tuple(target.split("."))
    if all(path) and len(path) <= PATH_PARTS_MAX:
        return path
    raise Unreadable(f"{shortened(target)} is not the name of a variable; write one such as order or order.total")
