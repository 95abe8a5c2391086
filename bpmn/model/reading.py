"""Read the processes of a model, and collect all faults."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.checks import problems_of
from shardclock_server.bpmn.model.definition import (
    SCOPES,
    Definition,
    Flow,
    FlowNode,
    NodeKind,
    Trigger,
    UnknownTrigger,
    Work,
)
from shardclock_server.bpmn.model.document import read_document
from shardclock_server.bpmn.model.expressions import InvalidValue, read_expression
from shardclock_server.bpmn.model.extensions import read_call, read_loop, read_script, read_service_work, read_user_work
from shardclock_server.bpmn.model.mappings import read_mappings
from shardclock_server.bpmn.model.names import BPMN, bpmn, is_true, local_name, namespace, text_of
from shardclock_server.bpmn.model.paths import joins_of, upstream_of
from shardclock_server.bpmn.model.refusal import InvalidModel, ModelProblem
from shardclock_server.bpmn.model.support import apply_default_language, check_child, check_element
from shardclock_server.bpmn.model.triggers import (
    SharedElements,
    has_trigger,
    kind_with,
    read_message,
    read_thrown,
    read_trigger,
    repeated_ids,
)
from shardclock_server.feel import Expression
from shardclock_server.timers.refusal import shortened

ID_CHARS_MAX = 200  # Timers, tasks and each line of the history store the id of a node or flow.
NAME_CHARS_MAX = 1_000  # A longer name is truncated, because only people read names.
KINDS = {
    "startEvent": NodeKind.START, "endEvent": NodeKind.END, "intermediateCatchEvent": NodeKind.CATCH,
    "intermediateThrowEvent": NodeKind.THROW, "boundaryEvent": NodeKind.BOUNDARY,
    "task": NodeKind.PASS, "manualTask": NodeKind.PASS, "scriptTask": NodeKind.SCRIPT, "userTask": NodeKind.USER,
    "serviceTask": NodeKind.SERVICE, "sendTask": NodeKind.SERVICE, "businessRuleTask": NodeKind.SERVICE,
    "receiveTask": NodeKind.RECEIVE, "exclusiveGateway": NodeKind.EXCLUSIVE, "parallelGateway": NodeKind.PARALLEL,
    "inclusiveGateway": NodeKind.INCLUSIVE,
    "eventBasedGateway": NodeKind.EVENT_BASED, "subProcess": NodeKind.SUBPROCESS, "callActivity": NodeKind.CALL,
}  # fmt: skip
NOT_RUN = {  # For each element of BPMN 2.0 that is not supported: the elements to use instead.
    "transaction": "a subProcess",
    "adHocSubProcess": "a subProcess",
    "complexGateway": "an exclusiveGateway, an inclusiveGateway or a parallelGateway",
    "callChoreography": "a callActivity",
    "choreographyTask": "a sendTask and a receiveTask",
}
THROWING = frozenset({"endEvent", "intermediateThrowEvent"})
INTERRUPTS = {"boundaryEvent": "cancelActivity", "startEvent": "isInterrupting"}
READ_ALONE = frozenset({*KINDS, *NOT_RUN, "sequenceFlow"})
WORKS: dict[NodeKind, Callable[[Element], Work]] = {
    NodeKind.SERVICE: read_service_work, NodeKind.USER: read_user_work, NodeKind.SCRIPT: read_script,
    NodeKind.CALL: read_call,
}  # fmt: skip


def read_model(text: bytes) -> tuple[Definition, ...]:
    """Read the executable processes of a model.

    shape:   one definition for each process with isExecutable="true", in the document's order
    errors:  InvalidModel  the error names each unsupported element with a reason
    """
    root = read_document(text)
    if root.tag != bpmn("definitions"):
        raise InvalidModel(
            ModelProblem("", f"the model begins with {shortened(root.tag)}, not with BPMN 2.0's definitions")
        )
    apply_default_language(root)
    processes = root.findall(bpmn("process"))
    # Check the length of ids first, because all other messages contain ids.
    if too_long := [problem for process in processes for problem in _ids_too_long(process)]:
        raise InvalidModel(*too_long)
    shared = SharedElements({child.get("id", ""): child for child in root})
    readings = [_Process(process, shared) for process in processes if is_true(process.get("isExecutable"))]
    problems = [*repeated_ids(root), *_unread_beside(root)]
    if not readings:
        # Report the faults of all processes, so that the author can correct all faults before the next deployment.
        readings = [_Process(process, shared) for process in processes]
        problems.append(ModelProblem("", 'the model has no process with isExecutable="true"; mark the process to run'))
    definitions = tuple(reading.read() for reading in readings)
    problems += [problem for reading in readings for problem in reading.problems]
    if problems:
        raise InvalidModel(*problems)
    return definitions


@dataclass
class _Process:
    """The reader of one process, which collects the faults in `problems`."""

    element: Element
    shared: SharedElements
    problems: list[ModelProblem] = field(default_factory=list)
    # Elements with a reported fault. Further faults of these elements are not reported, because they may be
    # consequences of the first fault.
    unread: set[str] = field(default_factory=set)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    unnamed: Counter[str] = field(default_factory=Counter)

    def read(self) -> Definition:
        process_id = self._id_of(self.element)
        self._read_scope(self.element, NodeKind.PROCESS, scope_id="")
        self._connect()
        nodes = {node_id: FlowNode(**fields) for node_id, fields in self.nodes.items()}
        definition = Definition(
            process_id=process_id,
            name=self.element.get("name", "")[:NAME_CHARS_MAX],
            nodes=nodes,
            starts=tuple(node.node_id for node in nodes.values() if _starts_instances(node, process_id)),
            joins=joins_of(nodes),
            upstream=upstream_of(nodes),
        )
        self.problems += problems_of(definition, unread=self.unread)
        return definition

    def _read_scope(self, element: Element, kind: NodeKind, *, scope_id: str) -> None:
        node = self._add(element, kind, scope_id)
        for child in element:
            if child.tag == bpmn("sequenceFlow"):
                self._read_flow(child)
            elif read := self._kind_of(child):
                self._read_node(child, read, scope_id=node["node_id"])
            elif child.get("id") and local_name(child) not in NOT_RUN:
                self._guarded(child, lambda part: check_child(part, host=element))

    def _kind_of(self, child: Element) -> NodeKind | None:
        name = local_name(child)
        if namespace(child) != BPMN:
            self._unread(child, f"{shortened(child.tag)} is not an element of BPMN 2.0; remove it")
        elif name in NOT_RUN:
            self._unread(child, f"{name} is not supported; use {NOT_RUN[name]}")
        return KINDS.get(name) if namespace(child) == BPMN else None

    def _read_node(self, element: Element, kind: NodeKind, *, scope_id: str) -> None:
        if kind == NodeKind.SUBPROCESS:
            is_event = is_true(element.get("triggeredByEvent"))
            self._read_scope(element, NodeKind.EVENT_SUBPROCESS if is_event else kind, scope_id=scope_id)
        else:
            self._add(element, kind, scope_id)

    def _add(self, element: Element, kind: NodeKind, scope_id: str) -> dict[str, Any]:
        node: dict[str, Any] = {
            "node_id": self._id_of(element), "kind": kind, "tag": local_name(element),
            "name": element.get("name", ""), "scope_id": scope_id, "default_flow": element.get("default"),
            "is_interrupting": is_true(element.get(INTERRUPTS.get(local_name(element), ""), "true")),
            "attached_to": element.get("attachedToRef"),
        }  # fmt: skip
        if node["node_id"] in self.nodes:
            self._problem(element, f"the id {shortened(node['node_id'])} occurs twice; give each element its own id")
        self.nodes[node["node_id"]] = node
        self._guarded(element, lambda of: self._read_details(of, node))
        return node

    def _read_details(self, element: Element, node: dict[str, Any]) -> None:
        if has_trigger(element):
            # A placeholder, so that the checks don't report a missing trigger if the trigger can't be read.
            node["trigger"] = UnknownTrigger()
        check_element(element, skipped=READ_ALONE if node["kind"] in SCOPES else frozenset())
        if node["kind"] not in SCOPES:
            node["trigger"] = self._trigger_of(element)
            node["kind"] = kind_with(node["kind"], node["trigger"], element)
        node["inputs"], node["outputs"] = read_mappings(element)
        node["loop"] = read_loop(element)
        if read := WORKS.get(node["kind"]):
            node["work"] = read(element)

    def _trigger_of(self, element: Element) -> Trigger | None:
        if local_name(element) == "receiveTask":
            return read_message(self.shared.named(element.get("messageRef"), "message"))
        if local_name(element) in THROWING:
            return read_thrown(element, self.shared)
        return read_trigger(element, self.shared)

    def _read_flow(self, element: Element) -> None:
        flow_id = element.get("id") or self._flow_named(element)
        if flow_id in self.nodes or flow_id in self.flows:
            self._problem(element, f"the id {shortened(flow_id)} occurs twice; give each element its own id")
        flow = Flow(flow_id, source=element.get("sourceRef", ""), target=element.get("targetRef", ""))
        self.flows[flow_id] = flow
        try:
            check_element(element)
            self.flows[flow_id] = replace(flow, condition=_condition_of(element))
        except InvalidValue as error:
            self.problems.append(ModelProblem(flow_id, str(error)))
            self.unread.add(flow.source)  # A placeholder, which prevents a second message about a missing condition.

    def _flow_named(self, element: Element) -> str:
        """Make a name for a flow without an id; the name has blanks, so it can't equal an id."""
        name = f"({element.get('sourceRef', '')} to {element.get('targetRef', '')})"
        self.unnamed[name] += 1
        return name if self.unnamed[name] == 1 else f"{name} {self.unnamed[name]}"

    def _connect(self) -> None:
        """Add to each node its flows, its boundary events, and the start events inside it."""
        outgoing, incoming = defaultdict(list), defaultdict(list)
        for flow in self.flows.values():
            outgoing[flow.source].append(flow)
            incoming[flow.target].append(flow.flow_id)
            for end in (flow.source, flow.target):
                if end not in self.nodes and end not in self.unread:
                    self.problems.append(
                        ModelProblem(flow.flow_id, f"the flow leads to or from {shortened(end)}, which does not exist")
                    )
        for node in self.nodes.values():
            node["attached_to"] = self._without_prefix(node["attached_to"])
        inside, attached = self._grouped("scope_id"), self._grouped("attached_to")
        for node_id, node in self.nodes.items():
            node["outgoing"], node["incoming"] = tuple(outgoing[node_id]), tuple(incoming[node_id])
            node["boundaries"] = tuple(other["node_id"] for other in attached[node_id])
            if node["kind"] in SCOPES:
                is_event = node["kind"] == NodeKind.EVENT_SUBPROCESS
                starts = [other for other in inside[node_id] if other["kind"] == NodeKind.START]
                node["starts"] = tuple(at["node_id"] for at in starts)
                node["start"] = next((at["node_id"] for at in starts if is_event or not at.get("trigger")), None)
                node["event_subprocesses"] = tuple(
                    other["node_id"] for other in inside[node_id] if other["kind"] == NodeKind.EVENT_SUBPROCESS
                )

    def _without_prefix(self, reference: str | None) -> str | None:
        """Return an activity's id; some modelers write a prefix before the id in a reference."""
        plain = (reference or "").rpartition(":")[2]
        return plain if reference not in self.nodes and plain in self.nodes else reference

    def _grouped(self, by: str) -> defaultdict[str | None, list[dict[str, Any]]]:
        groups: defaultdict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for node in self.nodes.values():
            if by == "scope_id" or node["kind"] == NodeKind.BOUNDARY:
                groups[node[by]].append(node)
        return groups

    def _guarded(self, element: Element, read: Callable[[Element], object]) -> None:
        try:
            read(element)
        except InvalidValue as error:
            self._unread(element, str(error))

    def _id_of(self, element: Element) -> str:
        if found := element.get("id", ""):
            return found
        self._problem(element, f"a {local_name(element)} has no id; add an id")
        return f"({local_name(element)} {len(self.nodes)})"

    def _unread(self, element: Element, sentence: str) -> None:
        self._problem(element, sentence)
        self.unread.add(element.get("id", ""))

    def _problem(self, element: Element, sentence: str) -> None:
        self.problems.append(ModelProblem(element.get("id", ""), sentence))


