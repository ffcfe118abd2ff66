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
/// The label of the jobs of a run.
const RUN_LABEL: &str = "poolwright/run";
/// Seconds that a cancelled worker gets to stop its database and unmount.
const GRACE_S: u32 = 60;
/// Pods of an index that may fail and are replaced. `lab run` submits further jobs for the trials that are left.
const BACKOFF: u32 = 1;
/// Conditions of a job that starts no further pods. `Complete` and `Failed` follow when all pods are gone, which that of a lost node is
/// not until the node returns.
const ENDED: [&str; 4] = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
/// Seconds for which an ended job and its logs are kept.
const KEEP_S: u32 = 86_400;

/// Jobs of Kubernetes.
pub(super) struct Kubernetes {
    options: KubernetesOptions,
    campaign: String,
    command: WorkerCommand,
    context: String,
    /// The label of the jobs of the run, `NAME=VALUE`.
    selector: String,
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
            campaign: cluster.campaign.clone(),
            command,
            context,
            selector: String::new(),
        })
    }

    /// Runs `kubectl` in the namespace.
    fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let namespace = self.options.namespace.iter().flat_map(|name| ["-n", name]);
        let all: Vec<&str> = namespace.chain(arguments.iter().copied()).collect();
        call("kubectl", &all, input)
    }
}

/// The manifest of a job. The server completes its name.
fn manifest(
    name: &str,
    options: &KubernetesOptions,
    command: &WorkerCommand,
    run: i64,
    workers: usize,
    at_once: usize,
) -> Json {
    let labels = json!({ LABEL.0: LABEL.1, RUN_LABEL: name });
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
    // The claim of a worker on a lost node expires meanwhile; by default, the pod would stay for five minutes.
    let tolerations: Vec<Json> = ["not-ready", "unreachable"]
        .iter()
        .map(|state| {
            json!({
                "key": format!("node.kubernetes.io/{state}"),
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": options.lease.as_secs(),
            })
        })
        .collect();
    let mut words = vec![PROGRAM.to_owned()];
    words.extend(command.arguments(run));
    words.extend(["--node", "$(NODE)", "--scratch", SCRATCH].map(str::to_owned));
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "generateName": format!("{name}-"), "labels": labels },
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
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "tolerations": tolerations,
                    "nodeSelector": node_selector,
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "labelSelector": { "matchLabels": { LABEL.0: LABEL.1 } },
                        "namespaceSelector": {},
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

/// The name of the jobs of a run: of small letters, digits and `-`, and short enough for what the server adds for jobs and pods.
fn job_name(campaign: &str, run: i64) -> String {
    let campaign: String = campaign
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let campaign: String = campaign.chars().take(16).collect();
    format!("poolwright-{}-{run}", campaign.trim_end_matches('-'))
}

/// The number of pods of a job that run or will run, by its status.
fn active(job: &Json) -> usize {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let has_ended =
        |of: &Json| of["status"] == "True" && of["type"].as_str().is_some_and(|kind| ENDED.contains(&kind));
    if conditions.into_iter().any(has_ended) {
        return 0;
    }
    // The controller may not have seen the job yet.
    job["status"]["active"].as_u64().unwrap_or(1).max(1) as usize
}

/// Why a pod does not start: its container waits, or no node is suitable.
fn waiting_for(pod: &Json) -> Option<String> {
    let waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"].as_object();
    if let Some(waiting) = waiting.filter(|waiting| waiting["reason"] != "ContainerCreating") {
        let text = |key: &str| waiting.get(key).and_then(Json::as_str).unwrap_or_default();
        return Some(format!("a pod waits: {} {}", text("reason"), text("message")).trim().to_owned());
    }
    let conditions = pod["status"]["conditions"].as_array()?;
    let unscheduled = conditions.iter().find(|of| of["type"] == "PodScheduled" && of["status"] == "False")?;
    Some(format!("a pod waits: {}", unscheduled["message"].as_str()?))
}

