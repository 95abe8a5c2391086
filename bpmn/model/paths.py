"""Find the gateways that join, and from where an inclusive one can be reached."""

from collections.abc import Mapping, Sequence

from shardclock_server.bpmn.model.definition import Kind, Node

FLOWS_JOINED_MAX = 1_000  # by inclusive gateways: of each flow is kept who can come by it
JOINS = frozenset({Kind.PARALLEL, Kind.INCLUSIVE})


def joins_of(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Find the gateways that wait for more than one flow, by the ids of these flows."""
    joins = (node for node in nodes.values() if node.kind in JOINS and len(node.incoming) > 1)
    return {flow_id: node for node in joins for flow_id in node.incoming}


def upstream_of(nodes: Mapping[str, Node]) -> dict[str, dict[str, int]]:
    """Find, for each inclusive join, the nodes from which a token may still come, and by which of its flows.

    An inclusive gateway waits for those that can still come by a flow that was not taken, and for nobody else. A token
    comes along flows, or from an activity by one of its boundary events. What can come only through the gateway itself
    comes too late.

    shape:   a bit for each of the join's `incoming`, the first flow's the lowest
    """
    joins = [node for node in nodes.values() if node.kind == Kind.INCLUSIVE and len(node.incoming) > 1]
    if sum(len(join.incoming) for join in joins) > FLOWS_JOINED_MAX:
        return {}  # the checks refuse it
    before = _predecessors(nodes)
    sources = {flow.flow_id: node.node_id for node in nodes.values() for flow in node.outgoing}
    return {
        join.node_id: _reaching(join, [sources.get(flow_id) for flow_id in join.incoming], before) for join in joins
    }


def _predecessors(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for node in nodes.values():
        for after in (*(flow.target for flow in node.outgoing), *node.boundaries):
            if after in before:
                before[after].append(node.node_id)
    return before


def _reaching(join: Node, sources: Sequence[str | None], before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, source in enumerate(sources):
        bit = 1 << number
        open_ends = [source]
        while open_ends:
            node_id = open_ends.pop()
            if node_id and node_id != join.node_id and not (by := found.get(node_id, 0)) & bit:
                found[node_id] = by | bit
                open_ends.extend(before[node_id])
    return found
