"""Hold the words of BPMN 2.0.2 itself.

source:  the XML Schema of BPMN 2.0.2 (OMG dtc/2010-05-15), Semantic.xsd
"""

from shardclock_server.bpmn.model.words.verdicts import FALSE, YES_OR_NO, Words, each, harmless, only, read, refused

TOLD_ELSEWHERE = "isn't run here; docs/bpmn.md says what is"
MAPPING = "isn't done here; write it in FEEL, as a zeebe:ioMapping"
PEOPLE = (
    "isn't read here; write people as a zeebe:assignmentDefinition, or as camunda:assignee and camunda:candidateGroups"
)
LIST = "isn't read here; name the list in a zeebe:loopCharacteristics' inputCollection, or in camunda:collection"
DRAWN = harmless("It is part of the drawing, or names participants.")
DATA = harmless("It declares data. Variables have no types here, and an activity waits for no data.")
SERVICE = harmless("It describes an interface. The task's type or topic names the handler.")
NOTE = harmless("It is for people.")
KEYS = harmless("Correlation goes by a message's zeebe:subscription. A correlationSubscription is refused.")
ELSEWHERE = harmless("It is no part of a process that runs.")
UNUSED = harmless("A process refers to it by an eventDefinitionRef, which is refused.", "definitions")
TIMES = ("timeDate", "timeDuration", "timeCycle")

SCOPES = ("process", "subProcess")
EVENTS = ("startEvent", "endEvent", "intermediateCatchEvent", "intermediateThrowEvent", "boundaryEvent")
NODES = frozenset({
    *EVENTS, "subProcess", "callActivity", "task", "serviceTask", "sendTask", "businessRuleTask", "userTask",
    "receiveTask", "scriptTask", "manualTask", "exclusiveGateway", "inclusiveGateway", "parallelGateway",
    "eventBasedGateway",
})  # fmt: skip
DEFINITIONS = frozenset({
    "timerEventDefinition", "messageEventDefinition", "signalEventDefinition", "errorEventDefinition",
    "escalationEventDefinition", "terminateEventDefinition",
})  # fmt: skip

ELEMENTS: Words = {
    **each(read("definitions"), "process", "message", "signal", "error", "escalation"),
    **each(read(*SCOPES), *sorted(NODES), "sequenceFlow"),
    "definitions": (read(""),),  # the root, which no element holds
    **dict.fromkeys(sorted(DEFINITIONS), (read(*EVENTS), UNUSED)),
    "conditionExpression": (read("sequenceFlow"),),
    **each(read("multiInstanceLoopCharacteristics"), "completionCondition", "loopCardinality"),
    "script": (read("scriptTask"), ELSEWHERE._replace(hosts=frozenset({"globalScriptTask"}))),
    **each(read("timerEventDefinition"), "timeDate", "timeDuration", "timeCycle"),
    "multiInstanceLoopCharacteristics": (read(*NODES),),
    "extensionElements": (read(),),
    # The reader refuses these with sentences of its own.
    **each(
        refused(TOLD_ELSEWHERE, *SCOPES),
        "transaction", "adHocSubProcess", "complexGateway", "callChoreography", "choreographyTask",
    ),
    **each(refused(TOLD_ELSEWHERE, *NODES), "standardLoopCharacteristics"),
    **dict.fromkeys(
        (
        "conditionalEventDefinition", "linkEventDefinition", "cancelEventDefinition", "compensateEventDefinition",
        "eventDefinitionRef",
        ),
        (refused(TOLD_ELSEWHERE, *EVENTS), UNUSED),
    ),
    **each(refused(TOLD_ELSEWHERE, "complexGateway"), "activationCondition"),
    **each(refused(TOLD_ELSEWHERE, "conditionalEventDefinition"), "condition"),
    **each(refused(TOLD_ELSEWHERE, "standardLoopCharacteristics"), "loopCondition"),
    "subChoreography": (refused("isn't run here; docs/bpmn.md says what is", "choreography"),),
    **each(refused(MAPPING), "assignment", "transformation", "from", "to"),
    **each(refused(LIST), "loopDataInputRef", "loopDataOutputRef", "inputDataItem", "outputDataItem"),
    **each(
        refused(PEOPLE),
        "potentialOwner", "humanPerformer", "performer", "resourceRole", "resourceAssignmentExpression",
        "formalExpression", "resourceRef", "resourceParameterBinding",
    ),
    "complexBehaviorDefinition": (refused("isn't run here; throw the event in the activity itself"),),
    **each(
        refused("isn't read here; write a zeebe:subscription at the message"),
        "correlationSubscription", "correlationPropertyBinding",
    ),
    **each(
        NOTE,
        "documentation", "text", "textAnnotation", "category", "categoryValue", "categoryValueRef", "auditing",
        "monitoring",
    ),
    **each(harmless("A form is the affair of the program that shows it."), "rendering"),
    **each(
        DRAWN,
        "incoming", "outgoing", "laneSet", "childLaneSet", "lane", "flowNodeRef", "partitionElement", "association",
        "group", "artifact", "collaboration", "participant", "participantMultiplicity", "participantAssociation",
        "innerParticipantRef", "outerParticipantRef", "participantRef", "messageFlow", "messageFlowRef",
        "messageFlowAssociation", "innerMessageFlowRef", "outerMessageFlowRef", "conversation", "callConversation",
        "subConversation", "globalConversation", "conversationLink", "conversationAssociation",
        "innerConversationNodeRef", "outerConversationNodeRef", "choreographyRef", "partnerEntity", "partnerRole",
        "resource", "resourceParameter", "relationship", "source", "target",
    ),
    **each(
        DATA,
        "dataObject", "dataObjectReference", "dataStore", "dataStoreReference", "dataState", "property",
        "ioSpecification", "dataInput", "dataOutput", "inputSet", "outputSet", "dataInputRefs", "dataOutputRefs",
        "inputSetRefs", "outputSetRefs", "optionalInputRefs", "optionalOutputRefs", "whileExecutingInputRefs",
        "whileExecutingOutputRefs", "dataInputAssociation", "dataOutputAssociation", "sourceRef", "targetRef",
        "itemDefinition", "import",
    ),
    **each(
        SERVICE,
        "interface", "operation", "inMessageRef", "outMessageRef", "errorRef", "endPoint", "endPointRef",
        "interfaceRef", "operationRef", "supportedInterfaceRef", "supports", "ioBinding",
    ),
    **each(
        KEYS,
        "correlationKey", "correlationProperty", "correlationPropertyRef", "correlationPropertyRetrievalExpression",
        "messagePath",
    ),
    **each(
        ELSEWHERE,
        "choreography", "globalTask", "globalUserTask", "globalManualTask", "globalScriptTask",
        "globalBusinessRuleTask", "globalChoreographyTask", "extension",
    ),
}  # fmt: skip
SINGLE = frozenset({
    "conditionExpression", "completionCondition", "loopCardinality", "script",
    "multiInstanceLoopCharacteristics",
})  # fmt: skip
# The walk enters these harmless elements too: a mapping may stand in them.
LOOKED_INTO = frozenset({"dataInputAssociation", "dataOutputAssociation", "laneSet", "lane", "dataObject", "property"})

