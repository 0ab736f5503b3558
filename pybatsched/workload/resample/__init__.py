"""Many workloads from one log: shaken copies, and logs of resampled users."""
