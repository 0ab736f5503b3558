"""Orders of the queue (RLScheduler, SC 2020)."""
