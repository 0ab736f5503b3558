"""What is done to pybatsched on purpose, at length, to see that it bears it."""
