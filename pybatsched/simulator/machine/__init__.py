"""The simulated machine: hosts, their power states and their energy."""
