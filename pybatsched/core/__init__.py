"""State, rules, services and the engine of the scheduler. No input or output."""
