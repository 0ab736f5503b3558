"""The studies that `pybatsched reproduce` knows, as data: a directory each.

study.toml has what was published and how it is to be taken, campaign.toml what is run for it, and quick.toml what is
run with --quick, on random workloads.
"""
