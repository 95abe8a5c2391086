"""Check the HTTP endpoints of tenants, and send webhooks to them.

The package does not trust tenants and endpoints. A tenant may name an address inside our network, so `guard` checks the
address of each socket. An endpoint may hang, send an endless answer or redirect to a metadata service, so every wait,
size and number has a limit. The package uses neither Postgres nor Ray. Workers send webhooks with this package;
`service.endpoints` checks and tests endpoints with it. The modules:

    endpoint:        checks an endpoint: URL, headers, secrets; one sentence for each refusal
    policy_defaults: completes a tenant's policy for an endpoint: attempts, timeouts, rate
    addresses:       decides which addresses are permitted: public addresses, with the operator's exceptions
    resolver:        resolves names in bounded time to few addresses, and limits each tenant's share of the threads
    guard:           makes the sockets, and refuses addresses that are not permitted
    signing:         Standard Webhooks: secrets, key pairs, signatures
    envelope:        the body: the same bytes in every attempt
    sender:          sends a webhook, and returns the next step; only this module does I/O
    connection:      accepts one bounded answer to each request on a connection
    malformed_head:  reads the status of an answer with a harmless breach of HTTP's rules
    fair_semaphore:  limits the requests: tenants and hosts take turns
    answer_classification:  classifies an endpoint's answer: `Delivered`, `RetryDelivery` or `EndpointGone`
    connection_failures:    classifies a failed connection, and describes it in words

A delivery is sent at least once. If the receiver's answer is lost, the receiver gets the delivery again, with the same
`webhook-id`.
"""
