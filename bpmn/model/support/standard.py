"""The names of BPMN 2.0.2 itself.

source:  the XML Schema of BPMN 2.0.2 (OMG dtc/2010-05-15), Semantic.xsd
"""

from shardclock_server.bpmn.model.support.rules import (
    FALSE,
    YES_OR_NO,
    SupportTable,
    for_names,
    ignored,
    only,
    read,
    refused,
)

REFUSED_BY_READER = "is not supported; the refusal names the elements to use instead"
MAPPING = "is not supported; write a zeebe:ioMapping in FEEL"
PEOPLE = "is not supported; use a zeebe:assignmentDefinition, or camunda:assignee and camunda:candidateGroups"
LIST = "is not supported; name the list in the inputCollection of a zeebe:loopCharacteristics, or in camunda:collection"
DRAWN = ignored("The element is part of the drawing, or describes a participant.")
DATA = ignored("The element declares data. Variables have no declared types, and an activity never waits for data.")
SERVICE = ignored("The element describes an interface. The task's type or topic names the handler.")
NOTE = ignored("The element is a note for people.")
KEYS = ignored("The engine correlates a message by its zeebe:subscription. A correlationSubscription is refused.")
OUTSIDE_PROCESSES = ignored("The element is outside of the executable processes.")
UNUSED = ignored(
    "The element could have an effect only through an eventDefinitionRef, which is refused.",
    "definitions",
)
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

ELEMENTS: SupportTable = {
    **for_names(read("definitions"), "process", "message", "signal", "error", "escalation"),
    **for_names(read(*SCOPES), *sorted(NODES), "sequenceFlow"),
    "definitions": (read(""),),  # The root element, which has no host.
    **dict.fromkeys(sorted(DEFINITIONS), (read(*EVENTS), UNUSED)),
    "conditionExpression": (read("sequenceFlow"),),
    **for_names(read("multiInstanceLoopCharacteristics"), "completionCondition", "loopCardinality"),
    "script": (read("scriptTask"), OUTSIDE_PROCESSES._replace(hosts=frozenset({"globalScriptTask"}))),
    **for_names(read("timerEventDefinition"), "timeDate", "timeDuration", "timeCycle"),
    "multiInstanceLoopCharacteristics": (read(*NODES),),
    "extensionElements": (read(),),
    # Elements that the reader itself refuses, with its own messages.
    **for_names(
        refused(REFUSED_BY_READER, *SCOPES),
        "transaction", "adHocSubProcess", "complexGateway", "callChoreography", "choreographyTask",
    ),
    **for_names(refused(REFUSED_BY_READER, *NODES), "standardLoopCharacteristics"),
    **dict.fromkeys(
        (
        "conditionalEventDefinition", "linkEventDefinition", "cancelEventDefinition", "compensateEventDefinition",
        "eventDefinitionRef",
        ),
        (refused(REFUSED_BY_READER, *EVENTS), UNUSED),
    ),
    **for_names(refused(REFUSED_BY_READER, "complexGateway"), "activationCondition"),
    **for_names(refused(REFUSED_BY_READER, "conditionalEventDefinition"), "condition"),
    **for_names(refused(REFUSED_BY_READER, "standardLoopCharacteristics"), "loopCondition"),
    "subChoreography": (refused("is not supported; model each participant as a process", "choreography"),),
    **for_names(refused(MAPPING), "assignment", "transformation", "from", "to"),
    **for_names(refused(LIST), "loopDataInputRef", "loopDataOutputRef", "inputDataItem", "outputDataItem"),
    **for_names(
        refused(PEOPLE),
        "potentialOwner", "humanPerformer", "performer", "resourceRole", "resourceAssignmentExpression",
        "formalExpression", "resourceRef", "resourceParameterBinding",
    ),
    "complexBehaviorDefinition": (refused("is not supported; throw the event inside the activity"),),
    **for_names(
        refused("is not supported; add a zeebe:subscription to the message"),
        "correlationSubscription", "correlationPropertyBinding",
    ),
    **for_names(
        NOTE,
        "documentation", "text", "textAnnotation", "category", "categoryValue", "categoryValueRef", "auditing",
        "monitoring",
    ),
    **for_names(ignored("Only the program that shows the form uses it."), "rendering"),
    **for_names(
        DRAWN,
        "incoming", "outgoing", "laneSet", "childLaneSet", "lane", "flowNodeRef", "partitionElement", "association",
        "group", "artifact", "collaboration", "participant", "participantMultiplicity", "participantAssociation",
        "innerParticipantRef", "outerParticipantRef", "participantRef", "messageFlow", "messageFlowRef",
        "messageFlowAssociation", "innerMessageFlowRef", "outerMessageFlowRef", "conversation", "callConversation",
        "subConversation", "globalConversation", "conversationLink", "conversationAssociation",
        "innerConversationNodeRef", "outerConversationNodeRef", "choreographyRef", "partnerEntity", "partnerRole",
        "resource", "resourceParameter", "relationship", "source", "target",
    ),
    **for_names(
        DATA,
        "dataObject", "dataObjectReference", "dataStore", "dataStoreReference", "dataState", "property",
        "ioSpecification", "dataInput", "dataOutput", "inputSet", "outputSet", "dataInputRefs", "dataOutputRefs",
        "inputSetRefs", "outputSetRefs", "optionalInputRefs", "optionalOutputRefs", "whileExecutingInputRefs",
        "whileExecutingOutputRefs", "dataInputAssociation", "dataOutputAssociation", "sourceRef", "targetRef",
        "itemDefinition", "import",
    ),
    **for_names(
        SERVICE,
        "interface", "operation", "inMessageRef", "outMessageRef", "errorRef", "endPoint", "endPointRef",
        "interfaceRef", "operationRef", "supportedInterfaceRef", "supports", "ioBinding",
    ),
    **for_names(
        KEYS,
        "correlationKey", "correlationProperty", "correlationPropertyRef", "correlationPropertyRetrievalExpression",
        "messagePath",
    ),
    **for_names(
        OUTSIDE_PROCESSES,
        "choreography", "globalTask", "globalUserTask", "globalManualTask", "globalScriptTask",
        "globalBusinessRuleTask", "globalChoreographyTask", "extension",
    ),
}  # fmt: skip
SINGLE = frozenset({
    "conditionExpression", "completionCondition", "loopCardinality", "script",
    "multiInstanceLoopCharacteristics",
})  # fmt: skip
# Ignored elements with children that are checked, because a child may contain a mapping.
CHILDREN_CHECKED = frozenset(
    {"dataInputAssociation", "dataOutputAssociation", "laneSet", "lane", "dataObject", "property"}
)

