//! `GET /`: what every SDK reads first and again every five minutes.
//!
//! Clients send all later traffic to the endpoint named here, not to the address their user typed.
//! So it is built from the request itself, unless the configuration names a public endpoint.

use crate::headers::{Consistency, HttpContext};
use armilla_model::json;
use http::HeaderValue;
use std::borrow::Cow;
use std::net::SocketAddr;

/// What the account says of itself.
#[derive(Clone, Debug)]
pub struct AccountSettings {
    /// Name of the account. Never `localhost`: the JavaScript SDK discards the locations of an
    /// account of that name and re-reads it before every operation.
    pub id: String,
    /// Name of the one region.
    pub region: String,
    /// The default consistency level.
    pub consistency: Consistency,
    /// Where clients are to send their requests, if not where they sent this one.
    pub public_endpoint: Option<String>,
    /// Believe `X-Forwarded-Proto` and `X-Forwarded-Host`.
    pub trust_forwarded: bool,
    /// Name `localhost` by its address: only where the certificate is good for `127.0.0.1` too. Clients look at it
    /// wherever they are sent, in Direct mode also when they asked over http.
    pub localhost_by_address: bool,
}

impl Default for AccountSettings {
    fn default() -> Self {
        Self {
            id: "armilla".to_owned(),
            region: "South Central US".to_owned(),
            consistency: Consistency::Session,
            public_endpoint: None,
            trust_forwarded: false,
            localhost_by_address: true,
        }
    }
}

/// How the request reached the server.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The authority of an HTTP/2 request.
    pub authority: Option<&'a str>,
    /// The connection is TLS.
    pub is_secure: bool,
    /// The server's end of the connection.
    pub local_address: SocketAddr,
}

/// Writes the account document.
pub fn write(
    settings: &AccountSettings,
    context: &HttpContext<'_>,
    arrival: Arrival<'_>,
) -> Vec<u8> {
    let endpoint = endpoint(settings, context, arrival);
    let mut out = Vec::with_capacity(2048);
    out.extend_from_slice(b"{\"_self\":\"\",\"id\":");
    json::write_string(&settings.id, &mut out);
    out.extend_from_slice(b",\"_rid\":");
    json::write_string(&format!("{}.local", settings.id), &mut out);
    out.extend_from_slice(
        br#","media":"//media/","addresses":"//addresses/","_dbs":"//dbs/","writableLocations":"#,
    );
    write_location(settings, &endpoint, &mut out);
    out.extend_from_slice(b",\"readableLocations\":");
    write_location(settings, &endpoint, &mut out);
    out.extend_from_slice(
        br#","enableMultipleWriteLocations":false,"continuousBackupEnabled":false,"enableNRegionSynchronousCommit":false,"enablePerPartitionFailoverBehavior":false,"userReplicationPolicy":{"asyncReplication":false,"minReplicaSetSize":1,"maxReplicasetSize":1},"userConsistencyPolicy":{"defaultConsistencyLevel":""#,
    );
    out.extend_from_slice(settings.consistency.name().as_bytes());
    out.push(b'"');
    if settings.consistency == Consistency::BoundedStaleness {
        out.extend_from_slice(br#","maxStalenessPrefix":100,"maxIntervalInSeconds":5"#);
    }
    out.extend_from_slice(
        br#"},"systemReplicationPolicy":{"minReplicaSetSize":1,"maxReplicasetSize":1},"readPolicy":{"primaryReadCoefficient":1,"secondaryReadCoefficient":1},"queryEngineConfiguration":"#,
    );
    json::write_string(QUERY_ENGINE_CONFIGURATION, &mut out);
    out.push(b'}');
    out
}

fn write_location(settings: &AccountSettings, endpoint: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"[{\"name\":");
    json::write_string(&settings.region, out);
    out.extend_from_slice(b",\"databaseAccountEndpoint\":");
    json::write_string(endpoint, out);
    out.extend_from_slice(b"}]");
}

/// The endpoint with its trailing slash.
pub(crate) fn endpoint(
    settings: &AccountSettings,
    context: &HttpContext<'_>,
    arrival: Arrival<'_>,
) -> String {
    if let Some(public) = &settings.public_endpoint {
        return format!("{}/", public.trim_end_matches('/'));
    }
    let forwarded = |value: Option<&HeaderValue>| {
        let value = value.filter(|_| settings.trust_forwarded)?.to_str().ok()?;
        // Each proxy appends; the first entry is what the client used.
        value.split(',').next().map(|first| first.trim().to_owned()).filter(|it| !it.is_empty())
    };
    // A node says by which scheme the client came; whoever pretends to be one fools itself alone.
    let passed_on = context.from_node.then_some(context.forwarded_proto).flatten();
    let passed_on =
        ["http", "https"].into_iter().find(|scheme| passed_on.is_some_and(|told| told == scheme));
    let passed_on = passed_on.map(str::to_owned);
    let scheme = forwarded(context.forwarded_proto)
        .or(passed_on)
        .unwrap_or_else(|| if arrival.is_secure { "https" } else { "http" }.to_owned());
    let host = forwarded(context.forwarded_host)
        .or_else(|| Some(context.host?.to_str().ok()?.to_owned()))
        .or_else(|| arrival.authority.map(str::to_owned))
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| arrival.local_address.to_string());
    let host = if settings.localhost_by_address { by_address(&host) } else { host.into() };
    format!("{scheme}://{host}/")
}

