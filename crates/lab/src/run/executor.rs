//! What runs the trials: this process, or the scheduler of a cluster.

use std::path::PathBuf;
use std::time::Duration;

/// What runs the trials of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Executor {
    /// This process, one trial after another.
    #[default]
    Local,
    /// The scheduler of a cluster.
    Cluster(Box<Cluster>),
}

/// Workers on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The scheduler.
    pub scheduler: SchedulerKind,
    /// The most workers at a time.
    pub workers: usize,
    /// The path of this program on the nodes.
    pub program: PathBuf,
    /// Location of the results: the nodes connect to it, too.
    pub results: String,
    /// Name of the campaign, for the names of jobs.
    pub campaign: String,
    /// Parent of the scratch directory on the nodes; `None` for the directory for temporary files there.
    pub scratch: Option<PathBuf>,
}

/// A scheduler, with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Slurm.
    Slurm(SlurmOptions),
    /// Kubernetes.
    Kubernetes(KubernetesOptions),
}

/// The options of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmOptions {
    /// Further arguments of `sbatch`.
    pub arguments: Vec<String>,
    /// Directory for the logs of the workers, which all nodes share.
    pub logs: PathBuf,
}

/// The options of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// The image with Poolwright and the databases.
    pub image: String,
    /// For so long, a pod stays on a node that does not answer.
    pub lease: Duration,
    /// The namespace; `None` for that of the context of `kubectl`.
    pub namespace: Option<String>,
    /// The secret whose keys are files below `/etc/poolwright/results`: `passfile`, `root.crt`.
    pub secret: Option<String>,
    /// Labels of the nodes, `name=value`.
    pub node_labels: Vec<(String, String)>,
}
