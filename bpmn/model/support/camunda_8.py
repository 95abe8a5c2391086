"""The names of Camunda 8, in the namespace `zeebe`.

source:  camunda/zeebe-bpmn-moddle resources/zeebe.json; the XML Schema of camunda/camunda's zeebe-bpmn-model
"""

from collections.abc import Mapping

from shardclock_server.bpmn.model.support.rules import YES_OR_NO, SupportTable, for_names, ignored, read, refused

JOBS = ("serviceTask", "sendTask", "businessRuleTask", "scriptTask", "intermediateThrowEvent", "endEvent")
FLOW_NODES = (
    *JOBS, "task", "manualTask", "userTask", "receiveTask", "subProcess", "callActivity", "startEvent",
    "intermediateCatchEvent", "boundaryEvent", "exclusiveGateway", "inclusiveGateway", "parallelGateway",
    "eventBasedGateway",
)  # fmt: skip
DECISIONS = (
    "belongs to a decision, which is not supported; evaluate the decision in a handler, and set the type"
    " of a zeebe:taskDefinition"
)
LISTENERS = "is not supported, because the engine calls no listeners; use a task or an event"
TEMPLATE = ignored("A modeler's template wrote the element.")
FORM = ignored("Only the program that shows the form uses it.")
PEOPLE = ignored("Only the program that shows the list of tasks uses it.")

ATTRIBUTES: SupportTable = {
    **for_names(
        TEMPLATE,
        "modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon", "modelerConfigurationTemplate",
        "modelerConfigurationName",
    ),
    "retryCounter": (ignored("The attribute has no effect."),),
}  # fmt: skip
ELEMENTS: SupportTable = {
    "taskDefinition": (read(*JOBS),),
    "taskHeaders": (read(*JOBS), ignored("Only the program that shows the task uses these headers.", "userTask")),
    "header": (read("taskHeaders"),),
    "ioMapping": (read(*FLOW_NODES),),
    **for_names(read("ioMapping"), "input", "output"),
    "subscription": (read("message"),),
    "loopCharacteristics": (read("multiInstanceLoopCharacteristics"),),
    "calledElement": (read("callActivity"),),
    "script": (read("scriptTask"),),
    "assignmentDefinition": (read("userTask"),),
    "taskSchedule": (read("userTask"),),
    "formDefinition": (read("userTask"), FORM._replace(hosts=frozenset({"startEvent"}))),
    "userTaskForm": (FORM,),
    "priorityDefinition": (PEOPLE,),
    "userTask": (ignored("The engine manages all user tasks, also without this element."),),
    "jobPriorityDefinition": (ignored("Jobs have no priorities; they run in the order of their creation."),),
    "versionTag": (ignored("The tag is a display name. A call activity calls the newest version."),),
    **for_names(ignored("Only other programs use these elements."), "properties", "property"),
    "calledDecision": (refused(DECISIONS),),
    **for_names(refused(LISTENERS), "executionListeners", "executionListener", "taskListeners", "taskListener"),
    **for_names(
        refused("is not supported; write the worker's settings in a header"), "linkedResources", "linkedResource"
    ),
    "publishMessage": (
        refused("is not supported; set the type of a zeebe:taskDefinition, and publish the message in the handler"),
    ),
    "adHoc": (refused("belongs to an ad-hoc sub-process, which is not supported; draw the flows"),),
    "conditionalFilter": (
        refused("belongs to a conditional event, which is not supported; use a message or a signal"),
    ),
    "agentDefinition": (refused("is not supported; set the type of a zeebe:taskDefinition"),),
}
OWN: Mapping[str, SupportTable] = {
    "taskDefinition": for_names(read(), "type", "retries"),
    "header": for_names(read(), "key", "value") | for_names(ignored("No element refers to this id."), "id"),
    "input": for_names(read(), "source", "target"),
    "output": for_names(read(), "source", "target"),
    "subscription": for_names(read(), "correlationKey"),
    "loopCharacteristics": for_names(read(), "inputCollection", "inputElement", "outputCollection", "outputElement"),
    "calledElement": {
        **for_names(read(), "processId", "bindingType"),
        **for_names(YES_OR_NO, "propagateAllParentVariables", "propagateAllChildVariables"),
        "versionTag": (ignored("Only a bindingType that is refused would use the tag."),),
        "processIdExpression": (refused("is an old attribute; write the expression in processId, after an ="),),
        "businessId": (refused("is not supported for called processes; pass a variable"),),
    },
    "script": for_names(read(), "expression", "resultVariable"),
    "assignmentDefinition": for_names(read(), "assignee", "candidateGroups", "candidateUsers"),
    "taskSchedule": for_names(read(), "dueDate") | for_names(PEOPLE, "followUpDate"),
    "formDefinition": {
        **for_names(read(), "formKey", "formId", "externalReference"),
        **for_names(FORM, "bindingType", "versionTag"),
    },
}
# Elements that are refused if they are not empty.
EMPTY = frozenset({"executionListeners", "taskListeners", "linkedResources"})
# An element may have only one child with each of these names, because the reader reads only the first child.
SINGLE = frozenset(OWN) - {"input", "output", "header"} | {"taskHeaders", "ioMapping"}
