"""Write docs/bpmn-elements.md from the models in tests/engine/models: for each element its model and its history."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

from shardclock_server.bpmn.model.support import SupportRule, SupportTable, camunda_7, camunda_8, standard
from tests.support import ROOT
from tests.support.bpmn_models import ElementModel, Folder, folders

PAGE = ROOT / "docs" / "bpmn-elements.md"
LINK = "../tests/engine/models"
HEAD = """\
# BPMN, element by element

<!-- Written by `make docs`. To change this page, edit tests/engine/models. -->

Each row has an element, and a small model with this element. The last column has the history of an instance of this
model, move by move. The histories follow Camunda 8's documentation. A test deploys each model, makes the moves on a
cluster, and compares the whole history. [BPMN](bpmn.md) has the other rules for models.

`pack+` means that a token enters the node `pack`. `pack-` means that a token leaves the node, and `packx` that the
engine terminates a token there. If a move continues several instances, ` / ` separates their histories. BPMN does not
fix the order of simultaneous tokens; the histories have the order of our engine. The clock begins at 08:00 on 1 March
2026.

| move | example |
|---|---|
| start an instance, with variables | `start {"order": 42}` |
| move the clock | `advance PT1H` |
| complete a user task | `complete approve {…}` |
| complete or fail a service task, or throw an error | `do charge {…}`, `fail charge why`, `throw charge CODE {…}` |
| send a message with its correlation key, or a signal | `message paid 42 {…}`, `signal stop {…}` |
| set variables; resolve an incident | `set {…}`, `resolve charge` |
"""
REFUSED = """\
Shardclock refuses a model with one of these elements at its deployment, and stores no part of the model.
"""
DIFFERENT = """\
## Differences from Camunda 8

* Without `retries`, the policy of the handler or endpoint sets a task's number of attempts; in Camunda 8 it is three.
* A business rule task is executed like a service task. Shardclock evaluates no decisions, and refuses a
  `zeebe:calledDecision`.
* Shardclock refuses links, compensation, conditional events, listeners and ad-hoc sub-processes.
"""


EXTENSIONS = """\
## The support for each attribute and element

Shardclock reads, ignores or refuses each attribute and element of other engines and of BPMN. If the column *at* is
empty, the row applies to every element. If a row lists accepted values, Shardclock refuses all other values of the
attribute.
"""
TABLES = (
    ("Camunda 8: `zeebe`", camunda_8.ATTRIBUTES, camunda_8.ELEMENTS),
    (
        "Camunda 7 and its forks: `camunda`, `operaton`, `activiti`, `flowable`",
        camunda_7.ATTRIBUTES,
        camunda_7.ELEMENTS,
    ),
    ("BPMN itself", standard.ATTRIBUTES, standard.ELEMENTS),
)


def written() -> str:
    """Write the page."""
    return "\n".join([HEAD, *map(_section, folders()), DIFFERENT, EXTENSIONS, *(_table(*table) for table in TABLES)])


def _table(title: str, attributes: SupportTable, elements: SupportTable) -> str:
    lines = ["| kind | names | support | at | reason, or end of the refusal |", "|---|---|---|---|---|"]
    for kind, table in (("attributes", attributes), ("elements", elements)):
        rows: defaultdict[SupportRule, list[str]] = defaultdict(list)
        for name, rules in table.items():
            for rule in rules:
                rows[rule].append(f"`{name}`")
        lines += [f"| {kind} | {', '.join(sorted(names))} | {_support(rule)} |" for rule, names in rows.items()]
    return "\n".join([f"### {title}\n", *lines, ""])


def _support(rule: SupportRule) -> str:
    accepted = f" if it is {' or '.join(f'`{value}`' for value in sorted(rule.values))}" if rule.values else ""
    return f"{rule.support}{accepted} | {', '.join(sorted(rule.hosts))} | {rule.reason.replace('|', chr(92) + '|')}"


def _section(folder: Folder) -> str:
    if folder.models[0].refused:
        lines = [REFUSED, "| element | model | sentence |", "|---|---|---|"]
        lines += [f"| {it.element} | {_link(it)} | {it.refused} |" for it in folder.models]
    else:
        lines = ["| element | model | effect | move | history |", "|---|---|---|---|---|"]
        lines += [line for it in folder.models for line in _rows(it)]
    return "\n".join([f"## {folder.title}\n", *lines, ""])


def _rows(it: ElementModel) -> list[str]:
    says = it.says
    if it.incident is not None:
        says += f" *{it.incident}*"
    if it.result is not None:
        says += f" In the end: `{json.dumps(it.result)}`"
    firsts = [f"{it.element} | {_link(it)} | {says}"] + [" | | "] * (len(it.moves) - 1)
    return [f"| {first} | `{move}` | {_history(went)} |" for first, (move, went) in zip(firsts, it.moves, strict=True)]


def _history(went: str) -> str:
    return f"`{went.replace(' | ', ' / ')}`" if went else "nothing"


def _link(it: ElementModel) -> str:
    return f"[{it.name}]({LINK}/{it.path})"


if __name__ == "__main__":
    PAGE.write_text(written())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
