"""Comparisons of runs: figure by figure, job by job, and by groups with confidence intervals."""
