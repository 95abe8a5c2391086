"""What is measured, and how it gets to Prometheus.

Data goes one way. A shard and a coordinator know what they have done since their start; once a second each sends all
of it in one datagram to its node's exporter and forgets about it. The socket is a file, nobody answers, and nothing
waits: where no exporter listens, firing is as it was. The exporter adds up what each source did since its last
report, reads the tables beside it, and serves both on one port.

    families   every metric there is: its name, kind, labels and what they can be; what isn't here is refused
    report     what a source says, and how it is sent
    board      what the exporter has heard: totals, present values, and which sources live
    tables     what the exporter reads in Postgres: true even when every shard is dead
    page       both as Prometheus reads them
    server     `/metrics`, `/healthz`, `/readyz`
    exporter   the exporter of one node: socket, tables and server together

A total is kept for the series it belongs to (shard 3, say), whichever holders served it; a series goes when no living
source stands behind it, so a killed shard leaves nothing behind.
"""
