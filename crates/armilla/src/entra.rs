//! Tokens of Microsoft Entra ID: whose are accepted, and where the keys to check them come from.
//!
//! The keys of a file are read at the start. Those of a URL are fetched then and every few hours, and
//! sooner when a token came that they do not fit, but never more often than once a minute: who sends
//! forged tokens must not make this server ask its directory without end.

use crate::client::fetch::Fetcher;
use crate::given_file;
use crate::terminal::note;
use armilla_gateway::auth::{Entra, EntraSettings, JWKS_SIZE_MAX};
use clap::Args;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How often keys are fetched although nobody missed one. Directories announce new ones a day ahead.
const REFRESH: Duration = Duration::from_secs(4 * 3600);
/// The shortest time between two fetches.
const REFRESH_PAUSE: Duration = Duration::from_secs(60);
/// How long one fetch may take; the start waits for the first one.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Flags about Entra ID.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Entra ID")]
pub(crate) struct EntraOptions {
    /// Issuer whose tokens are accepted, as their claim iss has it; may be given several times
    #[arg(long, env = "ARMILLA_ENTRA_ISSUER", value_delimiter = ',', value_name = "URL",
          requires_all = ["entra_audience", "entra_jwks"])]
    pub(crate) entra_issuer: Vec<String>,
    /// Audience that tokens must be for (claim aud); may be given several times
    #[arg(long, env = "ARMILLA_ENTRA_AUDIENCE", value_delimiter = ',', requires = "entra_issuer")]
    pub(crate) entra_audience: Vec<String>,
    /// The issuer's public keys (JWKS): a file, or an https URL that is asked again now and then
    #[arg(long, env = "ARMILLA_ENTRA_JWKS", value_name = "FILE|URL", requires = "entra_issuer")]
    pub(crate) entra_jwks: Option<String>,
    /// Role, scope, group or principal id that may read and write, beside CosmosDBDataContributor
    #[arg(
        long,
        env = "ARMILLA_ENTRA_CONTRIBUTOR",
        value_delimiter = ',',
        value_name = "NAME",
        requires = "entra_issuer"
    )]
    pub(crate) entra_contributor: Vec<String>,
    /// Role, scope, group or principal id that may read, beside CosmosDBDataReader
    #[arg(
        long,
        env = "ARMILLA_ENTRA_READER",
        value_delimiter = ',',
        value_name = "NAME",
        requires = "entra_issuer"
    )]
    pub(crate) entra_reader: Vec<String>,
    /// Accept tokens without checking who signed them, with a key file and from everywhere too:
    /// anybody who can reach this server can then read and write everything
    #[arg(long, env = "ARMILLA_ACCEPT_DEVELOPMENT_TOKENS")]
    pub(crate) accept_development_tokens: bool,
}

/// What verifies tokens, and the URL that its keys are fetched from, if they are.
pub(crate) struct Directory {
    pub(crate) entra: Arc<Entra>,
    url: Option<String>,
}

impl EntraOptions {
    /// The directory that the flags name; nothing when they name none.
    pub(crate) fn directory(&self) -> Result<Option<Directory>, String> {
        let Some(source) = self.entra_jwks.as_deref() else { return Ok(None) };
        let entra = Arc::new(Entra::new(EntraSettings {
            issuers: self.entra_issuer.clone(),
            audiences: self.entra_audience.clone(),
            read_write: self.entra_contributor.clone(),
            read_only: self.entra_reader.clone(),
        }));
        if is_url(source)? {
            return Ok(Some(Directory { entra, url: Some(source.to_owned()) }));
        }
        let document = given_file::read(Path::new(source))?;
        entra.set_keys(&document).map_err(|error| format!("{source}: {error}"))?;
        Ok(Some(Directory { entra, url: None }))
    }
}

/// Keys that came over a plain connection could be anybody's.
fn is_url(source: &str) -> Result<bool, String> {
    if source.starts_with("http://") && !is_this_machine(source) {
        return Err(format!("--entra-jwks {source}: keys are fetched by https only"));
    }
    Ok(source.starts_with("https://") || source.starts_with("http://"))
}

fn is_this_machine(url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned));
    host.is_some_and(|host| matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]"))
}

impl Directory {
    /// Fetches the keys once, then goes on in the background. A directory that cannot be reached does
    /// not keep the server from starting: its tokens are refused until it can.
    pub(crate) async fn start(self) {
        let (Some(url), entra) = (self.url, self.entra) else { return };
        let source = match Fetcher::new(&url).await {
            Ok(source) => source,
            Err(error) => return note(&format!("no keys can be fetched: {error}")),
        };
        refresh(&entra, &source).await;
        tokio::spawn(async move {
            loop {
                sleep(REFRESH_PAUSE).await;
                // Whichever comes first; a wish from before the pause counts.
                let _ = timeout(REFRESH - REFRESH_PAUSE, entra.keys_wanted()).await;
                refresh(&entra, &source).await;
            }
        });
    }
}

/// Fetches the keys; what is wrong is told, and the keys from before stay.
async fn refresh(entra: &Entra, source: &Fetcher) {
    let fetched = match timeout(FETCH_TIME_MAX, source.fetch(JWKS_SIZE_MAX)).await {
        Ok(Ok(document)) => entra.set_keys(&document),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", FETCH_TIME_MAX.as_secs())),
    };
    if let Err(error) = fetched {
        note(&format!("the keys of Entra ID could not be fetched: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_taken_from_plain_connections_to_others() {
        assert!(is_url("http://login.example/keys").is_err());
        assert!(is_url("http://127.0.0.1:9/keys").unwrap());
        assert!(is_url("https://login.example/keys").unwrap());
        assert!(!is_url("./keys.json").unwrap());
    }

    #[test]
    fn a_file_that_is_not_there_stops_the_start() {
        let options = EntraOptions {
            entra_issuer: vec!["i".to_owned()],
            entra_audience: vec!["a".to_owned()],
            entra_jwks: Some("/no/such/keys.json".to_owned()),
            ..EntraOptions::default()
        };
        assert!(options.directory().is_err());
    }

    #[tokio::test]
    async fn keys_are_fetched_from_a_url_and_kept_when_it_fails() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let answers = ["{\"keys\":[]}".to_owned(), "x".repeat(JWKS_SIZE_MAX + 1), KEYS.to_owned()];
        let server = tokio::spawn(async move {
            for body in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        let source = Fetcher::new(&url).await.unwrap();
        let entra = Entra::new(EntraSettings::default());
        assert!(
            entra.set_keys(&source.fetch(JWKS_SIZE_MAX).await.unwrap()).is_err(),
            "no key in it"
        );
        assert!(source.fetch(JWKS_SIZE_MAX).await.is_err(), "too large");
        assert_eq!(entra.set_keys(&source.fetch(JWKS_SIZE_MAX).await.unwrap()), Ok(1));
        server.await.unwrap();
        assert!(source.fetch(JWKS_SIZE_MAX).await.is_err(), "nobody there");
    }

    const KEYS: &str = r#"{"keys":[{"kty":"EC","use":"sig","kid":"k1","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
}