NOTHING = ignored("Only other programs use this attribute.")
ATTRIBUTES: SupportTable = {
    **for_names(read(), "id", "name"),
    "language": (read("conditionExpression", "completionCondition", "loopCardinality", *TIMES),),
    **for_names(read("sequenceFlow"), "sourceRef", "targetRef"),
    "default": (read(*NODES),),
    "attachedToRef": (read("boundaryEvent"),),
    "messageRef": (
        read("messageEventDefinition", "receiveTask"),
        ignored("The task's handler sends the message.", "sendTask"),
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
    "isForCompensation": (only(*FALSE, reason="is not supported; draw a path that undoes the work"),),
    "startQuantity": (only("1", reason="is not supported; join the tokens at a parallelGateway"),),
    "completionQuantity": (only("1", reason="is not supported; fork at a parallelGateway"),),
    "instantiate": (only(*FALSE, reason="starts a process, which is not supported; use a startEvent with a message"),),
    "eventGatewayType": (
        only("Exclusive", reason="waits for all events, which is not supported; use a parallelGateway"),
    ),
    "parallelMultiple": (only(*FALSE, reason="waits for all events, which is not supported; use a parallelGateway"),),
    "behavior": (only("All", reason="is not supported; throw the event inside the activity"),),
    **for_names(
        refused("throws an event for each execution, which is not supported; throw the event inside the activity"),
        "noneBehaviorEventRef", "oneBehaviorEventRef",
    ),
    "isImmediate": (ignored("The attribute is for models that can't be executed."),),
    "mustUnderstand": (only(*FALSE, reason="requires an unknown extension; remove it"),),
    "expressionLanguage": (ignored("The language applies to each condition that sets no language itself."),),
    **for_names(
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
    # These attributes belong only to elements that the reader refuses.
    **for_names(
        refused("belongs to an unsupported element"),
        "activityRef", "waitForCompletion", "ordering", "cancelRemainingInstances", "loopMaximum", "testBefore",
        "method", "protocol",
    ),
}  # fmt: skip
