"""Experiments in a notebook or a script: simulations that are run step by step, copied and compared."""