impl Scheduler for Kubernetes {
    fn cluster(&self) -> String {
        match &self.options.namespace {
            Some(namespace) => format!("kubernetes {}/{namespace}", self.context),
            None => format!("kubernetes {}", self.context),
        }
    }

    fn job(&self, run: i64, workers: usize, at_once: usize) -> String {
        let name = job_name(&self.campaign, run);
        format!("{:#}\n", manifest(&name, &self.options, &self.command, run, workers, at_once))
    }

    fn adopt(&mut self, run: i64) -> Result<()> {
        self.selector = format!("{RUN_LABEL}={}", job_name(&self.campaign, run));
        Ok(())
    }

    fn submit(&mut self, run: i64, workers: usize, at_once: usize) -> Result<()> {
        self.kubectl(&["create", "-f", "-"], Some(&self.job(run, workers, at_once))).map(drop)
    }

    fn active(&mut self) -> Result<usize> {
        let printed = self.kubectl(&["get", "jobs", "-l", &self.selector, "-o", "json"], None)?;
        let invalid =
            |why: serde_json::Error| Error::Scheduler { program: "kubectl".to_owned(), why: why.to_string() };
        let jobs: Json = serde_json::from_str(&printed).map_err(invalid)?;
        Ok(jobs["items"].as_array().into_iter().flatten().map(active).sum())
    }

    fn obstacle(&mut self) -> Result<Option<String>> {
        let printed = self.kubectl(&["get", "pods", "-l", &self.selector, "-o", "json"], None)?;
        let pods: Json = serde_json::from_str(&printed).unwrap_or_default();
        Ok(pods["items"].as_array().into_iter().flatten().find_map(waiting_for))
    }

    fn cancel(&mut self) -> Result<()> {
        if self.selector.is_empty() {
            return Ok(());
        }
        // The pods end first. That of a node that is lost does not.
        self.kubectl(
            &["delete", "jobs", "-l", &self.selector, "--cascade=foreground", "--wait=false"],
            None,
        )?;
        let end = Instant::now() + Duration::from_secs(u64::from(GRACE_S) + 30);
        let are_there = || self.kubectl(&["get", "jobs", "-l", &self.selector, "-o", "name"], None);
        while Instant::now() < end && !are_there()?.trim().is_empty() {
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn logs(&self) -> String {
        let namespace = self.options.namespace.as_ref().map_or(String::new(), |name| format!(" -n {name}"));
        format!("`kubectl logs{namespace} -l {} --prefix --tail=20`", self.selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs() {
        assert_eq!(job_name("kv_Engines.2", 7), "poolwright-kv-engines-2-7");
        // A label has 63 characters.
        assert!(job_name(&"x".repeat(200), i64::MAX).len() <= 63);
    }

    #[test]
    fn a_job_is_active_until_a_condition_says_that_it_ended() {
        assert_eq!(active(&json!({ "status": {} })), 1);
        assert_eq!(active(&json!({ "status": { "active": 3 } })), 3);
        let with = |kind: &str, status: &str| {
            active(&json!({ "status": { "active": 2, "conditions": [{ "type": kind, "status": status }] } }))
        };
        assert_eq!((with("Complete", "True"), with("Failed", "True")), (0, 0));
        assert_eq!((with("SuccessCriteriaMet", "True"), with("FailureTarget", "True")), (0, 0));
        assert_eq!((with("Suspended", "True"), with("Failed", "False")), (2, 2));
    }

    #[test]
    fn pods_that_do_not_start_say_why() {
        let container = |reason: &str| json!({ "status": { "containerStatuses": [{ "state": { "waiting": { "reason": reason, "message": "no image" } } }] } });
        assert_eq!(
            waiting_for(&container("ErrImagePull")).as_deref(),
            Some("a pod waits: ErrImagePull no image")
        );
        assert_eq!(waiting_for(&container("ContainerCreating")), None);
        let pod = json!({ "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes" }] } });
        assert_eq!(waiting_for(&pod).as_deref(), Some("a pod waits: 0/3 nodes"));
    }
}