NOTHING = harmless("Other programs use it.")
ATTRIBUTES: Words = {
    **each(read(), "id", "name"),
    "language": (read("conditionExpression", "completionCondition", "loopCardinality", *TIMES),),
    **each(read("sequenceFlow"), "sourceRef", "targetRef"),
    "default": (read(*NODES),),
    "attachedToRef": (read("boundaryEvent"),),
    "messageRef": (
        read("messageEventDefinition", "receiveTask"),
        harmless("The task's handler sends the message.", "sendTask"),
    ),
    "signalRef": (read("signalEventDefinition"),),
    "errorRef": (read("errorEventDefinition"),),
    "escalationRef": (read("escalationEventDefinition"),),
    "errorCode": (read("error"),),
    "escalationCode": (read("escalation"),),
    "calledElement": (read("callActivity"),),
    "scriptFormat": (read("scriptTask"),),
    "isExecutable": (YES_OR_NO._replace(hosts=frozenset({"process"})),),
    "cancelActivity": (YES_OR_NO._replace(hosts=frozenset({"boundaryEvent"})),),
    "isInterrupting": (YES_OR_NO._replace(hosts=frozenset({"startEvent"})),),
    "triggeredByEvent": (YES_OR_NO._replace(hosts=frozenset({"subProcess"})),),
    "isSequential": (YES_OR_NO._replace(hosts=frozenset({"multiInstanceLoopCharacteristics"})),),
    "isForCompensation": (only(*FALSE, says="is compensation, which isn't run here; draw a path that undoes it"),),
    "startQuantity": (only("1", says="counts tokens, which isn't done here; join them at a parallelGateway"),),
    "completionQuantity": (only("1", says="makes several tokens, which isn't done here; fork at a parallelGateway"),),
    "instantiate": (only(*FALSE, says="begins a process, which isn't done here; use a startEvent with a message"),),
    "eventGatewayType": (only("Exclusive", says="waits for all events, which isn't done here; use a parallelGateway"),),
    "parallelMultiple": (only(*FALSE, says="waits for all events, which isn't done here; use a parallelGateway"),),
    "behavior": (only("All", says="throws an event for each execution, which isn't done here; throw it inside"),),
    **each(
        refused("throws an event for each execution, which isn't done here; throw it inside"),
        "noneBehaviorEventRef", "oneBehaviorEventRef",
    ),
    "isImmediate": (harmless("It is of models that aren't run. Flows take no time."),),
    "mustUnderstand": (only(*FALSE, says="demands an extension that isn't known here; leave it out"),),
    "expressionLanguage": (harmless("It is judged at each expression without a language and a sign of its own."),),
    **each(
        NOTHING,
        "targetNamespace", "exporter", "exporterVersion", "typeLanguage", "gatewayDirection", "processType", "isClosed",
        "definitionalCollaborationRef", "implementation", "operationRef", "textFormat", "associationDirection",
        "categoryValueRef", "processRef", "itemSubjectRef", "isCollection", "structureRef", "itemKind", "itemRef",
        "dataObjectRef", "dataStoreRef", "capacity", "isUnlimited", "partitionElementRef", "evaluatesToTypeRef",
        "definition", "location", "importType", "namespace", "value", "type", "implementationRef", "minimum", "maximum",
        "isRequired", "parameterRef", "state", "direction", "import", "initiatingParticipantRef", "loopType",
        "calledChoreographyRef", "calledCollaborationRef", "correlationKeyRef", "correlationPropertyRef",
        "innerConversationNodeRef", "outerConversationNodeRef", "innerMessageFlowRef", "outerMessageFlowRef",
        "innerParticipantRef", "outerParticipantRef", "inputDataRef", "outputDataRef", "extensionAttributeDefinition",
        "extensionDefinition", "isReference", "valueRef", "script", "scriptLanguage",
    ),
    # Attributes of elements that the reader refuses itself.
    **each(
        refused("belongs to an element that isn't run here"),
        "activityRef", "waitForCompletion", "ordering", "cancelRemainingInstances", "loopMaximum", "testBefore",
        "method", "protocol",
    ),
}  # fmt: skip
