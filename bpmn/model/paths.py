"""Find the gateways that join, and from where an inclusive one can be reached."""

from collections import defaultdict
from collections.abc import Mapping

from bpmn.model.definition import Kind, Node

INCLUSIVE_JOINS_MAX = 500  # each is kept with all from which it can be reached
JOINS = frozenset({Kind.PARALLEL, Kind.INCLUSIVE})


def joins_of(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Find the gateways that wait for more than one flow, by the ids of these flows."""
    joins = (node for node in nodes.values() if node.kind in JOINS and len(node.incoming) > 1)
    return {flow_id: node for node in joins for flow_id in node.incoming}


def upstream_of(nodes: Mapping[str, Node]) -> dict[str, frozenset[str]]:
    """Find for each inclusive join the nodes of its scope whose tokens may still come to it.

    An inclusive gateway waits for those that can still come, and for nobody else. A token comes from an activity by an
    interrupting boundary event too; one that doesn't interrupt makes another token, for which nobody waits before.
    """
    before = _predecessors(nodes)
    joins = [node for node in nodes.values() if node.kind == Kind.INCLUSIVE and len(node.incoming) > 1]
    if len(joins) > INCLUSIVE_JOINS_MAX:
        return {}  # the checks refuse it
    return {join.node_id: _reaching(join.node_id, before) for join in joins}


def _predecessors(nodes: Mapping[str, Node]) -> dict[str, set[str]]:
    before: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes.values():
        for flow in node.outgoing:
            before[flow.target].add(node.node_id)
        for boundary in node.boundaries:
            if nodes[boundary].is_interrupting:
                before[boundary].add(node.node_id)
    return before


def _reaching(join: str, before: Mapping[str, set[str]]) -> frozenset[str]:
    found: set[str] = set()
    open_ends = [join]
    while open_ends:
        new = before.get(open_ends.pop(), set()) - found - {join}
        found |= new
        open_ends.extend(new)
    return frozenset(found)
