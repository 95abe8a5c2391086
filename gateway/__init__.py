"""Serve the HTTP API in a stateless process.

A gateway needs only Postgres, so it accepts requests while no cluster runs.

Any number of gateways may run on one database. Each route calls a use case of `service` or a verb of `sql.clients`. A
gateway itself handles only HTTP: it authenticates the caller, checks the body, and sets the response's status.

    serving      run a gateway: `shardclock gateway`; `protocol` limits one connection
    connections  limit the open connections, in total and by client address
    app          build the application from its parts
    routes       the endpoints of the API
    console      the pages for people
    oidc         the sign-in of people at an identity provider
    upkeep       background tasks of a gateway
    gateway      the pools, limits and queues that all requests of one gateway share
    access       authenticate the caller and check its scope
    fields       read and validate a small JSON body
    combining    write concurrent creates with one statement
    waits        long polling
    reference    the API's reference, as OpenAPI and as a page of HTML
    limits       quotas, rates and concurrency limits
    requests     shared parts of requests and responses
    answers      the models of the responses
    errors       convert each error to the problem in the response
    settings, families   the settings, and the metrics
"""
