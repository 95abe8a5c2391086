"""What is measured, and how it gets to Prometheus.

Data goes one way. Each source (a shard, worker, engine, gateway or coordinator) counts what it did since its start, and
sends all its counts once a second in one datagram to its node's exporter. The datagram goes to a Unix socket, gets no
answer, and is never waited for: firing does not change when no exporter listens. The exporter adds up what each source
did since its last report, reads Postgres's tables as well, and serves both on one port.

    family     what a metric is: its name, kind, labels and their possible values; others are refused
    families   the metrics that are read in the tables; each kind of source declares its own
    report     what a source reports, and how it is sent
    buckets    how a histogram's values are counted
    aggregator what the sources reported: totals, present values, and which sources live
    tables     what the exporter reads in Postgres: true even when every shard is dead
    jobs       the samples of jobs
    reading    the tables as last read, shared by scrapes that come close together
    page       reports and tables in Prometheus's terms
    refusals   why it can't serve
    server     `/metrics`, `/healthz`, `/readyz`
    exporter   the exporter of one node: socket, tables and server together

A total belongs to its series (of shard 3, for example), whichever holders have kept that shard. A series is dropped
when no living source reports it, so a killed shard leaves no series behind.
"""