def _unread_beside(root: Element) -> Iterator[ModelProblem]:
    """Check each element outside of the processes; report the first unsupported name of each element."""
    for element in (root, *root):
        if namespace(element) == BPMN and local_name(element) != "process":
            try:
                if element is root:
                    check_element(root, skipped=frozenset(local_name(child) for child in root))
                else:
                    check_child(element, host=root)
            except InvalidValue as error:
                yield ModelProblem(element.get("id", "") if element is not root else "", str(error))


def _ids_too_long(process: Element) -> Iterator[ModelProblem]:
    for element in process.iter():
        found = element.get("id", "")
        if len(found) > ID_CHARS_MAX and (element is process or local_name(element) in {*KINDS, "sequenceFlow"}):
            yield ModelProblem(
                "",
                f"the id {shortened(found)} of a {local_name(element)} has {len(found):,} characters;"
                f" at most {ID_CHARS_MAX} are allowed",
            )


def _condition_of(flow: Element) -> Expression | None:
    written = flow.find(bpmn("conditionExpression"))
    if written is None:
        return None
    if text := text_of(written):
        return read_expression(text)
    raise InvalidValue("the condition is empty; write a condition, or remove the conditionExpression")


def _starts_instances(node: FlowNode, process_id: str) -> bool:
    return node.kind == NodeKind.START and node.scope_id == process_id and node.trigger is not None
