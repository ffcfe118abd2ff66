//! Kubernetes: an indexed job, each pod of which is a worker.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::super::{Cluster, KubernetesOptions};
use super::Scheduler;
use super::command::{WorkerCommand, call};
use crate::{Error, Result};

/// The program in the image.
const PROGRAM: &str = "poolwright";
/// The pods' directory for pools and databases, on the disk of the node.
const SCRATCH: &str = "/var/tmp/poolwright";
/// Where the secret's keys are files.
const SECRET_DIR: &str = "/etc/poolwright/results";
/// The label of all workers: two of them never share a node.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "poolwright-lab");
/// Seconds that a cancelled worker gets to stop its database and unmount.
const GRACE_S: u32 = 60;
/// Pods of an index that may fail, for example because their node is lost, before another job is submitted.
const BACKOFF: u32 = 3;
/// Seconds for which an ended job and its logs are kept.
const KEEP_S: u32 = 86_400;

/// Jobs of Kubernetes.
pub(super) struct Kubernetes {
    options: KubernetesOptions,
    workers: usize,
    campaign: String,
    command: WorkerCommand,
    context: String,
    /// Distinguishes the jobs of this process.
    number: u32,
    /// The name of the present job.
    job: Option<String>,
}

impl Kubernetes {
    /// Checks that `kubectl` is there and has a context.
    pub(super) fn new(
        options: &KubernetesOptions,
        cluster: &Cluster,
        command: WorkerCommand,
    ) -> Result<Kubernetes> {
        let context = call("kubectl", &["config", "current-context"], None)?.trim().to_owned();
        Ok(Kubernetes {
            options: options.clone(),
            workers: cluster.workers,
            campaign: cluster.campaign.clone(),
            command,
            context,
            number: 0,
            job: None,
        })
    }

    /// Runs `kubectl` in the namespace.
    fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let namespace = self.options.namespace.as_ref().map(|name| format!("--namespace={name}"));
        let all: Vec<&str> = namespace.as_deref().into_iter().chain(arguments.iter().copied()).collect();
        call("kubectl", &all, input)
    }
}

/// The manifest of a job.
fn manifest(
    name: &str,
    options: &KubernetesOptions,
    command: &WorkerCommand,
    run: i64,
    workers: usize,
    at_once: usize,
) -> Json {
    let labels = json!({ LABEL.0: LABEL.1, "poolwright/job": name });
    let mut env =
        vec![json!({ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } })];
    let mut volumes = vec![
        json!({ "name": "scratch", "emptyDir": {} }),
        json!({ "name": "fuse", "hostPath": { "path": "/dev/fuse", "type": "CharDevice" } }),
    ];
    let mut mounts = vec![
        json!({ "name": "scratch", "mountPath": SCRATCH }),
        json!({ "name": "fuse", "mountPath": "/dev/fuse" }),
    ];
    if let Some(secret) = &options.secret {
        env.push(json!({ "name": "PGPASSFILE", "value": format!("{SECRET_DIR}/passfile") }));
        env.push(json!({ "name": "PGSSLROOTCERT", "value": format!("{SECRET_DIR}/root.crt") }));
        volumes.push(json!({ "name": "results", "secret": { "secretName": secret, "defaultMode": 0o400 } }));
        mounts.push(json!({ "name": "results", "mountPath": SECRET_DIR, "readOnly": true }));
    }
    let node_selector: serde_json::Map<String, Json> =
        options.node_labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut words = vec![PROGRAM.to_owned()];
    words.extend(command.arguments(run));
    words.extend(["--node", "$(NODE)", "--scratch", SCRATCH].map(str::to_owned));
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "completionMode": "Indexed",
            "completions": workers,
            "parallelism": at_once.min(workers),
            "backoffLimitPerIndex": BACKOFF,
            "ttlSecondsAfterFinished": KEEP_S,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": GRACE_S,
                    "nodeSelector": node_selector,
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "labelSelector": { "matchLabels": { LABEL.0: LABEL.1 } },
                        "topologyKey": "kubernetes.io/hostname",
                    }] } },
                    "containers": [{
                        "name": "worker",
                        "image": options.image,
                        "command": words,
                        "env": env,
                        "securityContext": { "privileged": true },
                        "volumeMounts": mounts,
                    }],
                    "volumes": volumes,
                },
            },
        },
    })
}

