//! `poolwright serve` on a mounted pool, asked through its socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::mounted::{Mounted, PATIENCE, until};
use crate::common::{TestDir, skip_without_fuse};

const LISTEN: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// An exporter that ends with the test.
struct Exporter {
    process: Child,
    address: String,
}

impl Exporter {
    fn start(dir: &TestDir, options: &[&str]) -> Exporter {
        let mut command = dir.plain();
        command.args(LISTEN).args(options).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics"));
        Exporter { address: address.unwrap_or_else(|| panic!("{line}")).to_owned(), process }
    }

    /// Sends a request with these headers, and returns the status line and the body.
    fn get(&self, path: &str, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        (head.lines().next().unwrap().to_owned(), body)
    }

    fn metrics(&self) -> String {
        let (status, body) = self.get("/metrics", "Host: localhost\r\n");
        assert_eq!(status, "HTTP/1.1 200 OK");
        body
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The content of a body in HTTP's chunked encoding.
fn unchunked(mut body: &str) -> String {
    let mut content = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return content;
        }
        content.push_str(&rest[..length]);
        body = rest[length..].strip_prefix("\r\n").unwrap();
    }
}

/// The value of the only metric with this name whose labels contain `labels`.
fn value(metrics: &str, name: &str, labels: &str) -> Option<f64> {
    let mut lines =
        metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(labels));
    let line = lines.next()?;
    assert_eq!(lines.next(), None, "several {name} with {labels}");
    line.rsplit(' ').next()?.parse().ok()
}

fn signal(pid: u64, name: &str) {
    Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
}

#[test]
fn metrics_follow_the_pool_and_a_hung_owner_delays_no_scrape() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    let exporter = Exporter::start(&mounted, &["--timeout", "1s"]);
    let before = exporter.metrics();
    assert_eq!(value(&before, "poolwright_pool_open", "pool=\"tank\""), Some(1.0));
    assert_eq!(value(&before, "poolwright_pool_state", "state=\"ONLINE\""), Some(1.0));
    assert_eq!(value(&before, "poolwright_pool_state", "state=\"DEGRADED\""), Some(0.0));
    assert_eq!(value(&before, "poolwright_dataset_compression_ratio", "dataset=\"tank\""), Some(1.0));

    // What a program writes, and what the host's file receives, arrives in the counters.
    std::fs::write(mounted.at("m/file"), vec![7; 3 << 20]).unwrap();
    std::fs::File::open(mounted.at("m/file")).unwrap().sync_all().unwrap();
    let written =
        |metrics: &str| value(metrics, "poolwright_mount_written_bytes_total", "dataset=\"tank\"").unwrap();
    until("the write is counted", || written(&exporter.metrics()) - written(&before) == f64::from(3 << 20));

    // The property and its source.
    mounted.run("dataset set recordsize=16K tank");
    let property = "property=\"recordsize\",value=\"16K\",source=\"local\"";
    until("the property is exported", || {
        value(&exporter.metrics(), "poolwright_dataset_property", property) == Some(1.0)
    });

    // The owner hangs: its source is down, and its last values stay.
    let source = "source=\"user-pool\",pool=\"tank\"";
    signal(mounted.pid, "-STOP");
    until("the source is down", || value(&exporter.metrics(), "poolwright_source_up", source) == Some(0.0));
    let hung = exporter.metrics();
    assert_eq!(value(&hung, "poolwright_pool_open", "pool=\"tank\""), Some(1.0));
    assert!(value(&hung, "poolwright_source_age_seconds", source).unwrap() > 0.0);
    signal(mounted.pid, "-CONT");
    until("the source is up again", || {
        value(&exporter.metrics(), "poolwright_source_up", source) == Some(1.0)
    });

    mounted.umount();
    until("the pool is closed", || {
        value(&exporter.metrics(), "poolwright_pool_open", "pool=\"tank\"") == Some(0.0)
    });
}

/// The example in the documentation of the format, with the directory of its first role replaced.
fn write_example_plan(to: &std::path::Path, role: &str) {
    let text = include_str!("../../../../docs/examples/plan.json");
    std::fs::write(to, text.replace("/srv/mariadb/data", role)).unwrap();
}

