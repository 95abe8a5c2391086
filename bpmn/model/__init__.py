"""Read a BPMN model into a compiled definition, or refuse it with a sentence for each element at fault.

`document` turns bytes into XML within bounds, `reading` turns XML into nodes, `extensions` reads what Camunda adds to
BPMN, `mappings` the variables of an element, `expressions` the expressions in FEEL, and `checks` says which nodes can't
be run. The result is a `definition`: it is frozen, and has all that the step reads.

`words` accounts for each attribute and element: none is dropped in silence. `juel` writes Camunda 7's expressions as
FEEL, `names` has the names of elements as XML spells them, `triggers` the triggers of events, `times` the
times of timers and due dates, `paths` the gateways that join, `refusal` the sentences.

source:  BPMN 2.0.2 (OMG formal/2013-12-09); docs/bpmn.md lists the supported part
"""

from shardclock_server.bpmn.model.definition import Definition, Kind, Node
from shardclock_server.bpmn.model.reading import read_model
from shardclock_server.bpmn.model.refusal import InvalidModel

__all__ = ["Definition", "InvalidModel", "Kind", "Node", "read_model"]
