"""Tables as logs of jobs: Parquet, CSV and JSON, read by a mapping of their columns."""
