"""Steps that add fields or jobs to a workload: deadlines, urgent jobs, moldable types, input files."""