/// `localhost` is named by its address, as the service's own local server does it: clients that
/// treat the two as two places then know which one they were sent to, and nobody has to try IPv6 first.
fn by_address(host: &str) -> Cow<'_, str> {
    match host.strip_prefix("localhost") {
        Some("") => "127.0.0.1".into(),
        Some(port) if port.starts_with(':') => format!("127.0.0.1{port}").into(),
        _ => host.into(),
    }
}

/// Answer to `/clientconfigs`, which the .NET SDK polls.
pub const CLIENT_CONFIGS: &str =
    r#"{"clientTelemetryConfiguration":{"status":"disabled","endpoint":null}}"#;

/// Answer to a client in Direct mode where that is not served.
pub const DIRECT_MODE_ADVICE: &str = "This server was started without Direct mode. Set the client's connection mode to Gateway (ConnectionMode.Gateway in .NET, gatewayMode() in Java).";

/// A JSON document in a string; .NET hands it to its planner on Windows.
const QUERY_ENGINE_CONFIGURATION: &str = r#"{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2147483647,"maxLogicalOrPerSqlQuery":2147483647,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":2147483647,"queryMaxInMemorySortDocumentCount":-1000,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true,"queryEnableFullText":true}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::Value;
    use http::HeaderMap;

    fn check(settings: &AccountSettings, pairs: &[(&'static str, &'static str)], expected: &str) {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .collect();
        let (context, _, _) = HttpContext::read(&headers);
        let local_address = "127.0.0.1:8081".parse().unwrap();
        let arrival = Arrival { authority: None, is_secure: true, local_address };
        let document = json::parse(&write(settings, &context, arrival)).unwrap();
        assert_eq!(document.get("id").and_then(Value::as_str), Some("armilla"));
        for list in ["writableLocations", "readableLocations"] {
            let location = &document.get(list).unwrap().as_array().unwrap()[0];
            let endpoint = location.get("databaseAccountEndpoint").unwrap().as_str();
            assert_eq!(endpoint, Some(expected));
        }
        let engine = document.get("queryEngineConfiguration").unwrap().as_str().unwrap();
        json::parse(engine.as_bytes()).unwrap();
    }

    #[test]
    fn endpoint_is_where_the_request_went() {
        let settings = AccountSettings::default();
        check(&settings, &[("host", "db.example:8081")], "https://db.example:8081/");
        check(&settings, &[], "https://127.0.0.1:8081/");
        check(&settings, &[("host", "localhost:8081")], "https://127.0.0.1:8081/");
        let by_name = AccountSettings { localhost_by_address: false, ..AccountSettings::default() };
        check(&by_name, &[("host", "localhost:8081")], "https://localhost:8081/");
        let forwarded = [("host", "inner"), ("x-forwarded-host", "evil")];
        check(&settings, &forwarded, "https://inner/");
    }

    #[test]
    fn another_node_says_by_which_scheme_the_client_came() {
        let headers: HeaderMap = [("host", "a:1"), ("x-forwarded-proto", "https")]
            .map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .into_iter()
            .collect();
        let named = |headers: &HeaderMap, is_secure| {
            let (context, _, _) = HttpContext::read(headers);
            let local_address = "127.0.0.1:8081".parse().unwrap();
            let arrival = Arrival { authority: None, is_secure, local_address };
            endpoint(&AccountSettings::default(), &context, arrival)
        };
        assert_eq!(named(&headers, false), "http://a:1/", "anybody can say that");
        let mut passed_on = headers;
        passed_on.insert("x-armilla-from", HeaderValue::from_static("node"));
        assert_eq!(named(&passed_on, false), "https://a:1/");
        passed_on.insert("x-forwarded-proto", HeaderValue::from_static("http"));
        assert_eq!(named(&passed_on, true), "http://a:1/", "nodes may speak TLS to each other");
    }

    #[test]
    fn configuration_and_trusted_proxies_win() {
        let settings = AccountSettings { trust_forwarded: true, ..AccountSettings::default() };
        let forwarded =
            [("host", "inner"), ("x-forwarded-host", "outer, mid"), ("x-forwarded-proto", "http")];
        check(&settings, &forwarded, "http://outer/");
        let public_endpoint = Some("https://public:1234".to_owned());
        check(&AccountSettings { public_endpoint, ..settings }, &forwarded, "https://public:1234/");
    }
}
