"""The policies that come with pybatsched, one a file; installed as `pybatsched_schedulers`."""
