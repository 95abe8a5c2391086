"""Compute the strip of a job's last runs: one bar for each run; a longer run has a higher bar."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.gateway.console.formats import duration, shown
from shardclock_server.sql.jobs.history import JobRun

BAR_WIDTH, BAR_GAP = 8, 2
HEIGHT, HEIGHT_MIN = 48, 4
# The CSS class of each outcome; any other outcome gets the class of a failure.
STYLES = {"SUCCEEDED": "good", "DISCARDED": "idle", "SKIPPED": "idle", "CANCELED": "idle", "INTERRUPTED": "idle"}
GOING = "going"
FAILED = "bad"


@dataclass(frozen=True, slots=True)
class RunBar:
    """A run in the strip; `y` and `height` are in pixels from the top."""

    x: int
    y: float
    height: float
    style: str
    label: str


@dataclass(frozen=True, slots=True)
class RunStrip:
    """The bars, the oldest run first."""

    width: int
    height: int
    bars: Sequence[RunBar]


def strip_of(runs: Sequence[JobRun]) -> RunStrip:
    """Draw runs, given the newest first; the longest run has the full height."""
    longest_s = max((it.duration_s or 0.0 for it in runs), default=0.0)
    bars = [_bar(run, place, longest_s) for place, run in enumerate(reversed(runs))]
    return RunStrip(len(bars) * (BAR_WIDTH + BAR_GAP), HEIGHT, bars)


def _bar(run: JobRun, place: int, longest_s: float) -> RunBar:
    share = (run.duration_s or 0.0) / longest_s if longest_s else 0.0
    height = round(max(HEIGHT_MIN, share * HEIGHT), 1)
    style = GOING if run.outcome is None else STYLES.get(run.outcome, FAILED)
    took = "" if run.duration_s is None else f", {duration(run.duration_s)}"
    label = f"{shown(run.scheduled_at)}Z: {run.outcome or 'it is running'}{took}"
    return RunBar(place * (BAR_WIDTH + BAR_GAP), HEIGHT - height, height, style, label)
