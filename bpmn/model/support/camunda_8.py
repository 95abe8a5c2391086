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
    "a decision, and decisions aren't evaluated here; evaluate it in a handler, and name a zeebe:taskDefinition's type"
)
LISTENERS = "which aren't called here; use a task or an event instead"
TEMPLATE = ignored("A modeler's template wrote the element.")
FORM = ignored("A form is the affair of the program that shows it.")
PEOPLE = ignored("It orders lists of tasks for people, which the program that shows them does.")

ATTRIBUTES: SupportTable = {
    **for_names(
        TEMPLATE,
        "modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon", "modelerConfigurationTemplate",
        "modelerConfigurationName",
    ),
    "retryCounter": (ignored("No engine reads it."),),
}  # fmt: skip
ELEMENTS: SupportTable = {
    "taskDefinition": (read(*JOBS),),
    "taskHeaders": (read(*JOBS), ignored("They are for the program that shows the task.", "userTask")),
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
    "userTask": (ignored("Each user task is one of the engine's own."),),
    "jobPriorityDefinition": (ignored("Jobs go in the order in which they begin."),),
    "versionTag": (ignored("It names a version for people. A call is of the newest one."),),
    **for_names(ignored("They are for other programs."), "properties", "property"),
    "calledDecision": (refused(DECISIONS),),
    **for_names(refused(LISTENERS), "executionListeners", "executionListener", "taskListeners", "taskListener"),
    **for_names(
        refused("which aren't found here; write the worker's settings in a header"), "linkedResources", "linkedResource"
    ),
    "publishMessage": (
        refused("which isn't done here; name a zeebe:taskDefinition's type, and publish it in the handler"),
    ),
    "adHoc": (refused("and ad-hoc sub-processes aren't run here; draw the flows"),),
    "conditionalFilter": (refused("and conditions aren't waited for here; use a message or a signal"),),
    "agentDefinition": (refused("and no agent is asked here; name a zeebe:taskDefinition's type"),),
}
OWN: Mapping[str, SupportTable] = {
    "taskDefinition": for_names(read(), "type", "retries"),
    "header": for_names(read(), "key", "value") | for_names(ignored("Nothing refers to it."), "id"),
    "input": for_names(read(), "source", "target"),
    "output": for_names(read(), "source", "target"),
    "subscription": for_names(read(), "correlationKey"),
    "loopCharacteristics": for_names(read(), "inputCollection", "inputElement", "outputCollection", "outputElement"),
    "calledElement": {
        **for_names(read(), "processId", "bindingType"),
        **for_names(YES_OR_NO, "propagateAllParentVariables", "propagateAllChildVariables"),
        "versionTag": (ignored("It is only read with a bindingType that is refused."),),
        "processIdExpression": (refused("is the old name of an expression; write it as processId, after an ="),),
        "businessId": (refused("isn't given to called processes here; pass it as a variable"),),
    },
    "script": for_names(read(), "expression", "resultVariable"),
    "assignmentDefinition": for_names(read(), "assignee", "candidateGroups", "candidateUsers"),
    "taskSchedule": for_names(read(), "dueDate") | for_names(PEOPLE, "followUpDate"),
    "formDefinition": {
        **for_names(read(), "formKey", "formId", "externalReference"),
        **for_names(FORM, "bindingType", "versionTag"),
    },
}
# Refused elements that are accepted if they are empty.
EMPTY = frozenset({"executionListeners", "taskListeners", "linkedResources"})
# Child elements of which an element may have only one, because the reader reads only one.
SINGLE = frozenset(OWN) - {"input", "output", "header"} | {"taskHeaders", "ioMapping"}
