"""Account for all that a model says: each attribute and element is read, harmless, or refused by its name.

`verdicts` declares the verdicts, and finds the one on a word at its place. `standard` has the words of
BPMN, `camunda_8` those of the namespace `zeebe`, `camunda_7` those of `camunda`, `operaton`, `activiti` and `flowable`.
`accounts` walks through an element and refuses the first word that would be dropped in silence. Other namespaces are
passed over.
"""

from shardclock_server.bpmn.model.words.accounts import check_child, check_said, spread_language
from shardclock_server.bpmn.model.words.verdicts import Use, Verdict, Word, Words

__all__ = ["Use", "Verdict", "Word", "Words", "check_child", "check_said", "spread_language"]
