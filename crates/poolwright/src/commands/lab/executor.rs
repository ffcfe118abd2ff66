//! The options of `lab run` for clusters.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use poolwright_lab::run::{Cluster, Executor, KubernetesOptions, SchedulerKind, SlurmOptions};
use poolwright_lab::store;

use crate::commands::options::{Usage, parse_time};

/// What runs the trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExecutorName {
    /// This process, one trial after another
    Local,
    /// Jobs of Slurm, submitted with `sbatch`
    Slurm,
    /// Jobs of Kubernetes, created with `kubectl`
    Kubernetes,
}

/// Trials on a cluster
#[derive(Debug, clap::Args)]
pub struct ExecutorOptions {
    /// What runs the trials. On a cluster, each trial is a task of its own on a node of its own, and the results are in PostgreSQL
    #[arg(long, value_name = "EXECUTOR", value_enum, default_value = "local", hide_possible_values = true)]
    executor: ExecutorName,

    /// With a cluster: the most trials at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    workers: u32,

    /// A worker that cannot renew its claim to a trial for so long is given up, and another one runs the trial
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_lease)]
    lease: Duration,

    /// With Slurm: a further argument of `sbatch`, for example --sbatch=--constraint=nvme. May be repeated
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    sbatch: Vec<String>,

    /// With Slurm: directory for the workers' logs, which all nodes share [default: lab-CAMPAIGN.logs]
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// With Kubernetes: the image with Poolwright and the databases
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// With Kubernetes: the namespace [default: that of kubectl's context]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// With Kubernetes: the secret with the keys `passfile` and `root.crt`, for the connection to the results
    #[arg(long, value_name = "NAME")]
    results_secret: Option<String>,

    /// With Kubernetes: run only on nodes with this label. May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    node_label: Vec<(String, String)>,

    /// With a cluster: print the job for the missing trials, and submit nothing
    #[arg(long)]
    pub print_job: bool,
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = parse_time(text).map_err(|why| why.to_string())?;
    match lease.as_secs() {
        10..=86_400 => Ok(Duration::from_secs(lease.as_secs())),
        _ => Err("permitted: 10s to 24h".to_owned()),
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl ExecutorOptions {
    /// The lease of a claim.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Whether the trials run in this process.
    pub fn is_local(&self) -> bool {
        self.executor == ExecutorName::Local
    }

    /// The executor of a run with these results.
    ///
    /// # Errors
    /// With [`Usage`] if an option does not fit the executor, or the nodes could not use the results.
    pub fn executor(
        &self,
        campaign: &str,
        results: &str,
        scratch: Option<&PathBuf>,
    ) -> anyhow::Result<Executor> {
        self.check().map_err(|why| why.context(Usage))?;
        if self.is_local() {
            return Ok(Executor::Local);
        }
        check_results(results).map_err(|why| why.context(Usage))?;
        let files = ["sslrootcert=", "sslcert=", "sslkey=", "passfile="];
        if self.executor == ExecutorName::Kubernetes && files.iter().any(|file| results.contains(file)) {
            return Err(anyhow::anyhow!(
                "the files that --results names are not in the pods\nhint: --results-secret, and PGSSLROOTCERT and PGPASSFILE here"
            )
            .context(Usage));
        }
        let scheduler = match (&self.executor, &self.image) {
            (ExecutorName::Kubernetes, Some(image)) => SchedulerKind::Kubernetes(KubernetesOptions {
                image: image.clone(),
                lease: self.lease,
                namespace: self.namespace.clone(),
                secret: self.results_secret.clone(),
                node_labels: self.node_label.clone(),
            }),
            _ => SchedulerKind::Slurm(SlurmOptions {
                arguments: self.sbatch.clone(),
                logs: std::path::absolute(
                    self.logs.clone().unwrap_or_else(|| format!("lab-{campaign}.logs").into()),
                )?,
            }),
        };
        Ok(Executor::Cluster(Box::new(Cluster {
            scheduler,
            program: std::env::current_exe()?,
            workers: self.workers as usize,
            results: results.to_owned(),
            campaign: campaign.to_owned(),
            scratch: scratch.cloned(),
        })))
    }

    /// Refuses the options of another executor.
    fn check(&self) -> anyhow::Result<()> {
        let slurm = [("--sbatch", !self.sbatch.is_empty()), ("--logs", self.logs.is_some())];
        let kubernetes = [
            ("--image", self.image.is_some()),
            ("--namespace", self.namespace.is_some()),
            ("--results-secret", self.results_secret.is_some()),
            ("--node-label", !self.node_label.is_empty()),
        ];
        let given = |options: &[(&'static str, bool)]| {
            options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
        };
        if let Some(option) = given(&slurm).filter(|_| self.executor != ExecutorName::Slurm) {
            bail!("{option} requires --executor slurm");
        }
        if let Some(option) = given(&kubernetes).filter(|_| self.executor != ExecutorName::Kubernetes) {
            bail!("{option} requires --executor kubernetes");
        }
        if self.executor == ExecutorName::Kubernetes && self.image.is_none() {
            bail!("--executor kubernetes requires --image");
        }
        if self.print_job && self.is_local() {
            bail!("--print-job requires --executor slurm or kubernetes");
        }
        Ok(())
    }
}

/// Refuses results that nodes of a cluster cannot share, and a password that everyone could read in the job.
fn check_results(results: &str) -> anyhow::Result<()> {
    if !store::is_url(results) {
        bail!(
            "the results of a cluster cannot be in a file\nhint: --results postgres://USER@HOST/DATABASE, which all nodes can reach"
        );
    }
    if store::has_password(results) {
        bail!(
            "the password in --results would be a part of the job\nhint: put it into ~/.pgpass, or a secret of Kubernetes"
        );
    }
    Ok(())
}
