"""Services of the engine for every policy: kill-and-requeue, derived jobs, predicted run times."""
