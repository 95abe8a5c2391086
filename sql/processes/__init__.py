"""Processes: deployed models, their instances, and the statements of engines.

definitions  deploy and list models
instances    start, find and signal instances, for clients
tasks        tasks for people
variables variables as JSON that Postgres can store
incidents    find and resolve incidents
waits        count the waits of a version's instances, and find the instances that wait at an element
service_tasks  service tasks for programs that poll for tasks
signals      due signals, and the instances that receive due signals
apply        one statement that writes the results of a batch of signals
"""
