"""Workload files: Standard Workload Format, Rackham, and the JSON of Batsim 4 and Batsim 5."""
