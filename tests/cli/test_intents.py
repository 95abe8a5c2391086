"""`tail --intent` accepts each intent that is written to the log."""

from __future__ import annotations

import re

from shardclock_server.sql.log.records import INTENTS
from tests.support import ROOT
from tests.support.cli_asserts import DONE
from tests.support.program import Shell

WRITES = re.compile(r"insert into shardclock\.command_log|log_of\w*\(")
WORD = re.compile(r"'([A-Z][A-Z_]{2,})'")
# These capitalized words also occur in the statements that write the log: states, answers, outcomes and types of
# timers.
NO_INTENTS = {
    "ASSIGNED", "BOUNDARY", "COMPLETED", "COMPLETED_BEFORE", "CRASHED", "CREATED", "DEAD_BEFORE", "DELETED",
    "DISCARDED_BEFORE", "DUE", "ENDED", "ERROR", "EXTENDED", "FAILED", "INTERMEDIATE", "INTERRUPTED", "IN_HAND", "ISO",
    "LOCKED", "LOST", "NOT_FOUND", "OUT_OF_STOCK", "PENDING", "RETRIED", "RETRIED_BEFORE", "SENT", "SERVICE_TASK",
    "START_EVENT", "SUCCEEDED", "SUN", "TAKEN", "TIMED_OUT", "UNKNOWN", "USER", "UTC", "WAITING",
}  # fmt: skip


def words_of(text: str) -> set[str]:
    """Return the capitalized words of a statement, except the words of its comments."""
    return set(WORD.findall(re.sub("--.*", "", text)))


def test_tail_accepts_all_intents_that_the_sql_writes() -> None:
    texts = [path.read_text() for path in (ROOT / "sql").rglob("*.sql")]
    found = set[str]().union(*(words_of(text) for text in texts if WRITES.search(text)))

    assert found - NO_INTENTS == set(INTENTS), "a new word is an intent of `tail`, or stands in NO_INTENTS"


def test_tail_accepts_the_intent_stale(shell: Shell) -> None:
    assert shell("tail", "--from-start", "--stop", "--intent", "stale").code == DONE
