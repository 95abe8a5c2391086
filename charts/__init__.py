"""Charts as SVG, for developers: benchmarks and chaos runs.

The package imports only the standard library; docs/decisions/0038-charts.md has the reason.

    svg       shapes and texts as SVG
    colors    the colours that all charts share
    units     values as text, with a unit
    scales    from values to positions on an axis; round ticks
    points    series of points, and their gaps
    plot      the part between two axes: grid, lines, shaded windows
    legend    names with a sample of their colour

A caller creates a `Picture`, adds a `Plot` and a `Legend`, and passes values; only `scales` converts values to pixels.
"""
