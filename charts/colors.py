"""The colours that all charts share."""

WHITE, INK, FAINT, GRID = "#ffffff", "#24292f", "#57606a", "#e7eaee"
