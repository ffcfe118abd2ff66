use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;

fn config(listen: &str) -> ServerConfig {
    ServerConfig {
        listen: vec![listen.parse().unwrap()],
        tls: None,
        token_file: None,
        scrape_limit: Duration::from_secs(5),
        version: "0".into(),
    }
}

#[test]
fn only_loopback_needs_no_encryption_and_no_authentication() {
    let check =
        |ip: IpAddr, tls, authenticates| check_exposure(SocketAddr::new(ip, 9700), tls, authenticates);
    for loopback in
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST), "127.8.8.8".parse().unwrap()]
    {
        assert!(check(loopback, false, false).is_ok());
    }
    for other in ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"] {
        let ip: IpAddr = other.parse().unwrap();
        assert!(check(ip, true, true).is_ok(), "{other}");
        for (tls, authenticates) in [(false, false), (false, true), (true, false)] {
            let refused = check(ip, tls, authenticates).unwrap_err();
            assert!(matches!(refused, Error::Exposed { .. }), "{other}: {refused}");
        }
    }
    let refused = Server::bind(&config("0.0.0.0:0"), Poller::new(Vec::new()), None).unwrap_err();
    let message = refused.to_string();
    assert_eq!(
        message,
        "refusing to listen on 0.0.0.0:0: other hosts can reach it, and the connection would not be encrypted"
    );
}

#[test]
fn a_token_is_the_first_line_and_has_a_least_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "0123456789abcdef\nmore\n").unwrap();
    assert_eq!(credential::token(&path).unwrap(), "0123456789abcdef");
    std::fs::write(&path, "short\n").unwrap();
    assert!(credential::token(&path).unwrap_err().to_string().ends_with("shorter than 16 characters"));
    assert!(matches!(credential::token(&dir.path().join("none")), Err(Error::Credential { .. })));
}
