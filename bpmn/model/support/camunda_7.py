"""The names of Camunda 7 and its forks: the namespaces `camunda`, `operaton`, `activiti` and `flowable`.

source:  camunda/camunda-bpmn-moddle resources/camunda.json; the constants and converters of flowable-bpmn-converter and
         activiti-bpmn-converter
"""

from collections.abc import Mapping

from shardclock_server.bpmn.model.support.camunda_8 import DECISIONS, FLOW_NODES, FORM, PEOPLE, TEMPLATE
from shardclock_server.bpmn.model.support.rules import FALSE, SupportTable, for_names, ignored, only, read, refused

WORKERS = ("serviceTask", "sendTask", "businessRuleTask", "messageEventDefinition")
JAVA = "is Java code, which is not supported; set the type of a zeebe:taskDefinition, or the topic of an external task"
JAVA_OF_CALLS = "is Java code, which is not supported; use camunda:in and camunda:out"
SET = "names a variable that the engine does not set; remove it, and map a variable of the error or of the start"
BACKGROUND = ignored(
    "The name configures background jobs of another engine. A handler's policy sets the number of attempts."
)
HISTORY = ignored(
    "The name configures the history or the process list of another engine. An API key's scope controls the"
    " right to start a process."
)
NEWEST = "names a version, and a call activity always calls the newest version; remove it"
CASES = "names a case, and cases are not supported; call a process"
RESULT = "is not supported; use an output mapping"
REGISTRY = "belongs to an event registry, which is not supported; use a message"
FILE = "names a script file, which is not supported; write the script in FEEL, after an ="
NO_KEY = "is not supported, because called processes have no business key; pass a variable"
CONDITIONS = "belongs to a conditional event, which is not supported; use a message or a signal"
LISTENER = "is not supported, because the engine calls no listeners; use a task or an event"
INSIDE = "is a task type of another engine; set the topic of an external task"

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
    "fallbackToDefaultTenant": (only(*FALSE, reason="is not supported: a call stays within its tenant"),),
    "scope": (only("global", reason="is not supported; use an escalation inside a process"),),
    "calledElementType": (only("key", reason="is not supported; name the process by its id"),),
    "triggerable": (only(*FALSE, reason="is not supported; add a receiveTask after the task"),),
    "autoStoreVariables": (only(*FALSE, reason="is not supported; name the result in camunda:resultVariable"),),
    "useLocalScopeForResultVariable": (only(*FALSE, reason=RESULT),),
    "storeResultVariableAsTransient": (only(*FALSE, reason=RESULT),),
    "useLocalScopeForOutParameters": (only(*FALSE, reason=RESULT),),
    "inheritBusinessKey": (only(*FALSE, reason=NO_KEY),),
    **for_names(
        only(*FALSE, reason="ends other scopes, too, which is not supported; throw an error to the outer scope"),
        "terminateAll", "terminateMultiInstance",
    ),
    **for_names(refused(JAVA), "class", "delegateExpression", "expression", "extensionId"),
    **for_names(refused(JAVA_OF_CALLS), "variableMappingClass", "variableMappingDelegateExpression"),
    "formHandlerClass": (refused("is Java code, which is not supported; remove it"),),
    "resource": (refused(FILE),),
    "skipExpression": (refused("is not supported; put an exclusiveGateway before the element"),),
    **for_names(
        refused(DECISIONS),
        "decisionRef", "decisionRefBinding", "decisionRefVersion", "decisionRefVersionTag", "decisionRefTenantId",
        "mapDecisionResult", "rules", "exclude", "ruleVariablesInput",
    ),
    **for_names(
        refused(CASES),
        "caseRef", "caseBinding", "caseVersion", "caseTenantId", "caseDefinitionKey", "caseInstanceName",
    ),
    **for_names(refused(NEWEST), "calledElementVersion", "calledElementVersionTag"),
    "calledElementTenantId": (refused("is not supported, because a call stays within its tenant; remove it"),),
    **for_names(refused(SET), "initiator", "errorCodeVariable", "errorMessageVariable", "escalationCodeVariable",
           "errorVariableName", "errorVariableTransient", "errorVariableLocalScope"),
    **for_names(
        refused("names a variable that the engine does not set; remove it"),
        "idVariableName", "activeTaskIdVariableName", "taskIdVariableName", "taskCompleterVariableName",
    ),
    "elementIndexVariable": (
        refused("is not supported; read loopCounter, which begins with 0 in ${…} and with 1 in FEEL"),
    ),
    **for_names(refused(RESULT), "resultVariableName"),
    "businessKey": (refused(NO_KEY),),
    "businessCalendarName": (refused("is not supported; write the time in ISO 8601 or FEEL"),),
    **for_names(
        refused("is not supported; write the name of the message or signal as an expression"),
        "messageExpression", "signalExpression",
    ),
    **for_names(refused(CONDITIONS), "variableName", "variableEvents"),
    **for_names(refused("is not supported; write scriptFormat=feel"), "alfrescoScriptType"),
}  # fmt: skip
ELEMENTS: SupportTable = {
    "inputOutput": (read(*FLOW_NODES),),
    **for_names(read("inputOutput"), "inputParameter", "outputParameter"),
    **for_names(read("callActivity"), "in", "out"),
    **for_names(ignored("Only other programs use these elements."), "properties", "property"),
    **for_names(BACKGROUND, "failedJobRetryTimeCycle", "jobCategory"),
    **for_names(HISTORY, "historyLevel", "includeInHistory"),
    **for_names(PEOPLE, "task-candidates-type"),
    **for_names(ignored("The element contains a display name."), "localization", "translation", "element-name"),
    **for_names(
        FORM, "work-form-field-validation", "formData", "formProperty", "formField", "validation", "constraint",
    ),
    "potentialStarter": (HISTORY,),
    **for_names(refused(LISTENER), "executionListener", "taskListener", "eventListener"),
    "connector": (refused("is not supported; set the topic of an external task"),),
    "field": (refused("is an input of Java code; pass the value as an input of an external task"),),
    "errorEventDefinition": (refused("is not supported; throw the error in the handler"),),
    "mapException": (refused("maps exceptions of Java code; throw the error in the handler"),),
    "value": (refused("is the value of a data object, which is not supported; pass a variable at the start"),),
    "customResource": (refused("is not supported; use camunda:candidateGroups"),),
    **for_names(refused("is Java code; use an external task"), "httpRequestHandler", "httpResponseHandler"),
    **for_names(
        refused(REGISTRY),
        "eventType", "triggerEventType", "sendSynchronously", "eventInParameter", "eventOutParameter",
        "eventCorrelationParameter", "triggerEventCorrelationParameter", "startEventCorrelationConfiguration",
        "channelKey", "triggerChannelKey", "eventName", "triggerEventName", "keyDetectionType", "keyDetectionValue",
    ),
    **for_names(refused("is not allowed in this element"), "script", "list", "map", "entry"),
    "collection": (refused("is computed by another engine; name the list in camunda:collection"),),
    "variableAggregation": (refused("is not supported; set the outputCollection of a zeebe:loopCharacteristics"),),
}  # fmt: skip
NOT_PASSED = "is not supported; name the variable to pass"
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
