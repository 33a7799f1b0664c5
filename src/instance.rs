//! A running Aconite, for the executable and for embedding in other programs' tests.
mod builder;
mod journal_file;
mod mistakes;

use std::{collections::BTreeMap, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use aconite_api::{
    Client, Control, ControlError, check,
    model::{Apply, Change, ProxySpec},
};
use aconite_toxics::Catalogue;

use crate::{
    admin::AdminServer,
    journal::Outlets,
    supervisor::{Shared, Supervisor},
    tls::{
        accept::Terminator,
        authority::{Authority, AuthorityError},
    },
};
pub use builder::Builder;
pub(crate) use builder::read_token;
use journal_file::JournalWriter;
pub(crate) use mistakes::mistakes;

/// A running instance: its proxies and its admin API.
///
/// Dropping it stops it at once; [`Aconite::stop`] lets what is under way end. Its admin API lives on the tokio runtime
/// that it was started on, connections on threads of its own.
///
/// ```
/// use aconite::{Aconite, model::ProxySpec, toxics::ToxicSpec};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// // What the program under test would talk to: here a listener that nobody need accept on.
/// let database = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
///
/// let aconite = Aconite::builder()
///     .seed(42)
///     .proxy(ProxySpec {
///         name: "database".to_owned(),
///         listen: "127.0.0.1:0".to_owned(),
///         upstream: database.local_addr()?.to_string(),
///         ..ProxySpec::default()
///     })
///     .start()
///     .await?;
/// let address = aconite.proxy_address("database").ok_or("it listens")?;
///
/// // Point the program under test at `address`, then break what it relies on.
/// let latency = json!({"latency": "250ms"}).as_object().cloned().unwrap_or_default();
/// aconite.client().add_toxic("database", &ToxicSpec::new("latency", latency)).await?;
/// assert_eq!(aconite.client().toxics("database").await?[0].name, "latency_downstream");
/// tokio::net::TcpStream::connect(address).await?;
///
/// aconite.stop().await;
/// assert!(tokio::net::TcpStream::connect(address).await.is_err());
/// # Ok(()) })
/// # }
/// ```
#[must_use = "it stops when it is dropped"]
pub struct Aconite {
    supervisor: Arc<Supervisor>,
    admin: Option<AdminServer>,
    admin_address: SocketAddr,
    seed: u64,
    token: Option<String>,
    drain: Duration,
    journal: Option<JournalWriter>,
}

/// Why an instance cannot start. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin API's address cannot be had.
    #[error("the admin API cannot listen on `{listen}`: {reason}")]
    Admin {
        /// The address.
        listen: String,
        /// Why, in Toxiproxy's words.
        reason: String,
    },
    /// Others could drive it.
    #[error("the admin API on `{0}` could be reached from other machines, and no token protects it")]
    Exposed(String),
    /// The file that the configuration names for the admin API's token has none.
    #[error("cannot read the admin API's token in `{path}`")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no usable certificate authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The system has no more threads, or no more files.
    #[error("cannot start the threads for connections")]
    Workers(#[from] io::Error),
    /// The journal's file cannot be written.
    #[error("cannot write the journal to `{path}`")]
    Journal {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A proxy does not hold, or cannot listen.
    #[error(transparent)]
    Proxy(#[from] ControlError),
}

impl Aconite {
    /// An instance without proxies, on free ports of 127.0.0.1, with a CA of its own that it keeps in memory.
    pub fn builder() -> Builder {
        Builder::embedded()
    }

    /// The admin API, `http://ADDRESS:PORT`.
    #[must_use]
    pub fn admin_url(&self) -> String {
        let mut address = self.admin_address;
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        format!("http://{address}")
    }

    /// The address that the admin API listens on.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// A client of the admin API.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.admin_url(), self.token.as_deref())
            .expect("an address and a token that were checked at start")
    }

    /// The address that a proxy listens on; `None` if there is no such proxy, or it is disabled.
    #[must_use]
    pub fn proxy_address(&self, name: &str) -> Option<SocketAddr> {
        let spec = self.supervisor.proxy(name).ok().filter(|spec| spec.enabled)?;
        spec.listen.parse().ok()
    }

    /// The addresses that proxies listen on, by name.
    #[must_use]
    pub fn proxy_addresses(&self) -> BTreeMap<String, SocketAddr> {
        let listening = self.supervisor.proxies().into_iter().filter(|spec| spec.enabled);
        listening.filter_map(|spec| Some((spec.name, spec.listen.parse().ok()?))).collect()
    }

    /// The certificate of the local CA that clients of forward proxies have to trust, PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.supervisor.shared.authority.pem()
    }

    /// The source of every random choice.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Makes the proxies what a configuration says, all or nothing; those that it does not name are deleted.
    ///
    /// # Errors
    /// The first mistake; then nothing has changed.
    pub async fn apply(&self, proxies: Vec<ProxySpec>) -> Result<Vec<Change>, ControlError> {
        for (index, proxy) in proxies.iter().enumerate() {
            check::strict_proxy(proxy).map_err(|error| error.within(&format!("proxies[{index}]")))?;
        }
        self.supervisor.apply(Apply { proxies, prune: true, dry_run: false }).await
    }

    /// Stops accepting, lets connections and exchanges end for a while (8 s unless configured), then closes them, and
    /// writes the journal out.
    pub async fn stop(mut self) {
        self.supervisor.drain(self.drain).await;
        if let Some(admin) = self.admin.take() {
            admin.close(Duration::from_secs(1)).await;
        }
        if let Some(journal) = self.journal.take() {
            journal.finish().await;
        }
    }

    /// Opens the journal's file again, for tools that rotate it; answers when what comes is written to the new file.
    pub(crate) async fn reopen_journal(&self) {
        if let Some(journal) = &self.journal {
            journal.reopen().await;
        }
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }
}

impl Drop for Aconite {
    fn drop(&mut self) {
        self.supervisor.close();
    }
}

/// A supervisor that never listens, to try configurations on.
pub(crate) fn dry_supervisor() -> Result<Arc<Supervisor>, StartError> {
    let authority = Arc::new(Authority::in_memory()?);
    let shared = Shared::new(0, Catalogue::default(), authority, Terminator::new()?, Outlets::default(), 0)?;
    Ok(Supervisor::new(shared, true, true, None))
}
