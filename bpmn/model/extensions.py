"""Read Camunda's additions to BPMN: assignments, task types, retries, called processes, loops.

A name of Camunda 8 takes precedence over the same name of Camunda 7.

errors:  InvalidValue  a value is invalid, or only an engine in Java can evaluate it
"""

from collections.abc import Callable
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.definition import CallWork, MultiInstance, ScriptWork, ServiceWork, UserWork
from shardclock_server.bpmn.model.expressions import (
    InvalidValue,
    Text,
    optional_name,
    read_expression,
    read_text,
    read_variable,
)
from shardclock_server.bpmn.model.mappings import required
from shardclock_server.bpmn.model.names import bpmn, camunda_attribute, camunda_children, is_true, text_of, zeebe_child
from shardclock_server.bpmn.model.times import moment_of
from shardclock_server.feel import Expression
from shardclock_server.timers.refusal import InvalidTimer, shortened

ITEMS_MAX = 5_000  # The limit of items in one multi-instance activity.
RETRIES_MAX = 1_000
FORM_NAMES = ("formKey", "formId", "externalReference")


def read_service_work(element: Element) -> ServiceWork:
    """Read the task type, retries and headers of a service task, or of another element that a handler executes."""
    headers = _headers(element)
    if (task := zeebe_child(element, "taskDefinition")) is not None:
        if camunda_attribute(element, "resultVariable") is not None:
            raise InvalidValue(
                "the element has a taskDefinition, so a resultVariable has no effect; use an output mapping"
            )
        retries = _optional_number(task.get("retries"), check_retries)
        return ServiceWork(read_text(required(task, "type")), retries=retries, headers=headers)
    source = _external(element)
    if topic := camunda_attribute(source, "topic"):
        return ServiceWork(read_text(topic), headers=headers)
    raise InvalidValue(
        "the task names no handler; set the type of a zeebe:taskDefinition, or the topic of an external task"
    )


def _headers(element: Element) -> tuple[tuple[str, str], ...]:
    written = zeebe_child(element, "taskHeaders")
    headers: dict[str, str] = {}
    for header in () if written is None else written:
        if not header.attrib:
            continue  # Skip an empty header, which a modeler writes for an empty row of a table.
        key = required(header, "key")
        if key in headers:
            raise InvalidValue(f"the header {shortened(key)} occurs twice; keep one")
        headers[key] = header.get("value", "")
    return tuple(headers.items())


def check_retries(written: object) -> int:
    """Read a service task's number of attempts.

    errors:  InvalidValue  it is not a number in range
    """
    return _number_up_to(RETRIES_MAX, "the task's retries are", written)


def _external(element: Element) -> Element:
    """Return the element with Camunda 7's attributes; in an event, this is the message definition."""
    message = element.find(bpmn("messageEventDefinition"))
    return element if message is None else message


def read_user_work(element: Element) -> UserWork:
    """Read a user task's candidates, due date and form."""
    assignment = zeebe_child(element, "assignmentDefinition")
    schedule = zeebe_child(element, "taskSchedule")
    form = zeebe_child(element, "formDefinition")

    def written(zeebe: Element | None, name: str) -> Text | None:
        zeebe_value = zeebe.get(name) if zeebe is not None else None
        return _optional(zeebe_value or camunda_attribute(element, name))

    keys = [form.get(name) for name in FORM_NAMES] if form is not None else []
    if sum(map(bool, keys)) > 1:
        raise InvalidValue(f"the formDefinition has more than one of {', '.join(FORM_NAMES)}; keep one")
    keys += [camunda_attribute(element, name) for name in ("formKey", "formRef")]
    return UserWork(
        assignee=written(assignment, "assignee"),
        candidate_groups=written(assignment, "candidateGroups"),
        candidate_users=written(assignment, "candidateUsers"),
        due_date=_due(written(schedule, "dueDate")),
        form_key=_optional(next((key for key in keys if key), None)),
    )


def _due(written: Text | None) -> Text | None:
    if isinstance(written, str):
        try:
            moment_of(written)
        except InvalidTimer as error:
            raise InvalidValue(f"the task's due date: {error}") from None
    return written


def read_script(element: Element) -> ScriptWork:
    """Read a script; its language must be FEEL."""
    if (headers := zeebe_child(element, "taskHeaders")) is not None and len(headers):
        raise InvalidValue(
            "the engine runs the script itself, so taskHeaders have no effect; remove them, or add a taskDefinition"
        )
    result = camunda_attribute(element, "resultVariable")
    if (script := zeebe_child(element, "script")) is not None:
        result = optional_name(script.get("resultVariable") or result, "resultVariable")
        return ScriptWork(read_expression(required(script, "expression")), result)
    language = element.get("scriptFormat", "")
    if language.lower() != "feel":
        raise InvalidValue(
            f"the script's language is {shortened(language)}; use FEEL, in a zeebe:script or with scriptFormat=feel"
        )
    written = text_of(element.find(bpmn("script")))
    return ScriptWork(read_expression(written), optional_name(result, "resultVariable"))


