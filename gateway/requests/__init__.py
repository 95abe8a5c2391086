"""The shared parts of requests and responses.

key_lookups    look up API keys, many with one statement
callers        the caller of a request, and its rights
problems       the response of a refused or failed request
bodies         read a body, with limits
shared_fields  fields that several routes share
paths          keys and names in paths
queries        check that a query has known parameters, without repetitions
origins        compare the page that a browser names with the gateway's addresses
headers        refuse repeated headers; answer HEAD as GET
malformed      explain why bytes are not an HTTP request
idempotency    answer a repeated request without a second effect
recording      write an audit record for each change by an operator
wait           the parameter `wait`
listing        long responses
page_cursors   the `next` of a page, and the `after` of the next request
"""
