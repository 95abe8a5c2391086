"""Prove that a firing leaves the same, whichever of the two statements fires: what both write, they write in one text.

Why it stands twice: docs/decisions/0004-one-claim-statement.md.
"""

from __future__ import annotations

import re

import pytest

from tests.support.statement_headers import FILES

TWICE = {
    "the record": r"insert into shardclock\.command_log \(\n.*?(?=\n    from )",
    "the delivery": r"insert into shardclock\.deliveries \(\n.*?\n    where f\.target <> 'log'",
    "the edges of the lags": r"count\(\*\) filter \(where f\.target.*?\) as edges\n    from fired f\n\)",
    "the lags": r"lags as materialized \(\n.*?\n    cross join done\n",
    "how the lags are grouped": r"    group by 1, 2, 3, 4\n\)\nselect\n",
    "how the lags are told": r"\(\n        select jsonb_agg\(.*?\) as lags\b",
}


@pytest.mark.parametrize("text", TWICE.values(), ids=TWICE)
def test_a_claim_that_fires_and_a_firing_say_it_alike(text: str) -> None:
    said = [re.findall(text, FILES[name].read_text(), re.DOTALL) for name in ("claim_due", "fire_due")]

    assert len(said[0]) == 1
    assert said[0] == said[1]
