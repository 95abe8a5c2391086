"""Run processes: read BPMN models (`model`), evaluate FEEL (`feel`), advance instances by signals (`step`).

All of it is pure: no clock, no database, no Ray. A step is a function of the definition, the state and a signal, so it
can be repeated after a conflict, and tested without waiting for anything.
"""
