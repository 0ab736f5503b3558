"""The names of slurm.conf 20.11 to 25.05, and the parameters with an effect on scheduling that is not simulated."""

from __future__ import annotations

from typing import Final

_words: Final = str.split

#: Parameters of a whole line.
PARAMETERS: Final = _words(
    "AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost "
    "AccountingStorageLoc AccountingStorageParameters AccountingStoragePass AccountingStoragePort "
    "AccountingStorageTRES AccountingStorageType AccountingStorageUser AccountingStoreFlags "
    "AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType "
    "AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage AuthAltParameters "
    "AuthAltTypes AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude BcastParameters "
    "BurstBufferParameters BurstBufferType CacheGroups CertgenParameters CertgenType CertmgrParameters CertmgrType "
    "CheckpointType CliFilterPlugins ClusterName CommunicationParameters CompleteWait ControlAddr ControlMachine "
    "CoreSpecPlugin CpuFreqDef CpuFreqGovernors CredType CryptoType DataParserParameters DebugFlags "
    "DefaultStorageHost DefaultStorageLoc DefaultStoragePass DefaultStoragePort DefaultStorageType "
    "DefaultStorageUser DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode DependencyParameters DisableRootJobs "
    "DownNodes EioTimeout EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld EpilogTimeout ExtSensorsFreq "
    "ExtSensorsType FairShareDampeningFactor FastSchedule FederationParameters FirstJobId FrontendName "
    "GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime HashPlugin HealthCheckInterval "
    "HealthCheckNodeState HealthCheckProgram InactiveLimit InteractiveStepOptions JobAcctGatherFrequency "
    "JobAcctGatherParams JobAcctGatherType JobCheckpointDir JobCompHost JobCompLoc JobCompParams JobCompPass "
    "JobCompPort JobCompType JobCompUser JobContainerType JobCredentialPrivateKey JobCredentialPublicCertificate "
    "JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime KillOnBadExit KillWait LaunchParameters LaunchType "
    "Licenses LogTimeFormat MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId "
    "MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MemLimitEnforce "
    "MessageTimeout MinJobAge MpiDefault MpiParams NodeFeaturesPlugins NodeName NodeSet OverTimeLimit "
    "PartitionName PluginDir PlugStackConfig PowerParameters PowerPlugin PreemptExemptTime PreemptMode "
    "PreemptParameters PreemptType PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife "
    "PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters PrioritySiteFactorParameters "
    "PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc "
    "PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES "
    "PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags PrologSlurmctld PrologTimeout "
    "PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram ReconfigFlags "
    "RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun "
    "ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters SchedulerAuth "
    "SchedulerParameters SchedulerPort SchedulerRootFilter SchedulerTimeSlice SchedulerType ScronParameters "
    "SelectType SelectTypeParameters SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldLogFile "
    "SlurmctldParameters SlurmctldPidFile SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg "
    "SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug SlurmdLogFile SlurmdParameters "
    "SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile "
    "SlurmSchedLogLevel SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes "
    "SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters "
    "SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS "
    "TopologyParam TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout UsePAM "
    "VSizeFactor WaitTime X11Parameters"
)

#: Parameters of a node line, a partition line, and other lines that begin with their own name.
OF_LINES: Final = {
    "NodeName": _words(
        "BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CPUSpecList Feature Features Gres MemSpecLimit "
        "NodeAddr NodeHostname Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets SocketsPerBoard State "
        "ThreadsPerCore TmpDisk Topology TRESWeights Weight"
    ),
    "PartitionName": _words(
        "AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime DefCPUPerGPU DefMemPerCPU "
        "DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs ExclusiveTopo ExclusiveUser GraceTime Hidden "
        "LLN MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe "
        "OverTimeLimit PowerDownOnIdle PreemptMode Priority PriorityJobFactor PriorityTier QOS ReqResv ResumeTimeout "
        "RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout Topology TRESBillingWeights"
    ),
    "NodeSet": ["Feature", "Nodes"],
    "DownNodes": ["Reason", "State"],
    "FrontendName": _words("AllowGroups AllowUsers DenyGroups DenyUsers FrontendAddr Port Reason State"),
}

