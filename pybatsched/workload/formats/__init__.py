"""Workload files: Standard Workload Format, and the JSON of Batsim 4 and Batsim 5."""
