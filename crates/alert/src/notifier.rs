//! Sends alerts to Alertmanager: for hosts that no Prometheus with the rule file watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_host::time::{rfc3339, unix_seconds};
use serde_json::{Value, json};
use ureq::tls::{RootCerts, TlsConfig};

use crate::evaluator::{ApiAlert, ApiAlerts, Evaluator};
use crate::{Error, Result, rule_file, table};

/// How often the alerts are sent.
pub const INTERVAL: Duration = Duration::from_secs(15);
/// Time after which Alertmanager resolves an alert that is not sent again, in seconds. Prometheus uses the same.
const VALID: f64 = 240.0;
/// The highest number of alerts in a request.
const BATCH: usize = 200;
/// Time limit of a request.
const LIMIT: Duration = Duration::from_secs(10);
/// How often [`Notifier::run`] looks whether it should stop.
const STOP_POLL: Duration = Duration::from_millis(200);

/// The result of a request to an Alertmanager that differs from the result of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifierChange {
    /// Alerts cannot be sent.
    Failed {
        /// The Alertmanager.
        url: String,
        /// The reason.
        why: String,
    },
    /// Alerts can be sent again.
    Recovered {
        /// The Alertmanager.
        url: String,
    },
}

/// Identifies an alert.
type Labels = BTreeMap<String, String>;

/// Sends alerts to one or more Alertmanagers.
#[derive(Debug)]
pub struct Notifier {
    agent: ureq::Agent,
    host: String,
    targets: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    url: String,
    /// The alerts that Alertmanager has, and when it resolves them by itself.
    active: BTreeMap<Labels, (Value, f64)>,
    has_failed: bool,
}

impl Notifier {
    /// A notifier for the Alertmanagers with these URLs. Alerts get the label `instance` with the name of this host.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] if a URL does not begin with `http://` or `https://`.
    pub fn new(urls: &[String], host: &str) -> Result<Notifier> {
        let target = |url: &String| {
            let parsed = url.parse::<ureq::http::Uri>().ok();
            match parsed.as_ref().and_then(|url| url.scheme_str()) {
                Some("http" | "https") => {
                    Ok(Target { url: url.clone(), active: BTreeMap::new(), has_failed: false })
                }
                _ => Err(Error::InvalidUrl { url: url.clone() }),
            }
        };
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = ureq::Agent::config_builder().timeout_global(Some(LIMIT)).tls_config(tls).build();
        Ok(Notifier {
            agent: config.into(),
            host: host.to_owned(),
            targets: urls.iter().map(target).collect::<Result<_>>()?,
        })
    }

    /// Sends the alerts of the evaluator every [`INTERVAL`], until `stop` is true.
    pub fn run(&mut self, evaluator: &Evaluator, stop: &AtomicBool, on_change: impl Fn(NotifierChange)) {
        while !stop.load(Ordering::Relaxed) {
            self.send(unix_seconds(), &evaluator.alerts()).into_iter().for_each(&on_change);
            let next = Instant::now() + INTERVAL;
            while !stop.load(Ordering::Relaxed) && Instant::now() < next {
                std::thread::sleep(STOP_POLL);
            }
        }
    }

    /// Sends the alerts that fire, and the end of those that no longer do, at a time in seconds since 1970.
    pub fn send(&mut self, now: f64, alerts: &ApiAlerts) -> Vec<NotifierChange> {
        let firing: BTreeMap<Labels, Value> =
            alerts.alerts.iter().map(|alert| message(alert, &self.host, now)).collect();
        let agent = &self.agent;
        self.targets.iter_mut().filter_map(|target| target.send(agent, now, &firing)).collect()
    }
}

impl Target {
    fn send(
        &mut self,
        agent: &ureq::Agent,
        now: f64,
        firing: &BTreeMap<Labels, Value>,
    ) -> Option<NotifierChange> {
        self.active.retain(|labels, (_, end)| firing.contains_key(labels) || *end > now);
        let ended = self.active.iter().filter(|(labels, _)| !firing.contains_key(*labels));
        let ended = ended.map(|(_, (alert, _))| ending(alert, now));
        let all: Vec<Value> = firing.values().map(|alert| ending(alert, now + VALID)).chain(ended).collect();
        // A request without alerts shows whether the URL is right, before there is one.
        let parts = if all.is_empty() { vec![&all[..]] } else { all.chunks(BATCH).collect() };
        let sent = parts.into_iter().try_for_each(|batch| self.post(agent, batch));
        if sent.is_ok() {
            let active = firing.iter().map(|(labels, alert)| (labels.clone(), (alert.clone(), now + VALID)));
            self.active = active.collect();
        }
        let had_failed = std::mem::replace(&mut self.has_failed, sent.is_err());
        let url = self.url.clone();
        match sent {
            Err(why) if !had_failed => Some(NotifierChange::Failed { url, why: why.to_string() }),
            Ok(()) if had_failed => Some(NotifierChange::Recovered { url }),
            _ => None,
        }
    }

    fn post(&self, agent: &ureq::Agent, batch: &[Value]) -> std::result::Result<(), Box<ureq::Error>> {
        let url = format!("{}/api/v2/alerts", self.url.trim_end_matches('/'));
        let body = Value::from(batch).to_string();
        agent.post(url).content_type("application/json").send(body)?;
        Ok(())
    }
}

/// The alert in the format of Alertmanager's API (version 2), without an end, and its labels.
fn message(alert: &ApiAlert, host: &str, now: f64) -> (Labels, Value) {
    let own = [("alertname", alert.name), ("severity", alert.severity.name()), ("instance", host)];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let labels = alert.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let labels: Labels = labels.chain(own).collect();
    let rule = table::rules().find(|rule| rule.name == alert.name);
    let annotations = rule.map(|rule| BTreeMap::from(rule_file::annotations(rule, &alert.summary)));
    let began = rfc3339((now - alert.since_seconds).max(0.0) as u64);
    let message =
        json!({ "labels": labels, "annotations": annotations.unwrap_or_default(), "startsAt": began });
    (labels, message)
}

/// An alert that ends at a time.
fn ending(alert: &Value, end: f64) -> Value {
    let mut alert = alert.clone();
    alert["endsAt"] = rfc3339(end as u64).into();
    alert
}
