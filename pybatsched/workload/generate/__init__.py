"""Random workloads."""
