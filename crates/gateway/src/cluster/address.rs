//! Where a node is reached by others, and how: `http://host:port` or `https://host:port`.

use armilla_model::Error;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use std::fmt;
use std::str::FromStr;

/// A node's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    is_secure: bool,
    authority: Authority,
}

impl NodeAddress {
    /// What is said to it is encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The host, an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        // One without a port is refused when it is read.
        self.authority.port_u16().unwrap_or_default()
    }

    /// The address of something on that node.
    pub(super) fn uri(&self, path: PathAndQuery) -> Option<Uri> {
        let scheme = if self.is_secure { Scheme::HTTPS } else { Scheme::HTTP };
        let uri = Uri::builder().scheme(scheme).authority(self.authority.clone());
        uri.path_and_query(path).build().ok()
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

impl FromStr for NodeAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused =
            || Error::bad_request(format!("'{text}' is not http://HOST:PORT or https://HOST:PORT"));
        let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
        let is_secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(refused()),
        };
        let authority: Authority = rest.trim_end_matches('/').parse().map_err(|_| refused())?;
        if authority.port_u16().is_none() || authority.as_str().contains('@') {
            return Err(refused());
        }
        Ok(Self { is_secure, authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_host_port_and_whether_it_is_encrypted() {
        let secure: NodeAddress = "https://db.example:8081/".parse().unwrap();
        assert!(secure.is_secure());
        assert_eq!(
            (secure.host(), &*secure.to_string()),
            ("db.example", "https://db.example:8081")
        );
        let six: NodeAddress = "http://[::1]:8081".parse().unwrap();
        assert_eq!((six.host(), six.is_secure()), ("::1", false));
        for refused in
            ["db:8081", "ftp://db:1", "http://db", "http://", "http://u@db:1", "http://db:1/path"]
        {
            assert!(refused.parse::<NodeAddress>().is_err(), "{refused}");
        }
    }
}
