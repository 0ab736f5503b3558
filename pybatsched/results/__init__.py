"""The files of a run: the state of the run, and the replacement of old results by new ones."""
