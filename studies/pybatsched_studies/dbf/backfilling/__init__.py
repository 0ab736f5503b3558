"""Conservative backfilling, the baseline of the study of deadlines, with EASY and FCFS beside it."""
