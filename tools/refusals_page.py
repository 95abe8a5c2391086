"""Write docs/refusals.md from the codes of refusals in the client: python -m tools.refusals_page."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from shardclock.api.codes import GENERAL, NO_RESPONSE, VARIES, WRONG_SCHEMA, RefusalCode, invalid, quota
from shardclock.api.refusals import SUBJECTS
from tests.support import ROOT

PAGE = ROOT / "docs" / "refusals.md"
HEAD = """\
# Refusals

<!-- Written by `make docs`. To change this page, edit client/shardclock/api. -->

This page lists the codes of refusals, with their meanings and the caller's reactions. The meaning of a code never
changes, and each interface has the same codes:

| interface | place of the code |
|---|---|
| HTTP | `type` of the problem (RFC 9457), after `urn:shardclock:problem:` |
| Python clients | `error.code`; the general code determines the class of the error |
| command line | `code` of the JSON object on standard error, with `--json`; and the exit code |
| SQL | the constraint name in the fields of the error |

A specific code has the status and the exit code of its general code. A program that does not know a specific code can
react to the status, the exit code or the class. Compare codes, never sentences.

## General codes

| code | status | exit code | meaning | do |
|---|---|---|---|---|
"""


def page() -> str:
    """Write the page."""
    general = "".join(map(_general_row, (*GENERAL, NO_RESPONSE, WRONG_SCHEMA)))
    families = {"invalid_…": invalid("FIELD"), "quota_…": quota("NAME")}
    parts = [
        _section("Families", families),
        *(_section(title.capitalize(), codes) for title, codes in SUBJECTS.items()),
    ]
    return "\n".join([HEAD + general, *parts])


def _general_row(code: RefusalCode) -> str:
    return f"| `{code.name}` | {code.status or ''} | {code.exit_code} | {code.title} | {code.reaction} |\n"


def _section(title: str, codes: Mapping[str, RefusalCode]) -> str:
    rows = "".join(f"| `{name}` | `{code.general}` | {_text(code)} |\n" for name, code in sorted(codes.items()))
    return f"## {title}\n\n| code | general code | sentence |\n|---|---|---|\n{rows}"


def _text(code: RefusalCode) -> str:
    return "the reason" if code.text == VARIES else code.text.replace("!r}", "}").replace("|", "\\|")


def main() -> None:
    """Write docs/refusals.md."""
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")


if __name__ == "__main__":
    main()