#[test]
fn a_plan_is_held_against_the_mounted_dataset() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    let dir = mounted.at("m/data");
    std::fs::create_dir(&dir).unwrap();
    // A file of 128K records, as today.
    std::fs::write(dir.join("old"), vec![7; 1 << 20]).unwrap();
    write_example_plan(&mounted.at("plan.json"), dir.to_str().unwrap());
    let read = || Exporter::start(&mounted, &["--plan", "plan.json"]).metrics();
    let kept = |metrics: &str, property: &str| {
        value(metrics, "poolwright_plan_property_kept", &format!("property=\"{property}\""))
    };
    let before = read();
    assert!(before.contains("role=\"data\"") && before.contains("dataset=\"tank\""), "{before}");
    assert_eq!((kept(&before, "recordsize"), kept(&before, "compression")), (Some(0.0), Some(0.0)));
    let files = |metrics: &str| {
        let value = |name| value(metrics, name, "role=\"data\"");
        (value("poolwright_plan_examined_files"), value("poolwright_plan_files_with_other_block_size"))
    };
    assert_eq!(files(&before), (Some(1.0), Some(0.0)));

    // The properties are set; the old file keeps its block size, and a new one has the new size.
    mounted.run("dataset set recordsize=16K compression=zstd tank");
    std::fs::write(dir.join("new"), vec![7; 1 << 20]).unwrap();
    std::fs::File::open(dir.join("new")).unwrap().sync_all().unwrap();
    let after = read();
    assert_eq!((kept(&after, "recordsize"), kept(&after, "compression")), (Some(1.0), Some(1.0)));
    assert_eq!(files(&after), (Some(2.0), Some(1.0)));
    let created = value(&after, "poolwright_plan_created_time_seconds", "plan=\"plan.json\"");
    assert_eq!(created, Some(1_768_473_000.0));

    mounted.umount();
    let gone = read();
    assert_eq!(kept(&gone, "recordsize"), Some(0.0), "the files are on no dataset: {gone}");
}

/// Makes a certificate for this name, and moves it into its place.
fn write_certificate(dir: &TestDir, name: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args(["-subj", &format!("/CN={name}"), "-out"]).arg(dir.at("new.pem")).arg("-keyout");
    let made = openssl.arg(dir.at("new.key")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for ending in ["pem", "key"] {
        std::fs::rename(dir.at(&format!("new.{ending}")), dir.at(&format!("server.{ending}"))).unwrap();
    }
}

/// The subject of the certificate that a server sends.
fn subject(address: &str) -> String {
    let script =
        format!("openssl s_client -connect {address} </dev/null 2>/dev/null | openssl x509 -noout -subject");
    String::from_utf8(Command::new("sh").args(["-c", &script]).output().unwrap().stdout).unwrap()
}

#[test]
fn a_new_certificate_and_a_new_token_need_no_restart() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    let dir = TestDir::new();
    write_certificate(&dir, "first.example");
    std::fs::write(dir.at("token"), "0123456789abcdef0123\n").unwrap();
    let mut command = dir.plain();
    command.args(LISTEN).args([
        "--tls-cert",
        "server.pem",
        "--tls-key",
        "server.key",
        "--token-file",
        "token",
    ]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("https://").and_then(|url| url.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    let exporter = Exporter { process, address };
    assert!(subject(&exporter.address).contains("first.example"));
    // A certificate without its key is not used.
    let key = std::fs::read(dir.at("server.key")).unwrap();
    write_certificate(&dir, "second.example");
    let new_key = std::fs::read(dir.at("server.key")).unwrap();
    std::fs::write(dir.at("server.key"), key).unwrap();
    assert!(subject(&exporter.address).contains("first.example"));
    std::fs::write(dir.at("server.key"), new_key).unwrap();
    assert!(subject(&exporter.address).contains("second.example"));
}

#[test]
fn a_token_and_the_host_are_checked() {
    let dir = TestDir::new();
    std::fs::write(dir.at("token"), "0123456789abcdef0123\n").unwrap();
    let exporter = Exporter::start(&dir, &["--token-file", "token"]);
    let status = |headers: &str| exporter.get("/metrics", headers).0;
    assert_eq!(status("Host: localhost\r\n"), "HTTP/1.1 401 Unauthorized");
    assert_eq!(
        status("Host: localhost\r\nAuthorization: Bearer 0123456789abcdef0124\r\n"),
        "HTTP/1.1 401 Unauthorized"
    );
    let token = "Authorization: Bearer 0123456789abcdef0123\r\n";
    assert_eq!(status(&format!("Host: localhost\r\n{token}")), "HTTP/1.1 200 OK");
    assert_eq!(status(&format!("Host: example.org\r\n{token}")), "HTTP/1.1 421 Misdirected Request");
    // The page, which asks for the token, can be loaded without it; what it shows cannot.
    for path in ["/", "/app.js", "/app.css"] {
        assert_eq!(exporter.get(path, "Host: localhost\r\n").0, "HTTP/1.1 200 OK", "{path}");
        assert_eq!(
            exporter.get(path, "Host: example.org\r\n").0,
            "HTTP/1.1 421 Misdirected Request",
            "{path}"
        );
    }
    for path in ["/api/v1/readings", "/api/v1/families", "/other"] {
        assert_eq!(exporter.get(path, "Host: localhost\r\n").0, "HTTP/1.1 401 Unauthorized", "{path}");
    }
    let (code, body) = exporter.get("/api/v1/families", &format!("Host: localhost\r\n{token}"));
    assert_eq!(code, "HTTP/1.1 200 OK");
    assert!(body.contains("\"poolwright_pool_open\""), "{body}");
    let (code, body) = exporter.get("/api/v1/readings", &format!("Host: localhost\r\n{token}"));
    assert_eq!(code, "HTTP/1.1 200 OK");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["sources"][0]["source"], "host");
    // A new token replaces the old one.
    std::fs::write(dir.at("token"), "fedcba98765432100123\n").unwrap();
    assert_eq!(status(&format!("Host: localhost\r\n{token}")), "HTTP/1.1 401 Unauthorized");
    let new = "Authorization: Bearer fedcba98765432100123\r\n";
    assert_eq!(status(&format!("Host: localhost\r\n{new}")), "HTTP/1.1 200 OK");
}

#[test]
fn clients_that_are_malformed_oversized_or_silent_do_not_stop_it() {
    let dir = TestDir::new();
    let exporter = Exporter::start(&dir, &[]);
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&exporter.address).unwrap()).collect();
    for bytes in [b"\x16\x03\x01garbage\r\n\r\n".to_vec(), vec![b'A'; 1 << 20]] {
        let mut stream = TcpStream::connect(&exporter.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = stream.write_all(&bytes); // the server may close before it has read everything
    }
    assert!(exporter.metrics().contains("poolwright_exporter_info"));
    drop(silent);
}

