"""The models of the API's responses, for the API reference. Moments are RFC 3339 in UTC; payloads are JSON values.

answer     shared parts: examples, moments and JSON values
timers, targets, log, deliveries, endpoints, notify, jobs, processes, incidents, cluster, tenants, operations,
audit
           the models by subject
"""
