"""What a tenant may name as an HTTP endpoint, and how one webhook is sent there.

Neither side is trusted. A tenant may name an address inside our network, and an endpoint may hang, drip, answer without
end or redirect to a metadata service. So an address is checked when the socket is made, and every wait, size and number
has a limit. Nothing here knows Postgres or Ray. Workers send with it; clients' use cases check and test endpoints with
it (`service.endpoints`):

    endpoint    what a tenant may name: URL, headers, secrets; one sentence for each refusal
    policy      how often and how fast it is sent to: what the tenant said, completed
    addresses   which addresses are public, and which the operator allows or denies beside those
    names       resolves names in bounded time, to few addresses, for each tenant a share at a time
    guard       makes the sockets, and makes none to an address that is not permitted
    signing     Standard Webhooks: secrets, key pairs, signatures
    envelope    the body: the same bytes in every attempt
    sender      sends, and answers what to do next; the only part with I/O
    connection  what may be said on a connection: one bounded answer to each request
    odd_heads   the status of an answer that breaks the rules of HTTP harmlessly
    turns       whose delivery is sent next, when there are many
    answers     what to do next: `Delivered`, `Retry` or `Gone`
    failures    a failed connection in plain words

A delivery is sent at least once: a receiver that answers and is not heard gets it again, with the same `webhook-id`.
"""
