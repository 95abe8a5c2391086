"""Run processes in BPMN: `model` reads a model, and `step` advances an instance by a signal; `drawing` reads a drawing.

All three are pure: they use no clock, no database and no Ray. A step depends only on the definition, the state and a
signal, so an engine can repeat a step after a conflict. The package `feel` evaluates the expressions.
"""
