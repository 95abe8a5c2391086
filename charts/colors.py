"""The colours that all charts share."""

WHITE, INK, FAINT, GRID = "#ffffff", "#24292f", "#57606a", "#e7eaee"

# Series take these in turn.
PALETTE = ("#1f77b4", "#e8870c", "#2ca02c", "#9467bd", "#17a2b8", "#d6459b", "#8c6d31", "#5b6b7b")

# From few to many, for a heat map.
BLUES = ("#eef4fb", "#cfe1f4", "#a3c8e8", "#6ca7d8", "#3d82c0", "#1c5c9e", "#0b3a73")

# Grafana's names, as they look on white.
NAMED = {
    "red": "#d1242f", "orange": "#e8870c", "yellow": "#d4a72c", "green": "#1a7f37", "blue": "#1f77b4",
    "purple": "#8250df", "text": INK,
}  # fmt: skip
