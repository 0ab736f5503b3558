"""One conversation and its record: session, journal, replay, explain, diagnosis."""
