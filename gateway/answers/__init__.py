"""What is answered: the models of the API's reference. Moments are RFC 3339 in UTC; payloads are JSON values.

answer     what all of them share
timers, targets, log, deliveries, endpoints, jobs, processes, incidents, cluster, tenants, audit
           by what they are about
"""
