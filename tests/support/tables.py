"""Small tables in the formats of public sets, with our own values, for tests and fuzzing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MAPPING = """\
[table]
size_in = "nodes"
[columns]
id = "job"
submit = "submitted"
start = "began"
end = "ended"
limit = { column = "limit", unit = "min" }
nodes = "nodes"
user = "who"
state = "state"
"""
HEADER = "job,submitted,began,ended,limit,nodes,who,state"
ROWS = (
    "7,2024-01-01T00:00:00,2024-01-01T00:01:00,2024-01-01T00:11:00,30,4,eve,COMPLETED",
    "8,2024-01-01T00:00:10,2024-01-01T00:11:00,2024-01-01T00:12:00,5,8,bob,FAILED",
)

EAGLE = (
    "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,submit_time,start_time,"
    "end_time,run_time,state,name\n"
    "5,u1,a1,short,normal,3600.0,2,72,1,4096.0,2019-01-01 00:00:00,2019-01-01 00:00:30,2019-01-01 00:10:30,600.0,"
    "COMPLETED,n1\n"
    "6,u2,a1,short,high,7200.0,1,36,0,0.0,2019-01-01 00:00:05,2019-01-01 00:01:00,2019-01-01 02:01:10,7210.0,TIMEOUT,"
    "n2\n"
)
SUPERCLOUD = (
    "id_job,id_user,partition,state,time_submit,time_eligible,time_start,time_end,timelimit,cpus_req,nodes_alloc,"
    "priority,constraints,tres_req,tres_alloc\n"
    '11,501,p,3,1609459200,1609459260,1609459300,1609459900,60,40,1,7,xeon|volta,"1=40,2=8192,4=1,1002=2","1=40,2=8192,4=1,1002=2"\n'
    '12,502,p,4,1609459205,0,0,0,4294967295,8,0,7,,"1=8,2=1024,4=1",""\n'
    '13,502,p,6,1609459210,1609459210,1609459310,1609463000,4294967295,8,1,7,,"1=8,2=1024,4=1","1=8,1001=1"\n'
)
ALCF = (
    "JOB_NAME,COBALT_JOBID,MACHINE_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,USERNAME_GENID,"
    "PROJECT_NAME_GENID,QUEUE_NAME,WALLTIME_SECONDS,RUNTIME_SECONDS,NODES_USED,NODES_REQUESTED,CORES_USED,"
    "CORES_REQUESTED,EXIT_STATUS\n"
    "21.theta,21,theta,2020-01-01 00:00:00,2020-01-01 00:02:00,2020-01-01 00:12:00.500000,1,2,default,1800.0,600.5,"
    "128.0,128.0,8192.0,8192.0,0\n"
)
LUMOS = (
    ",job,user,project,state,gpu_num,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,node_hour,new_status\n"
    "0,31,77,88,0,0,8192.0,512.0,1535348017.0,100,600.0,900.0,1.0,Pass\n"
    "1,32,78,88,143,0,16.0,1.0,1535348020.0,5,30.0,60.0,1.0,Killed\n"
)
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "41,uA,vc1,8,64,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:51:11,600,10\n"
    "42,uB,vc2,0,4,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
)
PHILLY: list[dict[str, Any]] = [
    {
        "status": "Pass",
        "vc": "v1",
        "jobid": "application_1_51",
        "user": "p1",
        "submitted_time": "2017-10-07 01:00:00",
        "attempts": [
            {
                "start_time": "2017-10-07 01:01:00",
                "end_time": "2017-10-07 01:02:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
            },
            {
                "start_time": "2017-10-07 01:03:00",
                "end_time": "2017-10-07 01:13:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0"]}, {"ip": "m2", "gpus": ["gpu0", "gpu3"]}],
            },
        ],
    },
    {"status": "Killed", "vc": "v1", "jobid": "application_1_52", "user": "p2", "submitted_time": "2017-10-07 01:00:30",
     "attempts": []},
]  # fmt: skip
PM100: dict[str, list[Any]] = {
    "job_id": [61, 62],
    "submit_time": ["2020-05-01T00:00:00+00:00", "2020-05-01T00:00:20+00:00"],
    "eligible_time": ["2020-05-01T00:00:10+00:00", "2020-05-01T00:00:20+00:00"],
    "start_time": ["2020-05-01T00:01:00+00:00", "2020-05-01T00:02:00+00:00"],
    "end_time": ["2020-05-01T00:11:00+00:00", "2020-05-01T00:03:00+00:00"],
    "run_time": [600, 60],
    "time_limit": [30, 1440],
    "num_nodes_req": [2, 1],
    "num_nodes_alloc": [2, 1],
    "num_cores_alloc": [256, 128],
    "num_cores_req": [256, 128],
    "num_gpus_alloc": [8, 4],
    "num_gpus_req": [8, 4],
    "mem_req": [480.0, 240.0],
    "node_power_consumption": [[1000, 2000], [500]],
    "shared": ["0", "1"],
    "user_id": [5, 6],
    "partition": [1, 1],
    "qos": [0, 1],
    "priority": [1000, 2000],
    "job_state": ["COMPLETED", "FAILED"],
}
FDATA: dict[str, list[Any]] = {
    "jid": ["a1", "b2"],
    "usr": ["u01", "u02"],
    "jnam": ["j1", "j2"],
    "adt": ["2023-06-01 09:00:00", "2023-06-01 09:01:00"],
    "qdt": ["2023-06-01 09:00:00", "2023-06-01 09:01:00"],
    "sdt": ["2023-06-01 09:10:00", None],
    "edt": ["2023-06-01 09:40:00", None],
    "duration": [1800.0, 0.0],
    "elpl": [3600.0, 600.0],
    "cnumr": [96, 48],
    "cnumat": [96, 0],
    "nnumr": [2, 1],
    "nnuma": [2, 1],
    "mszl": [28 * 2.0**30, 2.0**64],
    "pri": [1, 1],
    "econ": [100.0, None],
    "avgpcon": [200.0, None],
    "exit state": ["completed", "failed"],
    "ec": [0, 1],
}
TEXTS = {"eagle": EAGLE, "supercloud": SUPERCLOUD, "alcf": ALCF, "lumos": LUMOS, "helios": HELIOS}
FRAMES: dict[str, dict[str, list[Any]]] = {"pm100": PM100, "fdata": FDATA}


def text_table(folder: Path, *rows: str, header: str = HEADER, name: str = "jobs.csv") -> Path:
    """Write a table as text and give its path."""
    file = folder / name
    file.write_text("".join(f"{one}\n" for one in (header, *rows)), encoding="utf-8")
    return file


def mapping(folder: Path, text: str = MAPPING) -> str:
    """Write a mapping and give its path."""
    file = folder / "mapping.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def one_of(name: str, folder: Path) -> Path:
    """Write a small table in the form of a public set, and give its path."""
    if name in TEXTS:
        file = folder / f"{name}.csv"
        file.write_text(TEXTS[name], encoding="utf-8")
    elif name == "philly":
        file = folder / "cluster_job_log"
        file.write_text(json.dumps(PHILLY), encoding="utf-8")
    else:
        file = folder / f"{name}.parquet"
        parquet(file, FRAMES[name])
    return file


def parquet(file: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a Parquet file."""
    import polars as pl

    pl.DataFrame(columns).write_parquet(file)
