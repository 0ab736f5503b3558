"""What the engine does for every policy: see `service` for the steps, and `order` for the services of a run."""