#[test]
fn a_thousand_scrapers_at_once_are_answered_within_the_memory_limit() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    let exporter = Exporter::start(&mounted, &[]);
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut clients: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = TcpStream::connect(&exporter.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    // Some never read their answer; all others get it whole.
    let silent = clients.split_off(900);
    for mut client in clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("poolwright_pool_open"), "{answer}");
    }
    let metrics = exporter.metrics();
    let resident = |line: &&str| line.starts_with("poolwright_exporter_resident_memory_bytes ");
    let line = metrics.lines().find(resident).unwrap();
    let bytes: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(bytes < 64 << 20, "{bytes} bytes with 1000 clients");
    drop(silent);
}

#[test]
fn other_hosts_need_encryption_and_authentication() {
    let dir = TestDir::new();
    dir.fails("serve --listen 0.0.0.0:0", 3, &["refusing to listen on 0.0.0.0:0", "hint: use --tls-cert"]);
    dir.fails("serve --listen 127.0.0.1:0 --tls-cert none", 2, &["--tls-key"]);
    dir.fails("serve --listen 127.0.0.1:0 --token-file none", 1, &["cannot use none"]);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap();
    dir.fails(
        &format!("serve --listen {address}"),
        1,
        &["cannot listen on", "hint: name another address or port"],
    );
}

#[test]
fn alerts_are_decided_at_each_scrape() {
    skip_without_fuse!();
    let mounted = Mounted::on("mirror a.img:1G b.img:1G");
    let exporter = Exporter::start(&mounted, &[]);
    let alerts = || {
        let (status, body) = exporter.get("/api/v1/alerts", "Host: localhost\r\n");
        assert_eq!(status, "HTTP/1.1 200 OK");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()
    };
    let before = alerts();
    assert_eq!(before["alerts"], serde_json::json!([]));
    assert!(before["rules"].as_u64().unwrap() >= 30, "{before}");
    assert!(before["unavailable"].as_array().unwrap().contains(&"PoolFillingUp".into()), "{before}");
    // This alert has no delay. The tests of the evaluator cover delays, which are minutes.
    std::fs::remove_file(mounted.at("a.img")).unwrap();
    let named = |name: &str| {
        let alerts = alerts()["alerts"].as_array().unwrap().clone();
        alerts.into_iter().find(|alert| alert["name"] == name)
    };
    until("the lost file is reported", || named("PoolFileFault").is_some());
    let alert = named("PoolFileFault").unwrap();
    assert_eq!(alert["severity"], "critical");
    assert_eq!(alert["labels"], serde_json::json!({"engine": "user", "pool": "tank"}));
}
