"""A dashboard as Grafana's JSON."""

import json
from collections.abc import Callable
from typing import Any

from k8s.monitoring.dashboards.spec import BarTable, Dashboard, Heatmap, Panel, PanelPosition, Query, Stat, TimeSeries

PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}
RUNBOOKS = "docs/operate/runbooks"
FILL_PERCENT = {"lines": 5, "stacked": 40, "bars": 100}
LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True}


def to_json(dashboard: Dashboard) -> str:
    """Write a dashboard in Grafana's format."""
    return json.dumps(_dashboard(dashboard), indent=2, ensure_ascii=False) + "\n"


def _dashboard(dashboard: Dashboard) -> dict[str, Any]:
    panels = enumerate(dashboard.places(), 1)
    return {
        "uid": f"shardclock-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["shardclock"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # all panels show the same crosshair
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "links": _links(),
        "annotations": {"list": []},
        "templating": {"list": _variables()},
        "panels": [_panel(number, panel, place) for number, (panel, place) in panels],
    }


def _links() -> list[dict[str, Any]]:
    others = {
        "type": "dashboards",
        "title": "Shardclock",
        "tags": ["shardclock"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "icon": "external link",
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
    runbooks = {
        "type": "link",
        "title": "Runbooks",
        "url": "${docs}docs/operate/monitoring.md",
        "icon": "doc",
        "targetBlank": True,
        "includeVars": False,
        "keepTime": False,
        "tags": [],
        "tooltip": "The descriptions of each metric and alert",
        "asDropdown": False,
    }
    return [others, runbooks]


def _variables() -> list[dict[str, Any]]:
    """Return the dashboard's variables: the Prometheus data source, the installation, and the address of the docs."""
    single: dict[str, Any] = {"multi": False, "includeAll": False, "current": {}, "options": []}
    datasource = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    jobs = "label_values(shardclock_build_info, job)"
    job = {"name": "job", "label": "Installation", "type": "query", "datasource": PROMETHEUS}
    docs = {
        "name": "docs",
        "label": "Docs at",
        "description": "The address at which this repository's docs are served, with a slash at its end",
        "type": "textbox",
        "query": "/",
        "hide": 0,
        "current": {"text": "/", "value": "/"},
        "options": [{"selected": True, "text": "/", "value": "/"}],
    }
    return [
        datasource | {"hide": 0, "refresh": 1, "regex": ""} | single,
        job
        | {"query": {"query": jobs, "refId": "job"}, "definition": jobs}
        | {"hide": 0, "refresh": 2, "regex": "", "sort": 1}
        | single,
        docs,
    ]


def _panel(number: int, panel: Panel | str, place: PanelPosition) -> dict[str, Any]:
    at = {"h": place.height, "w": place.width, "x": place.x, "y": place.y}
    if isinstance(panel, str):
        return {"id": number, "type": "row", "title": panel, "collapsed": False, "panels": [], "gridPos": at}
    kind, fields = KINDS[type(panel)]
    return {
        "id": number,
        "type": kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": PROMETHEUS,
        "gridPos": at,
        **fields(panel),
        **({"links": [_runbook(alert) for alert in panel.runbooks]} if panel.runbooks else {}),
        "targets": [_target(panel, number, query) for number, query in enumerate(panel.queries)],
    }


def _runbook(alert: str) -> dict[str, Any]:
    return {"title": f"Runbook: {alert}", "url": f"${{docs}}{RUNBOOKS}/{alert}.md", "targetBlank": True}


def _target(panel: Panel, number: int, query: Query) -> dict[str, Any]:
    target = {"refId": _ref(number), "datasource": PROMETHEUS, "expr": query.expr, "legendFormat": query.legend}
    match panel:
        case BarTable():
            return target | {"range": False, "instant": True, "format": "table"}
        case Heatmap():
            return target | {"range": True, "format": "heatmap"}
        case _:
            return target | {"range": True}


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _stat(panel: Stat) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": panel.color, "value": None}]
    steps += [{"color": color, "value": value} for value, color in panel.color_from.items()]
    named = {
        str(value): {"text": text, "color": color, "index": number}
        for number, (value, (text, color)) in enumerate(panel.names.items())
    }
    defaults = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "thresholds"},
        **({} if panel.decimals is None else {"decimals": panel.decimals}),
        **({"mappings": [{"type": "value", "options": named}]} if named else {}),
    }
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area" if panel.sparkline else "none",
        "textMode": panel.shows,
        "justifyMode": "auto",
    }
    return {"fieldConfig": {"defaults": defaults, "overrides": []}, "options": options}