def read_call(element: Element) -> CallWork:
    """Read the id of the called process and the variables that the call passes."""
    _require_latest(camunda_attribute(element, "calledElementBinding"))
    all_in = is_true(camunda_attribute(element, "inheritVariables")) or _has_all(element, "in")
    all_out = _has_all(element, "out")
    if (called := zeebe_child(element, "calledElement")) is not None:
        _require_latest(called.get("bindingType"))
        return CallWork(
            read_text(required(called, "processId")),
            passes_all_in=_passes_all(called.get("propagateAllParentVariables"), all_in),
            passes_all_out=_passes_all(called.get("propagateAllChildVariables"), all_out),
        )
    if not (process_id := element.get("calledElement")):
        raise InvalidValue("the call activity names no process; set the processId of a zeebe:calledElement")
    return CallWork(read_text(process_id), passes_all_in=all_in, passes_all_out=all_out)


def _has_all(element: Element, name: str) -> bool:
    return any(child.get("variables") == "all" for child in camunda_children(element, name))


def _passes_all(propagates: str | None, is_all: bool) -> bool:
    if propagates is None or is_true(propagates):
        return True
    if is_all:
        raise InvalidValue(
            "zeebe:calledElement passes some variables, and Camunda 7's attributes pass all; remove one of the two"
        )
    return False


def _require_latest(binding: str | None) -> None:
    if binding not in (None, "", "latest"):
        raise InvalidValue(
            f"the binding is {shortened(binding)}, and a call activity always calls the newest version; remove"
            " the binding"
        )


def read_loop(element: Element) -> MultiInstance | None:
    """Read an activity's multi-instance loop; None if the activity is executed once."""
    if element.find(bpmn("standardLoopCharacteristics")) is not None:
        raise InvalidValue("a standard loop is not supported; draw a sequence flow back, or use a multi-instance loop")
    if (loop := element.find(bpmn("multiInstanceLoopCharacteristics"))) is None:
        return None
    extension = zeebe_child(loop, "loopCharacteristics")
    return _loop(loop, extension if extension is not None else Element("loopCharacteristics"))


def _loop(loop: Element, extension: Element) -> MultiInstance:
    completion = loop.find(bpmn("completionCondition"))
    items = _items(loop, extension)
    count = _optional_number(text_of(loop.find(bpmn("loopCardinality"))), check_count)
    item_name = extension.get("inputElement") or camunda_attribute(loop, "elementVariable")
    output_item = extension.get("outputElement", "")
    if bool(output_item) != bool(extension.get("outputCollection")):
        raise InvalidValue("a multi-instance loop has only one of outputCollection and outputElement; set both")
    if item_name and not items:
        raise InvalidValue(
            "a multi-instance loop has an item variable and no collection; set both, or remove the variable"
        )
    if completion is not None and not text_of(completion):
        raise InvalidValue("the completionCondition is empty; write a condition, or remove the element")
    if bool(items) == bool(count):
        raise InvalidValue("a multi-instance loop must have either a collection or a cardinality; it has both, or none")
    return MultiInstance(
        is_sequential=is_true(loop.get("isSequential")),
        items=items,
        count=count,
        item_name=optional_name(item_name, "the item variable of a multi-instance loop"),
        output_name=optional_name(extension.get("outputCollection"), "outputCollection"),
        output_item=read_expression(output_item) if output_item else None,
        completion=None if completion is None else read_expression(text_of(completion)),
    )


def _items(loop: Element, extension: Element) -> Expression | None:
    """Read the collection: in Camunda 8 an expression, in Camunda 7 an expression or the name of a variable."""
    if written := extension.get("inputCollection"):
        return read_expression(written)
    if written := camunda_attribute(loop, "collection"):
        text = read_text(written)
        return read_variable(text, "collection") if isinstance(text, str) else text
    return None


def check_count(written: object) -> int:
    """Read a multi-instance activity's number of executions.

    errors:  InvalidValue  it is not a number in range
    """
    return _number_up_to(ITEMS_MAX, "the cardinality is", written)


def _number_up_to(most: int, subject: str, written: object) -> int:
    try:
        number = int(str(written))
    except ValueError:
        number = -1
    if 0 <= number <= most:
        return number
    raise InvalidValue(f"{subject} {shortened(written)}, not a number from 0 to {most:,}")


def _optional_number(written: str | None, check: Callable[[object], int]) -> Text | None:
    number = _optional(written)
    if isinstance(number, str):
        check(number)
    return number


def _optional(written: str | None) -> Text | None:
    return read_text(written) if written else None
