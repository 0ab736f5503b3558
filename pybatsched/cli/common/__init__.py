"""Code that several commands share: arguments, inputs, progress, signals and the end of a run."""
