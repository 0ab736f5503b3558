"""The files of a run, from its first moment to its end: what state they are in, and how new ones replace old ones."""
