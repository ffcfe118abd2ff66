//! Sends alerts to Alertmanager: for hosts that no Prometheus with the rule file watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_host::time::{rfc3339, steady_seconds, unix_seconds};
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

/// Age of the readings, in seconds, from which no alerts are sent: Alertmanager then resolves them, rather than keep what may be over.
const STALE: f64 = 60.0;

/// What has changed since the last time that alerts were sent.
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
    /// No alerts are sent, because the sources are no longer read.
    Stale,
}

/// Identifies an alert.
type Labels = BTreeMap<String, String>;

/// Sends alerts to one or more Alertmanagers.
#[derive(Debug)]
pub struct Notifier {
    agent: ureq::Agent,
    host: String,
    targets: Vec<Target>,
    /// The alerts that fire, and those that have ended within [`VALID`].
    known: BTreeMap<Labels, TrackedAlert>,
    is_stale: bool,
    /// What the host's clock is ahead of the one that nothing changes, in seconds.
    ahead: f64,
}

#[derive(Debug)]
struct Target {
    url: String,
    has_failed: bool,
}

/// An alert that Alertmanager should know.
#[derive(Debug)]
struct TrackedAlert {
    annotations: Value,
    began: f64,
    ended: Option<f64>,
}

impl Notifier {
    /// A notifier for the Alertmanagers with these URLs. Alerts get the label `instance` with the name of this host.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] if a URL does not begin with `http://` or `https://`, [`Error::UrlCredentials`] if it contains a
    /// name or a password.
    pub fn new(urls: &[String], host: &str) -> Result<Notifier> {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        // A redirected POST would become a GET without the alerts, and look like a success.
        let config =
            ureq::Agent::config_builder().timeout_global(Some(LIMIT)).max_redirects(0).tls_config(tls);
        Ok(Notifier {
            agent: config.build().into(),
            host: host.to_owned(),
            targets: urls.iter().map(|url| Target::new(url)).collect::<Result<_>>()?,
            known: BTreeMap::new(),
            is_stale: false,
            ahead: 0.0,
        })
    }

    /// Sends the alerts of the evaluator every [`INTERVAL`], until `stop` is true.
    pub fn run(&mut self, evaluator: &Evaluator, stop: &AtomicBool, on_change: impl Fn(NotifierChange)) {
        while !stop.load(Ordering::Relaxed) {
            let (evaluated, alerts) = evaluator.last();
            let now = steady_seconds();
            self.ahead = unix_seconds() - now;
            self.send(now, evaluated, &alerts).into_iter().for_each(&on_change);
            let next = Instant::now() + INTERVAL;
            while !stop.load(Ordering::Relaxed) && Instant::now() < next {
                std::thread::sleep(STOP_POLL);
            }
        }
    }

    /// Sends at `now` the alerts that were decided at `evaluated` (`None`: not yet), and the end of those that no longer fire. Times
    /// are in seconds since 1970, by the clock of the evaluator, which nothing changes. An end is sent until Alertmanager has ended the alert by itself, because a request can be lost.
    pub fn send(&mut self, now: f64, evaluated: Option<f64>, alerts: &ApiAlerts) -> Vec<NotifierChange> {
        let was_stale = std::mem::replace(&mut self.is_stale, evaluated.is_some_and(|at| now - at > STALE));
        if self.is_stale {
            return if was_stale { Vec::new() } else { vec![NotifierChange::Stale] };
        }
        self.update(now, evaluated.unwrap_or(now), alerts);
        let messages: Vec<Value> =
            self.known.iter().map(|(labels, known)| known.message(labels, now, self.ahead)).collect();
        let agent = &self.agent;
        self.targets.iter_mut().filter_map(|target| target.send(agent, &messages)).collect()
    }

    fn update(&mut self, now: f64, evaluated: f64, alerts: &ApiAlerts) {
        let mut firing: BTreeMap<Labels, TrackedAlert> = BTreeMap::new();
        for alert in &alerts.alerts {
            firing.insert(labels(alert, &self.host), TrackedAlert::new(alert, evaluated));
        }
        for (labels, mut known) in std::mem::take(&mut self.known) {
            let end = *known.ended.get_or_insert(evaluated);
            if now - end < VALID {
                firing.entry(labels).or_insert(known);
            }
        }
        self.known = firing;
    }
}

impl Target {
    fn new(url: &str) -> Result<Target> {
        let parsed = url.parse::<ureq::http::Uri>().ok();
        let parsed = parsed.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
        let parsed = parsed.ok_or_else(|| Error::InvalidUrl { url: url.to_owned() })?;
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Error::UrlCredentials);
        }
        Ok(Target { url: url.trim_end_matches('/').to_owned(), has_failed: false })
    }

    /// Sends all parts, even if one fails.
    fn send(&mut self, agent: &ureq::Agent, messages: &[Value]) -> Option<NotifierChange> {
        // A request without alerts shows whether the URL is right, before there is one.
        let parts = if messages.is_empty() { vec![messages] } else { messages.chunks(BATCH).collect() };
        let sent = parts.into_iter().map(|part| self.post(agent, part));
        let failure = sent.fold(None, |first, sent| first.or(sent.err()));
        let had_failed = std::mem::replace(&mut self.has_failed, failure.is_some());
        let url = self.url.clone();
        match failure {
            Some(why) if !had_failed => Some(NotifierChange::Failed { url, why }),
            None if had_failed => Some(NotifierChange::Recovered { url }),
            _ => None,
        }
    }

    fn post(&self, agent: &ureq::Agent, part: &[Value]) -> std::result::Result<(), String> {
        let body = Value::from(part).to_string();
        let request = agent.post(format!("{}/api/v2/alerts", self.url)).content_type("application/json");
        let status = request.send(body).map_err(|why| why.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("the answer is {status}")) }
    }
}

impl TrackedAlert {
    fn new(alert: &ApiAlert, evaluated: f64) -> TrackedAlert {
        let rule = table::rules().find(|rule| rule.name == alert.name);
        let annotations = rule.map(|rule| BTreeMap::from(rule_file::annotations(rule, &alert.summary)));
        let began = (evaluated - alert.since_seconds).max(0.0);
        TrackedAlert { annotations: json!(annotations.unwrap_or_default()), began, ended: None }
    }

    /// The alert in the format of Alertmanager's API (version 2), with the times of a clock that is `ahead`.
    fn message(&self, labels: &Labels, now: f64, ahead: f64) -> Value {
        // Alertmanager refuses an end before the start.
        let end = self.ended.unwrap_or(now + VALID).max(self.began);
        json!({
            "labels": labels,
            "annotations": self.annotations,
            "startsAt": rfc3339((self.began + ahead) as u64),
            "endsAt": rfc3339((end + ahead) as u64),
        })
    }
}

fn labels(alert: &ApiAlert, host: &str) -> Labels {
    let own = [("alertname", alert.name), ("severity", alert.severity.name()), ("instance", host)];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let labels = alert.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    labels.chain(own).collect()
}
