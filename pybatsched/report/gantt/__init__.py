"""The Gantt chart: its bars, rows, colors and data columns."""
