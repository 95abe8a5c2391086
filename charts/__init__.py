"""Charts as SVG, for developers: benchmarks and chaos runs.

The standard library is enough, and no module of ours is imported. docs/decisions/0038-charts.md has the reason for no
library.

    svg       shapes and texts as SVG
    colors    the colours that all charts share
    units     values as text, with a unit
    scales    from values to positions on an axis; round ticks
    points    series of points, and their gaps
    plot      the part between two axes: grid, lines, shaded windows
    legend    names with a sample of their colour

A caller makes a `Picture`, places a `Plot` and a `Legend` in it, and gives values; only `scales` uses pixels.
"""
