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

REFUSED_BY_READER = "isn't run here; docs/bpmn.md lists the elements that are"
MAPPING = "isn't done here; write it in FEEL, as a zeebe:ioMapping"
PEOPLE = (
    "isn't read here; write people as a zeebe:assignmentDefinition, or as camunda:assignee and camunda:candidateGroups"
)
LIST = "isn't read here; name the list in a zeebe:loopCharacteristics' inputCollection, or in camunda:collection"
DRAWN = ignored("It is part of the drawing, or names participants.")
DATA = ignored("It declares data. Variables have no types here, and an activity waits for no data.")
SERVICE = ignored("It describes an interface. The task's type or topic names the handler.")
NOTE = ignored("It is for people.")
KEYS = ignored("Correlation goes by a message's zeebe:subscription. A correlationSubscription is refused.")
OUTSIDE_PROCESSES = ignored("It is no part of a process that runs.")
UNUSED = ignored("A process refers to it by an eventDefinitionRef, which is refused.", "definitions")
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
    "definitions": (read(""),),  # the root, which has no host
    **dict.fromkeys(sorted(DEFINITIONS), (read(*EVENTS), UNUSED)),
    "conditionExpression": (read("sequenceFlow"),),
    **for_names(read("multiInstanceLoopCharacteristics"), "completionCondition", "loopCardinality"),
    "script": (read("scriptTask"), OUTSIDE_PROCESSES._replace(hosts=frozenset({"globalScriptTask"}))),
    **for_names(read("timerEventDefinition"), "timeDate", "timeDuration", "timeCycle"),
    "multiInstanceLoopCharacteristics": (read(*NODES),),
    "extensionElements": (read(),),
    # The reader refuses these names with separate messages.
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
    "subChoreography": (refused("isn't run here; docs/bpmn.md lists the elements that are", "choreography"),),
    **for_names(refused(MAPPING), "assignment", "transformation", "from", "to"),
    **for_names(refused(LIST), "loopDataInputRef", "loopDataOutputRef", "inputDataItem", "outputDataItem"),
    **for_names(
        refused(PEOPLE),
        "potentialOwner", "humanPerformer", "performer", "resourceRole", "resourceAssignmentExpression",
        "formalExpression", "resourceRef", "resourceParameterBinding",
    ),
    "complexBehaviorDefinition": (refused("isn't run here; throw the event in the activity itself"),),
    **for_names(
        refused("isn't read here; write a zeebe:subscription at the message"),
        "correlationSubscription", "correlationPropertyBinding",
    ),
    **for_names(
        NOTE,
        "documentation", "text", "textAnnotation", "category", "categoryValue", "categoryValueRef", "auditing",
        "monitoring",
    ),
    **for_names(ignored("A form is the affair of the program that shows it."), "rendering"),
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
# Ignored elements with children that are checked, too: a child may contain a mapping.
CHILDREN_CHECKED = frozenset(
    {"dataInputAssociation", "dataOutputAssociation", "laneSet", "lane", "dataObject", "property"}
)

NOTHING = ignored("Other programs use it.")
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
    "isForCompensation": (only(*FALSE, reason="is compensation, which isn't run here; draw a path that undoes it"),),
    "startQuantity": (only("1", reason="counts tokens, which isn't done here; join them at a parallelGateway"),),
    "completionQuantity": (only("1", reason="makes several tokens, which isn't done here; fork at a parallelGateway"),),
    "instantiate": (only(*FALSE, reason="begins a process, which isn't done here; use a startEvent with a message"),),
    "eventGatewayType": (
        only("Exclusive", reason="waits for all events, which isn't done here; use a parallelGateway"),
    ),
    "parallelMultiple": (only(*FALSE, reason="waits for all events, which isn't done here; use a parallelGateway"),),
    "behavior": (only("All", reason="throws an event for each execution, which isn't done here; throw it inside"),),
    **for_names(
        refused("throws an event for each execution, which isn't done here; throw it inside"),
        "noneBehaviorEventRef", "oneBehaviorEventRef",
    ),
    "isImmediate": (ignored("It is of models that aren't run. Flows take no time."),),
    "mustUnderstand": (only(*FALSE, reason="demands an extension that isn't known here; leave it out"),),
    "expressionLanguage": (ignored("It is judged at each expression that has no language and no sign."),),
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
    # Attributes of the elements that the reader refuses itself.
    **for_names(
        refused("belongs to an element that isn't run here"),
        "activityRef", "waitForCompletion", "ordering", "cancelRemainingInstances", "loopMaximum", "testBefore",
        "method", "protocol",
    ),
}  # fmt: skip