#: The parameters of gres.conf.
OF_GRES: Final = _words("AutoDetect Count CPUs Cores File Files Flags Link Links MultipleFiles Name NodeName Type")

#: Options of SchedulerParameters that are simulated: their least and greatest values. None stands for no value.
SCHEDULING: Final[dict[str, tuple[int, int] | None]] = {
    "batch_sched_delay": (0, 2**31),
    "bf_interval": (-1, 10_800),
    "bf_max_job_array_resv": (0, 1_000),
    "bf_max_job_part": (0, 1_000_000),
    "bf_max_job_start": (0, 10_000),
    "bf_max_job_test": (1, 1_000_000),
    "bf_max_job_user": (0, 1_000_000),
    "bf_min_age_reserve": (0, 2_592_000),
    "bf_one_resv_per_job": None,
    "bf_resolution": (1, 3_600),
    "bf_window": (1, 43_200),
    "default_queue_depth": (0, 2**31),
    "partition_job_depth": (0, 2**31),
    "sched_interval": (-1, 2**31),
    "sched_max_job_start": (0, 2**31),
}

#: Options of SchedulerParameters without effect here: they limit the work of slurmctld, or concern what is not a job.
NO_EFFECT: Final = _words(
    "allow_zero_lic bb_array_stage_cnt bf_continue bf_max_time bf_yield_interval bf_yield_rpc_cnt "
    "bf_yield_rpc_count bf_yield_sleep build_queue_timeout correspond_after_task_cnt defer defer_batch "
    "disable_hetjob_steps disable_hetero_steps disable_job_shrink enable_hetjob_steps "
    "enable_hetero_steps enable_job_state_cache enable_user_top Ignore_NUMA ignore_constraint_validation "
    "ignore_prefer_validation inventory_interval "
    "max_array_tasks max_depend_depth max_rpc_cnt max_rpc_count max_sched_time max_script_size "
    "max_submit_line_size no_backup_scheduling no_env_cache nohold_on_prolog_fail permit_job_expansion "
    "requeue_on_resume_failure requeue_setup_env_fail salloc_wait_nodes sbatch_wait_nodes sched_min_interval "
    "spec_cores_first step_retry_count step_retry_time suspend_grace_time whole_hetjob whole_pack"
)

#: Options of SchedulerParameters that are not simulated, and the effect of this.
NOT_SIMULATED_OPTIONS: Final = {
    "assoc_limit_stop": "a job at a limit of its association does not block its partition",
    "bf_allow_magnetic_slot": "magnetic reservations do not exist",
    "bf_busy_nodes": "planned jobs do not prefer busy nodes",
    "bf_hetjob_immediate": "the parts of a heterogeneous job are jobs of their own",
    "bf_hetjob_prio": "the parts of a heterogeneous job are jobs of their own",
    "bf_job_part_count_reserve": "backfill plans all jobs",
    "bf_licenses": "jobs do not wait for licences",
    "bf_max_job_assoc": "backfill tests any number of jobs of an association",
    "bf_max_job_user_part": "backfill tests any number of jobs of a user in a partition",
    "bf_min_prio_reserve": "backfill plans jobs of any priority",
    "bf_node_space_size": "backfill's table has no limit",
    "bf_running_job_reserve": "running jobs are not in backfill's table",
    "bf_topopt_enable": "nodes are chosen without the topology",
    "bf_topopt_iterations": "nodes are chosen without the topology",
    "bf_window_linear": "the windows of backfill's test double",
    "delay_boot": "nodes are not booted for a job",
    "extra_constraints": "extra constraints of jobs are ignored",
    "kill_invalid_depend": "a job whose dependency cannot be met waits",
    "max_switch_wait": "jobs do not wait for switches",
    "pack_serial_at_end": "serial jobs take nodes by best fit",
    "preempt_reorder_count": "the preempted jobs are reordered once",
    "preempt_strict_order": "the preempted jobs are in the usual order",
    "preempt_youngest_first": "the preempted jobs are in the usual order",
    "reduce_completing_frag": "completing nodes do not hold other jobs back",
    "time_min_as_soft_limit": "minimum times of jobs are ignored",
}

