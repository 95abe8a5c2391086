"""Run BPMN processes: `model` reads a model, `step` advances an instance by a signal, and `drawing` reads a diagram.

All functions are pure, without a clock, a database or Ray. The result of a step depends only on the definition, the
instance's state and the signal, so an engine can repeat a step after a conflict. The package `feel` evaluates the
expressions.
"""
