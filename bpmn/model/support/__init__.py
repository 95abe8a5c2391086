"""Handle all attributes and elements of a model: each name is read, ignored or refused.

`rules` declares the support for a name at an element. `standard` has the names of BPMN, `camunda_8` has the namespace
`zeebe`, `camunda_7` has the namespaces `camunda`, `operaton`, `activiti` and `flowable`. `element_check` refuses the
first name at an element that would be ignored silently. Names of other namespaces are ignored.
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
