"""Check the HTTP endpoints of tenants, and send webhooks to them.

The package does not trust tenants and endpoints. A tenant may name an address inside our network, so `guard` checks the
address of each socket. An endpoint may hang, send an endless answer or redirect to a metadata service, so every wait,
size and number has a limit. The package uses neither Postgres nor Ray. Workers send webhooks with this package;
`service.endpoints` checks and tests endpoints with it. The modules:

    endpoint:        checks an endpoint: URL, headers, secrets; one sentence for each refusal
    policy_defaults: completes a tenant's policy for an endpoint: attempts, timeouts, rate
    addresses:       decides which addresses are permitted: public addresses, with the operator's exceptions
    resolver:        resolves names to a few addresses in limited time, and limits each tenant's share of the threads
    guard:           creates the sockets, and refuses addresses that are not permitted
    signing:         Standard Webhooks: secrets, key pairs, signatures
    envelope:        the body: the same bytes in every attempt
    sender:          sends a webhook, and returns the classified answer; only this module does I/O
    connection:      accepts one answer of limited size to each request on a connection
    malformed_head:  reads the status of an answer that breaks HTTP's rules in a harmless way
    fair_semaphore:  limits concurrent requests; tenants and hosts take turns
    answer_classification:  classifies an endpoint's answer: `Delivered`, `RetryDelivery` or `EndpointGone`
    connection_failures:    classifies a failed connection, and describes it in words

A delivery is sent at least once. If the receiver's answer is lost, the receiver gets the delivery again, with the same
`webhook-id`.
"""
