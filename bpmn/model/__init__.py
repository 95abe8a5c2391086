"""Compile a BPMN model into a definition, or refuse the model with one message for each faulty element.

A definition is immutable, and contains all data that the execution of a step reads.

- `document` parses bytes into XML, within limits.
- `reading` converts the XML to nodes, and collects the faults.
- `extensions` reads Camunda's additions to BPMN.
- `mappings` reads input and output mappings.
- `expressions` reads FEEL and Camunda 7's expressions, which `juel` translates into FEEL.
- `triggers` reads the triggers of events.
- `times` reads the times of timers and due dates.
- `paths` finds the joining gateways.
- `checks` finds the nodes that the engine can't execute.
- `definition` has the compiled form of a model.
- `support` declares for each attribute and element whether it is supported, so that no name is silently ignored.
- `names` has the XML names of elements and attributes.
- `refusal` has the error for a refused model.

source:  BPMN 2.0.2 (OMG formal/2013-12-09); docs/bpmn.md lists the supported part
"""

from shardclock_server.bpmn.model.definition import Definition, FlowNode, NodeKind
from shardclock_server.bpmn.model.reading import read_model
from shardclock_server.bpmn.model.refusal import InvalidModel

__all__ = ["Definition", "FlowNode", "InvalidModel", "NodeKind", "read_model"]
