//! Slurm: a job array, each task of which is a worker.

use std::time::{Duration, Instant};

use poolwright_host::private;

use super::super::{Cluster, SlurmOptions};
use super::Scheduler;
use super::command::{WorkerCommand, call, shell_word};
use crate::{Error, Result};

/// The worker's option with the name of its node.
const NODE: &str = "--node";
/// The most tasks of an array. Slurm's default for `MaxArraySize` is 1001.
const MOST_TASKS: usize = 1000;
/// How long cancelled workers may take. Slurm kills them `KillWait` (30 s) after SIGTERM.
const CANCEL: Duration = Duration::from_secs(60);

/// Jobs of Slurm.
pub(super) struct Slurm {
    options: SlurmOptions,
    campaign: String,
    command: WorkerCommand,
    cluster: String,
    /// The numbers of its jobs.
    jobs: Vec<String>,
}

impl Slurm {
    /// Checks that Slurm's programs are there and its controller answers.
    pub(super) fn new(options: &SlurmOptions, cluster: &Cluster, command: WorkerCommand) -> Result<Slurm> {
        let config = call("scontrol", &["show", "config"], None)?;
        let name =
            config.lines().find_map(|line| line.trim().strip_prefix("ClusterName")).unwrap_or_default();
        let name = name.trim_start_matches([' ', '=']).trim();
        // Logs quote messages of drivers and databases, which may contain rows of a table.
        private::make_dirs(&options.logs).map_err(Error::host("creating", &options.logs))?;
        Ok(Slurm {
            options: options.clone(),
            campaign: cluster.campaign.clone(),
            command,
            cluster: format!("slurm {name}"),
            jobs: Vec::new(),
        })
    }

    /// The script of a task. It ends as the worker does, which gets the signals of Slurm.
    fn script(&self, run: i64) -> String {
        let words: Vec<String> = std::iter::once(self.command.program.clone())
            .chain(self.command.arguments(run))
            .map(|word| shell_word(&word))
            .collect();
        format!("#!/bin/sh\nexec {} {NODE} \"$SLURMD_NODENAME\"\n", words.join(" "))
    }

    /// The name of the jobs of a run.
    fn name(&self, run: i64) -> String {
        format!("poolwright-{}-{run}", self.campaign)
    }

    fn arguments(&self, run: i64, tasks: usize, at_once: usize) -> Vec<String> {
        // In the name of a file, `sbatch` replaces words after a per cent sign.
        let logs = self.options.logs.display().to_string().replace('%', "%%");
        let mut all = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", self.name(run)),
            format!("--array=1-{}%{at_once}", tasks.min(MOST_TASKS)),
            "--nodes=1".to_owned(),
            "--ntasks=1".to_owned(),
            "--exclusive".to_owned(),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            "-o".to_owned(),
            format!("{logs}/%A_%a.log"),
        ];
        all.extend(self.options.arguments.iter().cloned());
        all
    }
}

impl Scheduler for Slurm {
    fn cluster(&self) -> String {
        self.cluster.clone()
    }

    fn job(&self, run: i64, tasks: usize, at_once: usize) -> String {
        let words: Vec<String> =
            self.arguments(run, tasks, at_once).iter().map(|word| shell_word(word)).collect();
        format!("sbatch {} <<'END'\n{}END\n", words.join(" "), self.script(run))
    }

    fn adopt(&mut self, run: i64) -> Result<()> {
        let name = self.name(run);
        let printed = call("squeue", &["-h", "-n", &name, "-u", &user(), "-o", "%F"], None)?;
        self.jobs = printed.lines().map(|line| line.trim().to_owned()).filter(|job| is_number(job)).collect();
        self.jobs.sort_unstable();
        self.jobs.dedup();
        Ok(())
    }

    fn submit(&mut self, run: i64, tasks: usize, at_once: usize) -> Result<()> {
        let arguments = self.arguments(run, tasks, at_once);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let printed = call("sbatch", &arguments, Some(&self.script(run)))?;
        // `JOB` or, in a federation, `JOB;CLUSTER`.
        let job = printed.trim().split(';').next().unwrap_or_default();
        if !is_number(job) {
            let why = format!("no job number in its output {printed:?}");
            return Err(Error::Scheduler { program: "sbatch".to_owned(), why });
        }
        self.jobs = vec![job.to_owned()];
        Ok(())
    }

    fn active(&mut self) -> Result<usize> {
        if self.jobs.is_empty() {
            return Ok(0);
        }
        match call("squeue", &["-h", "-r", "-j", &self.jobs.join(","), "-o", "%T"], None) {
            Ok(printed) => Ok(printed.lines().filter(|line| is_active(line)).count()),
            // The controller forgets a job that has ended long ago.
            Err(Error::Scheduler { why, .. }) if why.contains("Invalid job id") => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn obstacle(&mut self) -> Result<Option<String>> {
        let printed = call("squeue", &["-h", "-t", "PENDING", "-j", &self.jobs.join(","), "-o", "%r"], None)?;
        let reason = printed.lines().map(str::trim).find(|reason| !reason.is_empty() && *reason != "None");
        Ok(reason.map(|reason| format!("the job waits: {reason}")))
    }

    fn cancel(&mut self) -> Result<()> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let jobs: Vec<&str> = self.jobs.iter().map(String::as_str).collect();
        call("scancel", &jobs, None)?;
        let end = Instant::now() + CANCEL;
        while Instant::now() < end && self.active()? > 0 {
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn logs(&self) -> String {
        self.options.logs.display().to_string()
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// This user, by number.
fn user() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// Whether a task in this state runs or will run. `squeue` shows tasks that have ended for a while.
fn is_active(state: &str) -> bool {
    !matches!(
        state.trim(),
        "" | "BOOT_FAIL"
            | "CANCELLED"
            | "COMPLETED"
            | "DEADLINE"
            | "FAILED"
            | "NODE_FAIL"
            | "OUT_OF_MEMORY"
            | "TIMEOUT"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_tasks() {
        let active = |states: &[&str]| states.iter().filter(|state| is_active(state)).count();
        assert_eq!(active(&["PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED", "CONFIGURING"]), 6);
        assert_eq!(active(&["", "COMPLETED", "CANCELLED", "NODE_FAIL", "FAILED", "TIMEOUT"]), 0);
    }
}
