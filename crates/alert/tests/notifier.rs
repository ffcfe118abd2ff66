//! What Alertmanager receives. `scripts/tests/alerts-e2e.sh` sends alerts to a real one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use poolwright_alert::{ApiAlerts, Error, Evaluator, Notifier, NotifierChange, Thresholds, table};
use poolwright_host::time::parse_rfc3339;
use poolwright_monitor::Readings;
use poolwright_monitor::family::POOL_STATE_NOW;
use serde_json::Value;

/// The body of a request, which gets an empty answer.
fn receive(stream: TcpStream) -> Value {
    answer(stream, "200 OK")
}

fn answer(stream: TcpStream, status: &str) -> Value {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(head.as_bytes()).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn server() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        listener.incoming().try_for_each(|stream| sender.send(receive(stream.unwrap())))
    });
    (url, bodies)
}

/// The alerts of pools with this state, which has held for 100 seconds.
fn alerts(state: &str, pools: usize) -> ApiAlerts {
    let rules = table::rules().filter(|rule| rule.name == "PoolDegraded").collect();
    let evaluator = Evaluator::of(rules, Thresholds::default());
    let mut readings = Readings::default();
    for pool in 0..pools {
        readings.add_states(
            &POOL_STATE_NOW,
            &["kernel", &format!("pool{pool}")],
            &["ONLINE", "DEGRADED"],
            state,
        );
    }
    evaluator.evaluate(900.0, &[&readings]);
    evaluator.evaluate(1000.0, &[&readings]);
    evaluator.alerts()
}

#[test]
fn alerts_are_sent_until_they_end() {
    let (url, bodies) = server();
    let mut notifier = Notifier::new(&[url], "db1").unwrap();
    assert_eq!(notifier.send(1000.0, Some(1000.0), &alerts("DEGRADED", 1)), []);
    let sent = bodies.recv().unwrap();
    let [alert] = &sent.as_array().unwrap()[..] else { panic!("{sent}") };
    let labels = &alert["labels"];
    assert_eq!(labels["alertname"], "PoolDegraded");
    assert_eq!(labels["instance"], "db1");
    assert_eq!(labels["pool"], "pool0");
    assert!(alert["annotations"]["summary"].as_str().unwrap().contains("pool0"), "{alert}");
    assert!(!alert["annotations"]["description"].as_str().unwrap().is_empty());
    let time = |name: &str| parse_rfc3339(alert[name].as_str().unwrap()).unwrap();
    assert_eq!(time("startsAt"), 900);
    assert_eq!(time("endsAt"), 1240);

    assert_eq!(notifier.send(1015.0, Some(1015.0), &alerts("ONLINE", 1)), []);
    let ended = bodies.recv().unwrap();
    assert_eq!(ended[0]["labels"], *labels);
    assert_eq!(parse_rfc3339(ended[0]["endsAt"].as_str().unwrap()), Some(1015));
    assert_eq!(notifier.send(1030.0, Some(1030.0), &alerts("ONLINE", 1)), []);
    assert_eq!(bodies.recv().unwrap(), ended, "the end is sent again, because a request can be lost");
    assert_eq!(notifier.send(1300.0, Some(1300.0), &alerts("ONLINE", 1)), []);
    assert_eq!(bodies.recv().unwrap(), Value::Array(Vec::new()));
}

#[test]
fn many_alerts_are_sent_in_parts() {
    let (url, bodies) = server();
    let mut notifier = Notifier::new(&[url], "db1").unwrap();
    assert_eq!(notifier.send(1000.0, Some(1000.0), &alerts("DEGRADED", 450)), []);
    let sizes: Vec<usize> = (0..3).map(|_| bodies.recv().unwrap().as_array().unwrap().len()).collect();
    assert_eq!(sizes, [200, 200, 50]);
}

#[test]
fn a_failure_is_reported_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut notifier = Notifier::new(&[format!("http://{address}")], "db1").unwrap();
    let changes = notifier.send(1000.0, Some(1000.0), &alerts("DEGRADED", 1));
    assert!(matches!(&changes[..], [NotifierChange::Failed { .. }]), "{changes:?}");
    assert_eq!(notifier.send(1015.0, Some(1015.0), &alerts("DEGRADED", 1)), []);
    let back = TcpListener::bind(address).unwrap();
    let received = std::thread::spawn(move || receive(back.accept().unwrap().0));
    let changes = notifier.send(1030.0, Some(1030.0), &alerts("DEGRADED", 1));
    assert!(matches!(&changes[..], [NotifierChange::Recovered { .. }]), "{changes:?}");
    assert_eq!(received.join().unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn a_redirection_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let status = "301 Moved Permanently\r\nLocation: http://127.0.0.1:1/";
    let redirected = std::thread::spawn(move || answer(listener.accept().unwrap().0, status));
    let changes = Notifier::new(&[url], "db1").unwrap().send(1000.0, Some(1000.0), &alerts("DEGRADED", 1));
    let [NotifierChange::Failed { why, .. }] = &changes[..] else { panic!("{changes:?}") };
    assert!(why.contains("301"), "{why}");
    redirected.join().unwrap();
}

#[test]
fn old_alerts_are_not_renewed() {
    let (url, bodies) = server();
    let mut notifier = Notifier::new(&[url], "db1").unwrap();
    let old = alerts("DEGRADED", 1);
    assert_eq!(notifier.send(1100.0, Some(1000.0), &old), [NotifierChange::Stale]);
    assert_eq!(notifier.send(1115.0, Some(1000.0), &old), []);
    assert!(bodies.try_recv().is_err());
    assert_eq!(notifier.send(1130.0, Some(1130.0), &old), []);
    assert_eq!(bodies.recv().unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn urls_are_checked() {
    for url in ["", "localhost:9093", "ftp://host", "http://", "http://a b"] {
        let refused = Notifier::new(&[url.to_owned()], "db1");
        assert!(matches!(refused, Err(Error::InvalidUrl { .. })), "{url}");
    }
    let secret = Notifier::new(&["https://me:secret@alerts.example".to_owned()], "db1").unwrap_err();
    assert!(matches!(secret, Error::UrlCredentials) && !secret.to_string().contains("secret"), "{secret}");
    assert!(Notifier::new(&["https://alerts.example:9093/prefix".to_owned()], "db1").is_ok());
}
