"""The policies that come with pybatsched, one a file; installed as `pybatsched_schedulers`."""

#: The modules and classes of the policies, as in the entry points of the package. They are found without a search of
#: all installed packages, which takes longer than a short run.
POLICIES = {
    "fcfs": "pybatsched_schedulers.fcfs:Fcfs",
    "easy": "pybatsched_schedulers.easy:Easy",
    "conservative": "pybatsched_schedulers.conservative:Conservative",
    "redirection": "pybatsched_schedulers.redirection.policy:Redirection",
    "dbf": "pybatsched_schedulers.dbf.policy:Dbf",
    "ujf": "pybatsched_schedulers.ujfb.policy:Ujf",
    "ujfb": "pybatsched_schedulers.ujfb.policy:Ujfb",
    "locality": "pybatsched_schedulers.locality.policy:Locality",
    "reallocation": "pybatsched_schedulers.reallocation.policy:Reallocation",
    "published_predictsim": "pybatsched_schedulers.published_predictsim:PublishedPredictsim",
    "published_rlscheduler": "pybatsched_schedulers.published_rlscheduler:PublishedRlscheduler",
    "rl": "pybatsched_schedulers.rl:Rl",
}
