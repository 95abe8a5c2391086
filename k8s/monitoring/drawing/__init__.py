"""Draw the dashboards as pictures from a Prometheus's data: `python -m k8s.monitoring.drawing --help`.

For docs, reports and postmortems, where no Grafana is at hand. Only the standard library is needed.

    boards    a dashboard's panels and queries, with Grafana's variables filled in
    source    the Prometheus they are asked of
    scales    from values to places, and to words with a unit
    svg       shapes and texts as SVG
    charts    one kind of panel each: lines, areas, bars, a heat map, a single number
    page      panels laid out as in Grafana
"""
