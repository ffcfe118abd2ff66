//! `poolwright serve`: a Prometheus exporter.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use poolwright_monitor::alert::{Evaluator, Thresholds};
use poolwright_monitor::server::{Server, ServerConfig, TlsFiles};

use super::options::{SourceArgs, parse_time};
use crate::interrupt;

/// The default port. Change it together with the help of `--listen`.
const PORT: u16 = 9968;

/// Serve metrics of pools to Prometheus, and a web page
///
/// Answers /metrics (Prometheus's text format, or OpenMetrics), /api/v1/readings and /api/v1/alerts (JSON), and shows a page at
/// /, until Ctrl-C or SIGTERM. It reads the pools of the kernel (counters in /proc, and zpool and zfs) and of the user-space
/// engine (through the process that has one open), and changes nothing. If a source does not answer in time, its last values are shown with
/// their age. Listens on this host only; other addresses need TLS, and a token or client certificates.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and port; may be repeated. Port 0 chooses a free one [default: 127.0.0.1:9968]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,

    /// Certificate of the server in PEM format, followed by intermediate certificates
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Key of the certificate in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Accept only clients with a certificate signed by one of these authorities
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,

    /// Accept only clients that send the token in this file: Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// How long a scrape waits for a source
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    timeout: Duration,

    #[command(flatten)]
    sources: SourceArgs,

    /// Change a threshold of the alerts; may be repeated. docs/alerts.md lists them
    #[arg(long, value_name = "NAME=NUMBER")]
    threshold: Vec<String>,
}

/// Serves until a signal arrives, and returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch().context("cannot watch for Ctrl-C")?;
    let poller = args.sources.poller();
    let alerts = Arc::new(Evaluator::new(Thresholds::changed(&args.threshold)?));
    let config = config(args);
    let server = Server::bind(&config, poller, Some(alerts))?;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    for address in server.addresses() {
        println!("{scheme}://{address}/metrics");
    }
    server.run(&stop);
    Ok(0)
}

fn config(args: Args) -> ServerConfig {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let pair = args.tls_cert.zip(args.tls_key);
    let tls = |(certificate, key)| TlsFiles { certificate, key, client_authorities: args.client_ca };
    ServerConfig {
        listen: if args.listen.is_empty() { vec![default] } else { args.listen },
        tls: pair.map(tls),
        token_file: args.token_file,
        scrape_limit: args.timeout,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
