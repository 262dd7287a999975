//! `--webhooks`: who may be called by subscriptions, and which authorities are trusted then.

use armilla_engine::Account;
use armilla_gateway::webhooks::Webhooks;
use armilla_gateway::webhooks::hosts::AllowedHosts;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Lets an account call webhooks, if any host was named; needs a runtime around it.
pub(crate) fn allow(account: &Account, hosts: &[String]) -> Result<(), String> {
    let hosts = AllowedHosts::parse(hosts.iter().map(String::as_str))?;
    if hosts.is_empty() {
        return Ok(());
    }
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be read are passed over, as every TLS client does.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    account.set_courier(Box::new(Webhooks::new(hosts, Arc::new(tls), Handle::current())));
    Ok(())
}
