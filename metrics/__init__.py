"""Collect metrics and serve them to Prometheus.

Data goes in one direction. Each source (a shard, worker, engine, gateway or coordinator) counts its events since its
start, and sends all counts once a second in one datagram to its node's exporter. The datagram goes to a Unix socket and
gets no answer. The source does not wait for the exporter, so a missing exporter has no effect on firing. The exporter
adds the increase since each source's last report to its totals, reads Postgres's tables, and serves both on one port.

    family       the definition of a metric: its name, kind, labels and their possible values
    families     the metrics that the exporter reads in the tables; each kind of source declares its own metrics
    report       a source's report, and how it is sent
    buckets      the buckets of a histogram
    aggregator   the totals and present values of all reports, and the living sources
    tables the figures that the exporter reads in Postgres, which are correct even if all shards are dead
    jobs         the samples of jobs
    table_reader the last reading of the tables, shared by scrapes within a few seconds
    page         reports and tables in Prometheus's format
    refusals     the errors of an exporter that can't listen
    server       `/metrics`, `/healthz`, `/readyz`
    exporter     the exporter of one node: socket, tables and server

A total belongs to its series (of shard 3, for example) and continues when another holder takes over the shard. A series
is dropped when no living source reports it, so a killed shard leaves no series behind.
"""
