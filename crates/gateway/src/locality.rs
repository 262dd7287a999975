//! Locality of a request: whether it comes from this machine's own user, or may come from a web page, a
//! proxy or another machine.
//!
//! Some rights need no secret: the published key, unsigned development tokens, dials and metrics without a
//! key. They are meant for whoever sits at this machine, and a connection from loopback alone does not
//! prove that: a proxy in front of the server connects from loopback too, and so does a browser
//! on behalf of any page it shows. So four things must hold ([`locality`]), and a refusal says which
//! did not. A page that makes its own name point to 127.0.0.1 (DNS rebinding) gives itself away by
//! `Host`; while the server listens on loopback alone, such requests are not answered at all
//! ([`HostNames::misdirected`]).

use crate::handle::Peer;
use crate::headers::HttpContext;
use armilla_model::Error;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// The names under which this server may be asked, beside those of loopback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    given: Vec<String>,
    loopback_only: bool,
}

impl HostNames {
    /// Names or addresses without port. `loopback_only` says that the server listens nowhere else:
    /// then requests for any other name are turned away.
    pub fn new(given: impl IntoIterator<Item = String>, loopback_only: bool) -> Self {
        let given = given.into_iter().map(|name| bare(&name).to_ascii_lowercase()).collect();
        Self { given, loopback_only }
    }

    /// The first name that a request was sent to and that is not this server's.
    pub(crate) fn foreign<'a>(&self, parts: &'a Parts) -> Option<Cow<'a, str>> {
        authorities(parts).find(|authority| !self.knows(authority))
    }

    /// The refusal of a request that was sent to a foreign name.
    pub(crate) fn misdirected(&self, foreign: Option<&str>) -> Option<Error> {
        foreign.filter(|_| self.loopback_only).map(misdirected)
    }

    /// The refusal of a connection that was made for another name, as a TLS client says it.
    pub(crate) fn misdirected_name(&self, name: &str) -> Option<Error> {
        let is_foreign = self.loopback_only && !self.knows(name);
        is_foreign.then(|| misdirected(name))
    }

    /// Whether this server is known by this name.
    pub(crate) fn knows(&self, authority: &str) -> bool {
        let name = bare(authority);
        is_loopback_name(name) || self.given.iter().any(|given| given.eq_ignore_ascii_case(name))
    }
}

fn misdirected(foreign: &str) -> Error {
    Error::Misdirected(format!(
        "This server listens on this machine alone and is not known as '{foreign}'. Ask for \
         localhost, 127.0.0.1 or [::1], or give the name with --tls-name."
    ))
}

/// Why a request does not have the rights of this machine's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// One end of the connection is not loopback.
    OtherMachine,
    /// A header says that a proxy has passed the request on.
    Forwarded,
    /// `Host` or `:authority` is missing, or no name of this machine.
    ForeignHost(String),
    /// A page of another site sent it.
    ForeignOrigin(String),
}

impl fmt::Display for Stranger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherMachine => formatter.write_str("the connection is not from this machine"),
            Self::Forwarded => {
                formatter.write_str("the request was forwarded by a proxy, as its headers say")
            }
            Self::ForeignHost(host) if host.is_empty() => {
                formatter.write_str("the request has no Host")
            }
            Self::ForeignHost(host) => write!(
                formatter,
                "the Host '{host}' is not localhost, 127.0.0.1, [::1] or a name given with --tls-name"
            ),
            Self::ForeignOrigin(origin) => write!(
                formatter,
                "the Origin '{origin}' is neither this server's own nor one of this machine"
            ),
        }
    }
}

/// Whether a request has the rights of this machine's user, and if not, why. `foreign` is what
/// [`HostNames::foreign`] has found.
pub(crate) fn locality(
    peer: &Peer,
    parts: &Parts,
    context: &HttpContext<'_>,
    foreign: Option<&str>,
) -> Result<(), Stranger> {
    if !peer.is_loopback() {
        return Err(Stranger::OtherMachine);
    }
    if context.forwarded {
        return Err(Stranger::Forwarded);
    }
    if context.host.is_none() && parts.uri.authority().is_none() {
        return Err(Stranger::ForeignHost(String::new()));
    }
    if let Some(foreign) = foreign {
        return Err(Stranger::ForeignHost(foreign.to_owned()));
    }
    for origin in parts.headers.get_all(http::header::ORIGIN) {
        let text = String::from_utf8_lossy(origin.as_bytes());
        if !is_near_origin(&text, parts) {
            return Err(Stranger::ForeignOrigin(text.into_owned()));
        }
    }
    Ok(())
}

