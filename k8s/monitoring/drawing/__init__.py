"""Draw the dashboards as pictures from a Prometheus's data: `python -m k8s.monitoring.drawing --help`.

For docs, reports and postmortems, where no Grafana is at hand. Only the standard library is needed.

    source    the Prometheus that is asked
    panels    one kind of panel each: a single number, series over time, a heat map, bars
    page      panels laid out as in Grafana
"""
