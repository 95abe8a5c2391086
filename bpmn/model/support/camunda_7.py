"""The names of Camunda 7 and its forks: the namespaces `camunda`, `operaton`, `activiti` and `flowable`.

source:  camunda/camunda-bpmn-moddle resources/camunda.json; the constants and converters of flowable-bpmn-converter and
         activiti-bpmn-converter
"""

from collections.abc import Mapping

from shardclock_server.bpmn.model.support.camunda_8 import DECISIONS, FLOW_NODES, FORM, PEOPLE, TEMPLATE
from shardclock_server.bpmn.model.support.rules import FALSE, SupportTable, for_names, ignored, only, read, refused

WORKERS = ("serviceTask", "sendTask", "businessRuleTask", "messageEventDefinition")
JAVA = "is Java, which isn't run here; name a zeebe:taskDefinition's type or an external task's topic"
JAVA_OF_CALLS = "is Java, which isn't run here; write camunda:in and camunda:out"
SET = "names a variable that isn't set here; leave it out, and map a variable of the error or the start instead"
BACKGROUND = ignored("It steers background jobs. A handler's policy says how often a task is tried.")
HISTORY = ignored(
    "It steers the history, the list of processes, or its readers. An API key's scope decides about starts."
)
NEWEST = "names a version, and a call is of the newest version here; leave it out"
CASES = "is a case, and cases aren't run here; call a process"
RESULT = "isn't set here; write an output mapping"
REGISTRY = "which is of an event registry that isn't here; use a message"
FILE = "is a script of a file, which isn't read here; write it in FEEL, after an ="
NO_KEY = "isn't done here: called processes have no business key; pass a variable"
CONDITIONS = "and conditions aren't waited for here; use a message or a signal"
LISTENER = "which isn't called here; use a task or an event instead"
INSIDE = "is work that another engine does itself; name an external task's topic"

