"""The HTTP API: an ordinary stateless process that talks to Postgres only, so it accepts while no cluster runs.

Any number of gateways may run on one database. Each route is a use case of `service` or a verb of `sql.clients`; what
is decided here is only how HTTP says it: who asks, what a body may be, and which status an outcome has.

    serving    run it: `shardclock gateway`, with `protocol`, which bounds what one connection may send
    connections  so many are open, in all and by address
    app        put the parts together
    routes     what can be asked for
    upkeep     what a gateway does beside requests
    gateway    the parts of one gateway, which its requests share
    access     who asks, and whether that may be asked
    fields     a body of a few fields, read and refused
    combining  many creates at the same time become one statement
    waits      those who wait for something
    reference  the reference of the API, for programs and for people
    limits     how much at once, and how much one tenant may have
    requests   what requests and answers have in common
    answers    what is answered: the models of the reference
    errors     by which problem each error is answered
    settings, families   its numbers, and its metrics
"""
