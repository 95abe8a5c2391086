"""Series that must or must not set off each alert about processes, added to the healthy series of `alert_cases`."""

from __future__ import annotations

from tests.support.alert_cases import EVERY_OTHER_MINUTE, Case, growing, one, steady, tables


def signals(fate: str, values: str) -> dict[str, str]:
    """Give the engines of both nodes a number of signals with the same outcome."""
    return tables("instance_signals_total", values, signal_fate=fate)


NONE_TAKEN = signals("taken", steady(5_000)) | signals("stale", steady(50))

CASES = [
    Case("processes, and no engine", "ShardclockNoEngineAlive",
         tables("engines_alive", steady(0)), ("ShardclockNoEngineAlive",)),
    Case("no engine before the first deployment", "ShardclockNoEngineAlive",
         tables("engines_alive", steady(0)) | tables("engines_wanted", steady(0))),
    Case("no engine for half a minute", "ShardclockNoEngineAlive",
         tables("engines_alive", "1+0x59 0 1+0x100")),
    Case("one of two engines missing", "ShardclockEnginesMissing",
         tables("engines_wanted", steady(2)), ("ShardclockEnginesMissing",)),
    Case("new engines that are about to start", "ShardclockEnginesMissing",
         tables("engines_wanted", "1+0x55 4+0x100")),
    Case("one engine left, and no process was ever deployed", "ShardclockEnginesMissing",
         tables("engines_wanted", steady(0))),
    Case("an engine lost every other minute", "ShardclockEnginesFlapping",
         one("takeovers_total", EVERY_OTHER_MINUTE, role="engine", reason="died"),
         ("ShardclockEnginesFlapping",)),
    Case("an engine lost in three of 15 minutes", "ShardclockEnginesFlapping",
         one("takeovers_total", "0+0x35 1+0x5 2+0x5 3+0x60", role="engine", reason="died")),
    Case("a worker lost every other minute, and no engine", "ShardclockEnginesFlapping",
         one("takeovers_total", EVERY_OTHER_MINUTE, role="worker", reason="died"),
         ("ShardclockWorkersFlapping",)),
    Case("engines that live and take none of the signals that wait", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", growing(30)) | NONE_TAKEN,
         ("ShardclockNothingAdvances", "ShardclockSignalsWait")),
    Case("all engines dead, with signals that wait", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", growing(30)) | tables("engines_alive", steady(0)),
         ("ShardclockNothingAdvances", "ShardclockSignalsWait", "ShardclockNoEngineAlive"), without="signal_fate="),
    Case("engines that give up one signal after another, and take none", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", growing(30)) | NONE_TAKEN | signals("given_up", growing(10)),
         ("ShardclockNothingAdvances", "ShardclockSignalsWait", "ShardclockSignalsGivenUp")),
    Case("a backlog of signals that is worked off", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", steady(300)), ("ShardclockSignalsWait",)),
    Case("a backlog of signals for which nobody waits any more", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", steady(300)) | NONE_TAKEN | signals("stale", growing(100)),
         ("ShardclockSignalsWait",)),
    Case("no signal waits, and none is taken", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", steady(0)) | NONE_TAKEN),
    Case("a signal that has waited for fifty seconds, and none taken", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", steady(50)) | NONE_TAKEN),
    Case("none taken of what has been due for a moment, after a quiet hour", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", "0+0x57 30+30x100") | NONE_TAKEN),
    Case("signals that wait where nobody wants engines", "ShardclockNothingAdvances",
         tables("oldest_waiting_signal_seconds", growing(30)) | tables("engines_wanted", steady(0)) | NONE_TAKEN,
         ("ShardclockSignalsWait",)),
    Case("signals that wait for ever longer", "ShardclockSignalsWait",
         tables("oldest_waiting_signal_seconds", growing(30)), ("ShardclockSignalsWait",)),
    Case("signals that have waited for fifty seconds", "ShardclockSignalsWait",
         tables("oldest_waiting_signal_seconds", steady(50))),
    Case("signals that are taken after a restart of two minutes", "ShardclockSignalsWait",
         tables("oldest_waiting_signal_seconds", "0+0x53 30 60 90 120 30 0+0x100")),
    Case("an incident a quarter of an hour ago", "ShardclockIncidents",
         tables("incidents_raised_total", "0+0x30 1+0x100"), ("ShardclockIncidents",)),
    Case("an incident an hour ago", "ShardclockIncidents",
         tables("incidents_raised_total", "0+0x30 1+0x300"), at="80m"),
    Case("an incident that nobody resolves", "ShardclockIncidentsOpen",
         tables("incidents_open", "0+0x20 1+0x300"), ("ShardclockIncidentsOpen",), at="90m"),
    Case("incidents that are all resolved within the hour", "ShardclockIncidentsOpen",
         tables("incidents_open", "0+0x20 3+0x100 1+0x10 0+0x300"), at="90m"),
    Case("an incident that was raised half an hour ago", "ShardclockIncidentsOpen",
         tables("incidents_open", "1+0x100")),
    Case("a signal given up a quarter of an hour ago", "ShardclockSignalsGivenUp",
         signals("given_up", "0+0x30 1+0x100"), ("ShardclockSignalsGivenUp",)),
    Case("a signal given up an hour ago", "ShardclockSignalsGivenUp",
         signals("given_up", "0+0x30 1+0x300"), at="80m"),
    Case("signals for which nobody waits any more", "ShardclockSignalsGivenUp",
         signals("stale", growing(50))),
]  # fmt: skip
