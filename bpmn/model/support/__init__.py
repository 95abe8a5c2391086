"""Define the support for each attribute and element of a model: the engine reads, ignores or refuses it.

`rules` has the types for the declarations of support. `standard` has the names of BPMN, `camunda_8` has the namespace
`zeebe`, `camunda_7` has the namespaces `camunda`, `operaton`, `activiti` and `flowable`. `element_check` refuses an
element with an unsupported name. Names in other namespaces are ignored.
"""

from shardclock_server.bpmn.model.support.element_check import apply_default_language, check_child, check_element
from shardclock_server.bpmn.model.support.rules import Support, SupportRule, SupportRules, SupportTable

__all__ = [
    "Support",
    "SupportRule",
    "SupportRules",
    "SupportTable",
    "apply_default_language",
    "check_child",
    "check_element",
]