#: Parameters of a line that are not simulated: values with the same effect as the simulation, and the effect.
NOT_SIMULATED: Final[dict[str, tuple[str, str]]] = {
    "BurstBufferType": ("burst_buffer/none none", "jobs do not wait for burst buffers"),
    "CompleteWait": ("0", "completing jobs do not hold other jobs back"),
    "DefCPUPerGPU": ("0", "jobs with GPUs get the CPUs that they ask for"),
    "DefMemPerGPU": ("0", "jobs with GPUs get the memory that they ask for"),
    "DependencyParameters": ("none disable_remote_singleton", "dependencies are those of jobs without options"),
    "FederationParameters": ("", "the cluster is alone"),
    "JobSubmitPlugins": ("none", "jobs are taken as they are in the log"),
    "Licenses": ("", "jobs do not wait for licences"),
    "MaxMemPerCPU": ("0 unlimited", "jobs may ask for any memory"),
    "MaxMemPerNode": ("0 unlimited", "jobs may ask for any memory"),
    "MCSPlugin": ("mcs/none none", "users share nodes without labels"),
    "NodeFeaturesPlugins": ("node_features/none none", "nodes keep their features"),
    "PreemptExemptTime": ("-1 0 00:00:00 unlimited infinite", "running jobs can be preempted at once"),
    "PreemptParameters": ("", "preempted jobs are in the usual order"),
    "PrioritySiteFactorPlugin": ("site_factor/none none", "the site factor is 0"),
    "ResvOverRun": ("0", "jobs of a reservation end with it"),
    "SuspendTime": ("-1 none infinite", "idle nodes are not powered down"),
    "TopologyPlugin": ("topology/none none topology/default default topology/flat flat", "switches are ignored"),
}

#: The same for partition lines.
NOT_SIMULATED_OF_PARTITIONS: Final[dict[str, tuple[str, str]]] = {
    "AllowGroups": ("all", "users of all groups can use the partition"),
    "Alternate": ("", "jobs stay in their partition"),
    "DefCPUPerGPU": ("0", "jobs with GPUs get the CPUs that they ask for"),
    "DefMemPerGPU": ("0", "jobs with GPUs get the memory that they ask for"),
    "ExclusiveTopo": ("no", "jobs share blocks of nodes"),
    "ExclusiveUser": ("no", "users share nodes"),
    "GraceTime": ("0", "preempted jobs end at once"),
    "LLN": ("no", "the least loaded nodes are not preferred"),
    "MaxCPUsPerNode": ("0 unlimited", "jobs may use all CPUs of a node"),
    "MaxCPUsPerSocket": ("0 unlimited", "jobs may use all CPUs of a socket"),
    "MaxMemPerCPU": ("0 unlimited", "jobs may ask for any memory"),
    "MaxMemPerNode": ("0 unlimited", "jobs may ask for any memory"),
    "ReqResv": ("no", "jobs need no reservation"),
    "RootOnly": ("no", "all users can submit"),
    "SelectTypeParameters": ("none", "all partitions have the parameters of the cluster"),
}

#: Flags of PriorityFlags, and what SelectTypeParameters may contain.
PRIORITY_FLAGS: Final = _words(
    "ACCRUE_ALWAYS CALCULATE_RUNNING DEPTH_OBLIVIOUS FAIR_TREE INCR_ONLY MAX_TRES MAX_TRES_GRES NO_FAIR_TREE "
    "NO_NORMAL_ALL NO_NORMAL_ASSOC NO_NORMAL_PART NO_NORMAL_QOS NO_NORMAL_TRES SMALL_RELATIVE_TO_TIME"
)
SELECT_PARAMETERS: Final = _words(
    "CR_ALLOCATE_FULL_SOCKET CR_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_CORE_MEMORY CR_CPU CR_CPU_MEMORY CR_LLN CR_MEMORY "
    "CR_ONE_TASK_PER_CORE CR_PACK_NODES CR_SOCKET CR_SOCKET_MEMORY ENFORCE_BINDING_GRES LL_SHARED_GRES "
    "MULTIPLE_SHARING_GRES_PJ NONE ONE_TASK_PER_SHARING_GRES OTHER_CONS_RES OTHER_CONS_TRES"
)
