"""Statistics of workloads: figures, shares by job field, and a chart."""
