"""Processes: deployed models, their instances, and what an engine reads and writes to advance them.

definitions  deploy a model, find what is deployed
instances    start, find and signal instances, as clients do
tasks        what people do
variables    variables as JSON that Postgres can hold
incidents    find tokens that can't go on
service_tasks  what programs do that take their work themselves
signals      the signals that are due, with the instances that they are for
apply        one statement that writes what follows from a batch of signals
"""
