"""What is answered: the models of the API's reference. Moments are RFC 3339 in UTC; payloads are JSON values.

answer     what all of them share
timers, log, deliveries, endpoints, jobs, cluster, tenants, audit   by what they are about
"""
