"""Charts as SVG, for developers: benchmarks and chaos runs.

The standard library is enough, and nothing of ours is imported. docs/decisions/0038-charts.md says why no library is
used.

    svg       shapes and texts as SVG
    colors    the colours that all charts share
    units     values as text, with a unit
    scales    from values to places on an axis; round ticks
    points    series of points, and where they have gaps
    plot      the part between two axes: grid, lines, shaded windows
    legend    names with a sample of their colour

A caller makes a `Picture`, places a `Plot` and a `Legend` in it, and gives values; only `scales` knows of pixels.
"""