/// A name for a job: of small letters, digits and `-`, 63 at most with the index of a pod.
fn job_name(campaign: &str, run: i64, process: u32, number: u32) -> String {
    let campaign: String = campaign
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let campaign: String = campaign.chars().take(20).collect();
    format!("poolwright-{}-{run}-{process}-{number}", campaign.trim_end_matches('-'))
}

/// The number of pods of a job that run or will run, by its status.
fn active(job: &Json) -> usize {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let has_ended =
        |of: &Json| of["status"] == "True" && matches!(of["type"].as_str(), Some("Complete" | "Failed"));
    if conditions.into_iter().any(has_ended) {
        return 0;
    }
    // The controller may not have seen the job yet.
    job["status"]["active"].as_u64().unwrap_or(1).max(1) as usize
}

impl Scheduler for Kubernetes {
    fn cluster(&self) -> String {
        match &self.options.namespace {
            Some(namespace) => format!("kubernetes {}/{namespace}", self.context),
            None => format!("kubernetes {}", self.context),
        }
    }

    fn job(&self, run: i64, workers: usize) -> String {
        let name = job_name(&self.campaign, run, std::process::id(), self.number + 1);
        let manifest = manifest(&name, &self.options, &self.command, run, workers, self.workers);
        format!("{manifest:#}\n")
    }

    fn submit(&mut self, run: i64, workers: usize) -> Result<()> {
        let text = self.job(run, workers);
        let printed = self.kubectl(&["create", "-o", "name", "-f", "-"], Some(&text))?;
        self.number += 1;
        // `job.batch/NAME`
        let name = printed.trim().rsplit('/').next().unwrap_or_default();
        self.job = Some(name.to_owned());
        Ok(())
    }

    fn active(&mut self) -> Result<usize> {
        let Some(job) = &self.job else { return Ok(0) };
        let printed = self.kubectl(&["get", "job", job, "--ignore-not-found", "-o", "json"], None)?;
        if printed.trim().is_empty() {
            return Ok(0);
        }
        let invalid =
            |why: serde_json::Error| Error::Scheduler { program: "kubectl".to_owned(), why: why.to_string() };
        Ok(active(&serde_json::from_str(&printed).map_err(invalid)?))
    }

    fn cancel(&mut self) -> Result<()> {
        let Some(job) = self.job.take() else { return Ok(()) };
        // Its pods end first. That of a node that is lost does not.
        self.kubectl(
            &["delete", "job", &job, "--ignore-not-found", "--cascade=foreground", "--wait=false"],
            None,
        )?;
        let end = Instant::now() + Duration::from_secs(u64::from(GRACE_S) + 30);
        let is_there = || self.kubectl(&["get", "job", &job, "--ignore-not-found", "-o", "name"], None);
        while Instant::now() < end && !is_there()?.trim().is_empty() {
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn logs(&self) -> String {
        format!("`kubectl logs --selector={}={}`", LABEL.0, LABEL.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs() {
        assert_eq!(job_name("kv_Engines.2", 7, 12, 1), "poolwright-kv-engines-2-7-12-1");
        assert!(job_name(&"x".repeat(200), i64::MAX, u32::MAX, 1000).len() <= 63 + 10);
    }

    #[test]
    fn a_job_is_active_until_a_condition_says_that_it_ended() {
        assert_eq!(active(&json!({ "status": {} })), 1);
        assert_eq!(active(&json!({ "status": { "active": 3 } })), 3);
        let with = |kind: &str, status: &str| {
            active(&json!({ "status": { "active": 2, "conditions": [{ "type": kind, "status": status }] } }))
        };
        assert_eq!((with("Complete", "True"), with("Failed", "True")), (0, 0));
        assert_eq!((with("Suspended", "True"), with("Failed", "False")), (2, 2));
    }
}