/// True for the origin of a page that this server or another one on this machine has sent.
pub(crate) fn is_near_origin(origin: &str, parts: &Parts) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let Some(authority) = rest.filter(|rest| rest.parse::<Authority>().is_ok()) else {
        // `null` is what sandboxed frames and files are, whoever made them.
        return false;
    };
    let is_own = || {
        let mut own = authorities(parts).peekable();
        own.peek().is_some() && own.all(|own| own.eq_ignore_ascii_case(authority))
    };
    is_loopback_name(bare(authority)) || is_own()
}

/// Whom the request was sent to: HTTP/2 says it in the target, HTTP/1.1 in `Host`, and some say it in
/// both. All of them count.
fn authorities(parts: &Parts) -> impl Iterator<Item = Cow<'_, str>> {
    let target = parts.uri.authority().map(|authority| authority.as_str().into());
    let hosts = parts.headers.get_all(HOST).iter();
    target.into_iter().chain(hosts.map(|host| String::from_utf8_lossy(host.as_bytes())))
}

/// The name or address in an authority: no port, no brackets, no dot behind.
fn bare(authority: &str) -> &str {
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    if let Some(inside) = authority.strip_prefix('[') {
        return inside.split(']').next().unwrap_or(inside);
    }
    // More than one colon without brackets is an IPv6 address by itself.
    let name = match authority.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => authority,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use std::net::SocketAddr;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn of(remote: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), Stranger> {
        let loopback: SocketAddr = "127.0.0.1:8081".parse().unwrap();
        let remote_address = remote.parse().unwrap();
        let peer = Peer { local_address: loopback, remote_address, is_secure: false };
        let parts = parts(uri, headers);
        let (context, _, _) = HttpContext::read(&parts.headers);
        let names = HostNames::new(["db.example".to_owned(), "10.1.2.3".to_owned()], true);
        locality(&peer, &parts, &context, names.foreign(&parts).as_deref())
    }

    const NEAR: &str = "127.0.0.1:50000";

    #[test]
    fn whoever_sits_at_this_machine_is_local() {
        for host in ["localhost", "LOCALHOST.:8081", "127.0.0.1:8081", "[::1]:8081", "127.0.0.9"] {
            assert_eq!(of(NEAR, "/", &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(of(NEAR, "/", &[("host", "DB.example:8081")]), Ok(()));
        assert_eq!(of(NEAR, "/", &[("host", "10.1.2.3:1")]), Ok(()));
        assert_eq!(of("[::1]:4", "http://localhost:8081/dbs", &[]), Ok(()));
        assert_eq!(of("[::ffff:127.0.0.1]:4", "http://localhost:8081/dbs", &[]), Ok(()));
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"] {
            let headers = [("host", "localhost:8081"), ("origin", origin)];
            assert_eq!(of(NEAR, "/", &headers), Ok(()), "{origin}");
        }
        let own = [("host", "db.example:8081"), ("origin", "http://db.example:8081")];
        assert_eq!(of(NEAR, "/", &own), Ok(()));
    }

    #[test]
    fn each_sign_of_a_stranger_counts() {
        let host = ("host", "localhost:8081");
        assert_eq!(of("10.0.0.7:4", "/", &[host]), Err(Stranger::OtherMachine));
        for name in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-port",
            "forwarded",
            "via",
            "x-armilla-from",
        ] {
            assert_eq!(of(NEAR, "/", &[host, (name, "x")]), Err(Stranger::Forwarded), "{name}");
        }
        let foreign = |name: &str| Err(Stranger::ForeignHost(name.to_owned()));
        assert_eq!(of(NEAR, "/", &[]), foreign(""));
        assert_eq!(of(NEAR, "/", &[("host", "evil.example")]), foreign("evil.example"));
        assert_eq!(of(NEAR, "/", &[("host", "localhost.evil")]), foreign("localhost.evil"));
        assert_eq!(of(NEAR, "/", &[host, ("host", "evil")]), foreign("evil"));
        assert_eq!(of(NEAR, "http://evil/dbs", &[host]), foreign("evil"));
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://localhost.evil",
            "file://localhost",
            "http://localhost@evil",
            "http://evil/localhost",
        ] {
            let found = of(NEAR, "/", &[host, ("origin", origin)]);
            assert_eq!(found, Err(Stranger::ForeignOrigin(origin.to_owned())), "{origin}");
        }
    }

    #[test]
    fn foreign_names_are_misdirected_only_while_listening_on_loopback_alone() {
        let request = parts("/", &[("host", "evil.example:8081")]);
        let refusal = |loopback_only, parts: &Parts| {
            let names = HostNames::new(Vec::new(), loopback_only);
            names.misdirected(names.foreign(parts).as_deref())
        };
        let refused = refusal(true, &request).unwrap();
        assert!(refused.message().contains("evil.example:8081"), "{refused}");
        assert_eq!(refusal(false, &request), None);
        assert_eq!(refusal(true, &parts("/", &[])), None);
        assert_eq!(refusal(true, &parts("/", &[("host", "localhost:1")])), None);
    }
}