def _time_series(panel: TimeSeries) -> dict[str, Any]:
    defaults = {
        "unit": panel.unit,
        "color": {"mode": "palette-classic"},
        **({"min": 0} if panel.from_zero else {}),
        "custom": {
            "drawStyle": "bars" if panel.style == "bars" else "line",
            "lineWidth": 1,
            "fillOpacity": FILL_PERCENT[panel.style],
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "none" if panel.style == "lines" else "normal", "group": "A"},
            "scaleDistribution": {"type": "log", "log": 10} if panel.log else {"type": "linear"},
        },
    }
    overrides = [_override(query) for query in panel.queries if query.color or query.dashed]
    options = {"legend": LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {"fieldConfig": {"defaults": defaults, "overrides": overrides}, "options": options}


def _override(query: Query) -> dict[str, Any]:
    properties: list[dict[str, Any]] = []
    if query.color:
        properties.append({"id": "color", "value": {"mode": "fixed", "fixedColor": query.color}})
    if query.dashed:
        properties.append({"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [6, 4]}})
        properties.append({"id": "custom.fillOpacity", "value": 0})
    return {"matcher": {"id": "byName", "options": query.legend}, "properties": properties}


def _heatmap(panel: Heatmap) -> dict[str, Any]:
    defaults = {
        "unit": panel.unit,
        "custom": {
            "scaleDistribution": {"type": "linear"},
            "hideFrom": {"legend": False, "tooltip": False, "viz": False},
        },
    }
    options = {
        "calculate": False,  # the values are already counts in buckets, so Grafana must not count them again
        "yAxis": {"unit": panel.edge_unit, "axisPlacement": "left", "reverse": False},
        "rowsFrame": {"layout": "auto"},
        "cellGap": 1,
        "filterValues": {"le": 1e-9},  # cells with a smaller value are empty
        "color": {
            "mode": "scheme",
            "scheme": "Blues",
            "fill": "dark-blue",
            "exponent": 0.5,
            "scale": "exponential",
            "steps": 64,
            "reverse": False,
        },
        "tooltip": {"mode": "single", "yHistogram": True},
        "legend": {"show": True},
    }
    return {"fieldConfig": {"defaults": defaults, "overrides": []}, "options": options}


def _bar_chart(panel: BarTable) -> dict[str, Any]:
    defaults = {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": "palette-classic"},
        "custom": {"lineWidth": 1, "fillOpacity": 70, "axisLabel": panel.value_label},
    }
    options = {
        "xField": panel.label,
        "orientation": "vertical",
        "stacking": "none",
        "showValue": "never",
        "legend": LEGEND,
        "tooltip": {"mode": "multi", "sort": "none"},
    }
    # Each query returns a table with a column for the time; Grafana joins the tables to one table of labels and values.
    times = ["Time", *(f"Time {number}" for number, _ in enumerate(panel.queries, 1))]
    names = {f"Value #{_ref(number)}": query.legend for number, query in enumerate(panel.queries)}
    transformations = [
        {"id": "joinByField", "options": {"byField": panel.label, "mode": "outer"}},
        {"id": "organize", "options": {"excludeByName": dict.fromkeys(times, True), "renameByName": names}},
    ]
    fields = {"fieldConfig": {"defaults": defaults, "overrides": []}, "options": options}
    return fields | {"transformations": transformations}


KINDS: dict[type[Panel], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    Stat: ("stat", _stat),
    TimeSeries: ("timeseries", _time_series),
    Heatmap: ("heatmap", _heatmap),
    BarTable: ("barchart", _bar_chart),
}