ATTRIBUTES: SupportTable = {
    "topic": (read(*WORKERS),),
    "type": (only("external", "external-worker", reason=INSIDE, hosts=WORKERS),),
    **for_names(read("userTask"), "assignee", "candidateGroups", "candidateUsers", "dueDate"),
    "formKey": (read("userTask"), FORM),
    "formRef": (read("userTask"), FORM),
    "resultVariable": (read("scriptTask"), refused(RESULT)),
    "calledElementBinding": (read("callActivity"),),
    "inheritVariables": (read("callActivity"),),
    **for_names(read("multiInstanceLoopCharacteristics"), "collection", "elementVariable"),
    "endDate": (read("timeCycle"),),
    **for_names(
        BACKGROUND,
        "async", "asyncBefore", "asyncAfter", "asyncLeave", "exclusive", "jobPriority", "taskPriority", "jobCategory",
        "parallelInSameTransaction", "completeAsync", "failedJobRetryTimeCycle", "asyncLeaveExclusive",
        "noWaitStatesAsyncLeave",
    ),
    **for_names(
        HISTORY,
        "historyTimeToLive", "versionTag", "isStartableInTasklist", "candidateStarterGroups", "candidateStarterUsers",
        "isEagerExecutionFetching", "processInstanceName", "diagramRelationId", "errorMessage", "category",
        "includeInHistory",
    ),
    **for_names(TEMPLATE, "modelerTemplate", "modelerTemplateVersion"),
    **for_names(PEOPLE, "followUpDate", "priority", "owner"),
    **for_names(
        FORM, "formRefBinding", "formRefVersion", "formFieldValidation", "validateFormFields", "sameDeploymentForm",
    ),
    "sameDeployment": (only(*FALSE, reason=NEWEST),),
    "fallbackToDefaultTenant": (only(*FALSE, reason="isn't done here: a call stays within its tenant; leave it out"),),
    "scope": (only("global", reason="isn't done here: a signal goes to all processes; use an escalation within one"),),
    "calledElementType": (only("key", reason="isn't done here: a process is called by its id; leave it out"),),
    "triggerable": (only(*FALSE, reason="waits after the work, which isn't done here; use a receiveTask after it"),),
    "autoStoreVariables": (only(*FALSE, reason="isn't done here; name the one result in camunda:resultVariable"),),
    "useLocalScopeForResultVariable": (only(*FALSE, reason=RESULT),),
    "storeResultVariableAsTransient": (only(*FALSE, reason=RESULT),),
    "useLocalScopeForOutParameters": (only(*FALSE, reason=RESULT),),
    "inheritBusinessKey": (only(*FALSE, reason=NO_KEY),),
    **for_names(
        only(*FALSE, reason="ends more than its scope, which isn't done here; throw an error to the outer scope"),
        "terminateAll", "terminateMultiInstance",
    ),
    **for_names(refused(JAVA), "class", "delegateExpression", "expression", "extensionId"),
    **for_names(refused(JAVA_OF_CALLS), "variableMappingClass", "variableMappingDelegateExpression"),
    "formHandlerClass": (refused("is Java, which isn't run here; leave it out"),),
    "resource": (refused(FILE),),
    "skipExpression": (refused("isn't evaluated here; put an exclusiveGateway before the element"),),
    **for_names(
        refused(f"is of {DECISIONS}"),
        "decisionRef", "decisionRefBinding", "decisionRefVersion", "decisionRefVersionTag", "decisionRefTenantId",
        "mapDecisionResult", "rules", "exclude", "ruleVariablesInput",
    ),
    **for_names(
        refused(CASES),
        "caseRef", "caseBinding", "caseVersion", "caseTenantId", "caseDefinitionKey", "caseInstanceName",
    ),
    **for_names(refused(NEWEST), "calledElementVersion", "calledElementVersionTag"),
    "calledElementTenantId": (refused("isn't done here: a call stays within its tenant; leave it out"),),
    **for_names(refused(SET), "initiator", "errorCodeVariable", "errorMessageVariable", "escalationCodeVariable",
           "errorVariableName", "errorVariableTransient", "errorVariableLocalScope"),
    **for_names(
        refused("names a variable that isn't set here; leave it out"),
        "idVariableName", "activeTaskIdVariableName", "taskIdVariableName", "taskCompleterVariableName",
    ),
    "elementIndexVariable": (
        refused("isn't set here; read loopCounter, which begins with 0 in ${…} and with 1 in FEEL"),
    ),
    **for_names(refused(RESULT), "resultVariableName"),
    "businessKey": (refused(NO_KEY),),
    "businessCalendarName": (refused("names a calendar that isn't here; write the time in ISO 8601 or FEEL"),),
    **for_names(
        refused("isn't read here; write the name of the message or signal as an expression"),
        "messageExpression", "signalExpression",
    ),
    **for_names(refused(CONDITIONS), "variableName", "variableEvents"),
    **for_names(refused("isn't read here; write scriptFormat=feel"), "alfrescoScriptType"),
}  # fmt: skip
ELEMENTS: SupportTable = {
    "inputOutput": (read(*FLOW_NODES),),
    **for_names(read("inputOutput"), "inputParameter", "outputParameter"),
    **for_names(read("callActivity"), "in", "out"),
    **for_names(ignored("They are for other programs."), "properties", "property"),
    **for_names(BACKGROUND, "failedJobRetryTimeCycle", "jobCategory"),
    **for_names(HISTORY, "historyLevel", "includeInHistory"),
    **for_names(PEOPLE, "task-candidates-type"),
    **for_names(ignored("It is a name for people."), "localization", "translation", "element-name"),
    **for_names(
        FORM, "work-form-field-validation", "formData", "formProperty", "formField", "validation", "constraint",
    ),
    "potentialStarter": (HISTORY,),
    **for_names(refused(LISTENER), "executionListener", "taskListener", "eventListener"),
    "connector": (refused("and connectors aren't run here; name an external task's topic"),),
    "field": (refused("which is handed to Java; pass it as an input of an external task"),),
    "errorEventDefinition": (refused("which isn't evaluated here; throw the error in the handler"),),
    "mapException": (refused("which maps errors of Java; throw the error in the handler"),),
    "value": (refused("a data object's value, which isn't set here; pass it as a variable of the start"),),
    "customResource": (refused("which isn't read here; write people as camunda:candidateGroups"),),
    **for_names(refused("which is Java; name an external task's topic"), "httpRequestHandler", "httpResponseHandler"),
    **for_names(
        refused(REGISTRY),
        "eventType", "triggerEventType", "sendSynchronously", "eventInParameter", "eventOutParameter",
        "eventCorrelationParameter", "triggerEventCorrelationParameter", "startEventCorrelationConfiguration",
        "channelKey", "triggerChannelKey", "eventName", "triggerEventName", "keyDetectionType", "keyDetectionValue",
    ),
    **for_names(refused("which is no part of this element"), "script", "list", "map", "entry"),
    "collection": (refused("which is computed by another engine; name the list in camunda:collection"),),
    "variableAggregation": (refused("which isn't done here; name an outputCollection in a zeebe:loopCharacteristics"),),
}  # fmt: skip
NOT_PASSED = "isn't done here; name the variable that is to be passed"
PASSED: SupportTable = {
    **for_names(read(), "source", "sourceExpression", "target"),
    "variables": (only("all", reason=NOT_PASSED),),
    "local": (only(*FALSE, reason=NOT_PASSED),),
    "transient": (only(*FALSE, reason=NOT_PASSED),),
    "targetExpression": (refused(NOT_PASSED),),
    "businessKey": (refused(NO_KEY),),
}
EMPTY: frozenset[str] = frozenset()
OWN: Mapping[str, SupportTable] = {
    "inputOutput": {},
    "inputParameter": for_names(read(), "name"),
    "outputParameter": for_names(read(), "name"),
    "in": PASSED,
    "out": PASSED,
}
