"""The Gantt chart: bars, rows, colors and the data columns that it draws."""
