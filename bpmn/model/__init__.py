"""Compile a BPMN model into a definition, or refuse the model with one message for each faulty element.

A definition is immutable, and contains all data that a step reads.

    document     parse bytes into XML within limits
    reading      turn XML into nodes, and collect the faults
    extensions   Camunda's additions to BPMN
    mappings     input and output mappings
    expressions  FEEL, and Camunda 7's expressions
    juel         translate Camunda 7's expressions into FEEL
    triggers     the triggers of events
    times        the times of timers and due dates
    paths        the gateways that join
    checks       the nodes that can't be run
    support the support for each attribute and element, so that no name is ignored silently
    names        the XML names of elements and attributes
    refusal      the error for a refused model

source:  BPMN 2.0.2 (OMG formal/2013-12-09); docs/bpmn.md lists the supported part
"""

from shardclock_server.bpmn.model.definition import Definition, FlowNode, NodeKind
from shardclock_server.bpmn.model.reading import read_model
from shardclock_server.bpmn.model.refusal import InvalidModel

__all__ = ["Definition", "FlowNode", "InvalidModel", "NodeKind", "read_model"]
