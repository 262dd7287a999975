//! Which hosts and addresses the server may call.

use armilla_model::{Error, Result};
use http::Uri;
use http::uri::Scheme;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

/// The hosts that whoever starts the server has named.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(Vec<AllowedHost>);

#[derive(Clone, Debug)]
struct AllowedHost {
    /// In lower case, without brackets.
    host: String,
    /// Any port without it.
    port: Option<u16>,
    /// Also without TLS.
    plain: bool,
}

/// Where a webhook is, taken apart and allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// In lower case, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    /// Host and port as the request's own header has them.
    pub(super) authority: String,
    /// Path and query.
    pub(super) path: String,
}

impl AllowedHosts {
    /// Reads a list of `hooks.example`, `hooks.example:8443`, `http://127.0.0.1:9000`.
    ///
    /// # Errors
    ///
    /// Which of them is no host.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let host = |text: &str| {
            let text = text.trim();
            let wrong = || {
                format!(
                    "'{text}' is no host of webhooks: take hooks.example, hooks.example:8443 or http://127.0.0.1:9000"
                )
            };
            let (plain, rest) = match text.split_once("://") {
                None => (false, text),
                Some(("https", rest)) => (false, rest),
                Some(("http", rest)) => (true, rest),
                Some(_) => return Err(wrong()),
            };
            let authority: http::uri::Authority = rest.parse().map_err(|_| wrong())?;
            if authority.as_str().contains('@') || authority.host().is_empty() {
                return Err(wrong());
            }
            Ok(AllowedHost { host: bare(authority.host()), port: authority.port_u16(), plain })
        };
        texts.into_iter().map(host).collect::<Result<_, _>>().map(Self)
    }

    /// True when nobody may be called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn allows(&self, host: &str, port: u16, tls: bool) -> bool {
        let fits = |allowed: &&AllowedHost| {
            allowed.host == host && allowed.port.is_none_or(|known| known == port)
        };
        self.0.iter().filter(fits).any(|allowed| tls || allowed.plain)
    }

    /// Whether an address that a host's name stands for may be called: addresses of this machine and of
    /// private networks only when they are named themselves.
    pub fn allows_address(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_named = self.0.iter().any(|allowed| allowed.host.parse() == Ok(address));
        let is_localhost = host == "localhost" && address.is_loopback();
        is_named || is_localhost || !(is_private(address) || is_own(address))
    }
}

impl Destination {
    /// Takes an address apart, if it may be called.
    pub fn parse(url: &str, allowed: &AllowedHosts) -> Result<Self> {
        let wrong =
            |why: &str| Error::bad_request(format!("The webhook's 'url' is refused: {why}."));
        let uri: Uri = url.parse().map_err(|_| wrong("it is no address"))?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong("it begins with https://")),
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty())
        else {
            return Err(wrong("it names no host"));
        };
        if authority.as_str().contains('@') {
            return Err(wrong("it carries credentials; use headers, or a secret"));
        }
        let (host, port) = (bare(authority.host()), authority.port_u16());
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        if !allowed.allows(&host, port, tls) {
            return Err(wrong(
                "the host is not among those that the server was started with (--webhooks), or only with https",
            ));
        }
        if let Ok(address) = host.parse()
            && !allowed.allows_address(&host, address)
        {
            return Err(wrong("the address is not public, and not among those that were named"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { host, port, tls, authority: authority.to_string(), path })
    }
}

/// A host in lower case, an address of IPv6 without its brackets.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

/// Whether an address is not one of the public Internet.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || first == 0
        || first >= 240
        // Shared address space, protocol assignments, benchmarks.
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || (first & 0xfe00) == 0xfc00
        || (first & 0xffc0) == 0xfe80
        || (first & 0xffc0) == 0xfec0
        // Documentation, and ways to write an address of version 4.
        || (first == 0x2001 && second == 0xdb8)
        || (first == 0x2001 && second == 0)
        || first == 0x2002
        || (first == 0x64 && second == 0xff9b)
        || first == 0
}

/// Whether an address is one of this machine's: only those can be listened on.
fn is_own(address: IpAddr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(texts: &[&str]) -> AllowedHosts {
        AllowedHosts::parse(texts.iter().copied()).unwrap()
    }

    #[test]
    fn only_named_hosts_are_called_and_only_as_they_were_named() {
        let hosts =
            allowed(&["Hooks.example", "other.example:8443", "http://127.0.0.1:9000", "localhost"]);
        let is_fine = |url: &str| Destination::parse(url, &hosts).is_ok();
        for url in [
            "https://hooks.example/a?b=c",
            "https://HOOKS.example:444/",
            "https://other.example:8443",
            "http://127.0.0.1:9000/x",
            "https://localhost/",
        ] {
            assert!(is_fine(url), "{url}");
        }
        for url in [
            "http://hooks.example/",
            "https://other.example/",
            "https://user:pw@hooks.example/",
            "https://hooks.example.evil.example/",
            "https://evil.example/#hooks.example",
            "http://127.0.0.1:9001/x",
            "http://localhost/",
            "ftp://hooks.example/",
            "hooks.example",
            "/a",
            "",
        ] {
            assert!(!is_fine(url), "{url}");
        }
        for text in ["ftp://a", "a b", "http://u@h", ""] {
            assert!(AllowedHosts::parse([text]).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_that_are_not_public_must_be_named() {
        let hosts = allowed(&["hooks.example", "10.1.2.3", "localhost"]);
        let is_fine =
            |host: &str, address: &str| hosts.allows_address(host, address.parse().unwrap());
        assert!(is_fine("hooks.example", "93.184.215.14"));
        assert!(is_fine("hooks.example", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"));
        assert!(is_fine("hooks.example", "10.1.2.3") && is_fine("localhost", "127.0.0.1"));
        assert!(is_fine("localhost", "::1"));
        for address in [
            "127.0.0.1",
            "10.1.2.4",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.4",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ] {
            assert!(!is_fine("hooks.example", address), "{address}");
        }
    }
}
