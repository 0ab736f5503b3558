"""The studies that `pybatsched reproduce` knows, as data: a directory each.

study.toml has the published values and how they are compared with measured ones. campaign.toml has the simulations of
the study, and quick.toml those of --quick, on random workloads.
"""
