"""Hold the words of Camunda 8, in the namespace `zeebe`.

source:  camunda/zeebe-bpmn-moddle resources/zeebe.json; the XML Schema of camunda/camunda's zeebe-bpmn-model
"""

from collections.abc import Mapping

from shardclock_server.bpmn.model.words.verdicts import YES_OR_NO, Words, each, harmless, read, refused

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
TEMPLATE = harmless("A modeler's template wrote the element.")
FORM = harmless("A form is the affair of the program that shows it.")
PEOPLE = harmless("It orders lists of tasks for people, which the program that shows them does.")

ATTRIBUTES: Words = {
    **each(
        TEMPLATE,
        "modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon", "modelerConfigurationTemplate",
        "modelerConfigurationName",
    ),
    "retryCounter": (harmless("No engine reads it."),),
}  # fmt: skip
ELEMENTS: Words = {
    "taskDefinition": (read(*JOBS),),
    "taskHeaders": (read(*JOBS), harmless("They are for the program that shows the task.", "userTask")),
    "header": (read("taskHeaders"),),
    "ioMapping": (read(*FLOW_NODES),),
    **each(read("ioMapping"), "input", "output"),
    "subscription": (read("message"),),
    "loopCharacteristics": (read("multiInstanceLoopCharacteristics"),),
    "calledElement": (read("callActivity"),),
    "script": (read("scriptTask"),),
    "assignmentDefinition": (read("userTask"),),
    "taskSchedule": (read("userTask"),),
    "formDefinition": (read("userTask"), FORM._replace(hosts=frozenset({"startEvent"}))),
    "userTaskForm": (FORM,),
    "priorityDefinition": (PEOPLE,),
    "userTask": (harmless("Each user task is one of the engine's own."),),
    "jobPriorityDefinition": (harmless("Jobs go in the order in which they begin."),),
    "versionTag": (harmless("It names a version for people. A call is of the newest one."),),
    **each(harmless("They are for other programs."), "properties", "property"),
    "calledDecision": (refused(DECISIONS),),
    **each(refused(LISTENERS), "executionListeners", "executionListener", "taskListeners", "taskListener"),
    **each(
        refused("which aren't found here; write the worker's settings in a header"), "linkedResources", "linkedResource"
    ),
    "publishMessage": (
        refused("which isn't done here; name a zeebe:taskDefinition's type, and publish it in the handler"),
    ),
    "adHoc": (refused("and ad-hoc sub-processes aren't run here; draw the flows"),),
    "conditionalFilter": (refused("and conditions aren't waited for here; use a message or a signal"),),
    "agentDefinition": (refused("and no agent is asked here; name a zeebe:taskDefinition's type"),),
}
OWN: Mapping[str, Words] = {
    "taskDefinition": each(read(), "type", "retries"),
    "header": each(read(), "key", "value") | each(harmless("Nothing refers to it."), "id"),
    "input": each(read(), "source", "target"),
    "output": each(read(), "source", "target"),
    "subscription": each(read(), "correlationKey"),
    "loopCharacteristics": each(read(), "inputCollection", "inputElement", "outputCollection", "outputElement"),
    "calledElement": {
        **each(read(), "processId", "bindingType"),
        **each(YES_OR_NO, "propagateAllParentVariables", "propagateAllChildVariables"),
        "versionTag": (harmless("It is only read with a bindingType that is refused."),),
        "processIdExpression": (refused("is the old name of an expression; write it as processId, after an ="),),
        "businessId": (refused("isn't given to called processes here; pass it as a variable"),),
    },
    "script": each(read(), "expression", "resultVariable"),
    "assignmentDefinition": each(read(), "assignee", "candidateGroups", "candidateUsers"),
    "taskSchedule": each(read(), "dueDate") | each(PEOPLE, "followUpDate"),
    "formDefinition": {
        **each(read(), "formKey", "formId", "externalReference"),
        **each(FORM, "bindingType", "versionTag"),
    },
}
# Refused elements that say nothing if nothing is in them.
EMPTY = frozenset({"executionListeners", "taskListeners", "linkedResources"})
# Elements that are read once for each host.
SINGLE = frozenset(OWN) - {"input", "output", "header"} | {"taskHeaders", "ioMapping"}
