"""What requests and answers have in common.

key_lookups  API keys are looked up, many by one statement
callers      whose request this is, and whether it may
problems     what is answered when something is not done
bodies       read a body, bounded
asked        what several routes are asked alike
paths        keys and names in paths
queries      a query has known parameters, each once
headers      each header that is heeded is given once; HEAD is answered as GET
malformed    what is no request of HTTP is told why
idempotency  a request that is sent again does nothing twice
recording    a record in the audit for each act of an operator
wait         for how long a caller wants to wait
listing      answers that may be long
"""
