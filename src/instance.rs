//! A running Aconite, for the executable and for embedding in other programs' tests.
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use aconite_api::{
    Client, Control, ControlError, Security,
    model::{Apply, Change, ProxySpec},
};
use aconite_toxics::Catalogue;
use tokio::{
    fs::{File, OpenOptions},
    io::{AsyncWriteExt, BufWriter},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::AdminServer,
    config::{self, Config},
    listen,
    supervisor::{Shared, Supervisor},
    tls::{
        accept::Terminator,
        authority::{Authority, AuthorityError},
    },
};

/// How long a stop waits for connections to end, unless told otherwise.
const DRAIN: Duration = Duration::from_secs(30);

/// Lines of the journal that may wait to be written.
const JOURNAL_QUEUE: usize = 10_000;

/// A running instance: its proxies and its admin API.
///
/// Dropping it stops it at once; [`Aconite::stop`] lets what is under way end. It lives on the tokio runtime that it was
/// started on.
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

/// How an instance is to be.
#[derive(Clone, Debug)]
#[must_use = "nothing runs until it is started"]
pub struct Builder {
    config: Config,
    catalogue: Catalogue,
    token: Option<String>,
    drop_in: bool,
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
        let admin = config::Admin { listen: Some("127.0.0.1:0".to_owned()), ..config::Admin::default() };
        Builder {
            config: Config { admin, ..Config::default() },
            catalogue: Catalogue::default(),
            token: None,
            drop_in: false,
        }
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

    /// What every dice roll derives from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Makes the proxies what a configuration says, all or nothing; those that it does not name are deleted.
    ///
    /// # Errors
    /// The first thing that does not hold; then nothing has changed.
    pub async fn apply(&self, proxies: Vec<ProxySpec>) -> Result<Vec<Change>, ControlError> {
        self.supervisor.apply(Apply { proxies, prune: true, dry_run: false }).await
    }

    /// Stops accepting, lets connections and exchanges end for a while (30 s unless configured), then closes them, and
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

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }
}

impl Drop for Aconite {
    fn drop(&mut self) {
        self.supervisor.close();
    }
}

impl Builder {
    /// What every dice roll derives from. Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// The toxics that can be added; `Catalogue::default().with::<Own>()` has one's own besides the built-in ones.
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Adds a proxy.
    pub fn proxy(mut self, proxy: ProxySpec) -> Self {
        self.config.proxies.push(proxy);
        self
    }

    /// Takes everything from a configuration. What it does not say keeps its default; the admin API then listens on
    /// 127.0.0.1:8474, and the CA is in memory unless `data_dir` is given.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Where the admin API listens. Default 127.0.0.1:0. Other machines can reach any address but a loopback one: it
    /// needs a [token](Self::token), or [`Self::insecure_admin`].
    pub fn admin(mut self, listen: impl Into<String>) -> Self {
        self.config.admin.listen = Some(listen.into());
        self
    }

    /// What callers of the admin API must present as a bearer token, in place of what the configuration's `token_file`
    /// holds. Default: none.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Leaves the admin API open to everybody who can reach it.
    pub fn insecure_admin(mut self, insecure: bool) -> Self {
        self.config.admin.insecure = insecure;
        self
    }

    /// Stands in Toxiproxy's place: its routes are open on every address, as container wrappers expect; `/v1` is not.
    pub fn drop_in(mut self, drop_in: bool) -> Self {
        self.drop_in = drop_in;
        self
    }

    /// The directory of the local CA, made at first use. Default: a CA in memory.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config.data_dir = Some(directory.into());
        self
    }

    /// Where this runs. In `production` the kill switch starts off. Default: nowhere special.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.config.environment = Some(environment.into());
        self
    }

    /// Whether the kill switch may be turned on in `production`. Default false.
    pub fn allow_production(mut self, allow: bool) -> Self {
        self.config.allow_production = allow;
        self
    }

    /// The file to which each exchange that has ended is added, as a line of JSON. Default: none.
    pub fn journal_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.journal.file = Some(path.into());
        self
    }

    /// How long [`Aconite::stop`] waits for connections to end. Default 30 s.
    pub fn drain(mut self, patience: Duration) -> Self {
        let ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.config.drain = Some(aconite_toxics::Millis(ms));
        self
    }

    /// Starts it, listening on everything that is configured.
    ///
    /// # Errors
    /// If anything that is configured cannot be had. Nothing runs then.
    pub async fn start(self) -> Result<Aconite, StartError> {
        let Self { config, catalogue, token, drop_in } = self;
        let token = match (token, &config.admin.token_file) {
            (None, Some(path)) => {
                Some(read_token(path).map_err(|source| StartError::Token { path: path.clone(), source })?)
            }
            (token, _) => token,
        };
        let admin = bind_admin(&config, token.as_deref(), drop_in).await?;
        let authority = match &config.data_dir {
            Some(directory) => Authority::load_or_create(directory)?,
            None => Authority::in_memory()?,
        };
        let (log, journal) = match &config.journal.file {
            None => (None, None),
            Some(path) => {
                let (log, writer) = JournalWriter::open(path)
                    .await
                    .map_err(|source| StartError::Journal { path: path.clone(), source })?;
                (Some(log), Some(writer))
            }
        };
        let seed = config.seed.unwrap_or_else(random_seed);
        let shared = Shared::new(seed, catalogue, Arc::new(authority), Terminator::new()?, log);
        let production = config.is_production();
        let supervisor = Supervisor::new(shared, !production, !production || config.allow_production);
        let mut instance = Aconite {
            supervisor,
            admin: None,
            admin_address: admin.address,
            seed,
            token,
            drain: config.drain.map_or(DRAIN, Duration::from),
            journal,
        };
        instance.apply(config.proxies).await?;
        let router = aconite_api::router(Arc::clone(&instance.supervisor), admin.security);
        let server = AdminServer::start(admin.socket, router)
            .map_err(|error| StartError::Admin { listen: admin.listen, reason: error.to_string() })?;
        instance.admin = Some(server);
        Ok(instance)
    }
}

/// The token in a file, without the white space around it.
///
/// # Errors
/// If the file cannot be read or holds none.
pub(crate) fn read_token(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    match text.trim() {
        "" => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")),
        token => Ok(token.to_owned()),
    }
}

/// What the admin API is to run on.
struct AdminSocket {
    listen: String,
    socket: std::net::TcpListener,
    address: SocketAddr,
    security: Security,
}

async fn bind_admin(config: &Config, token: Option<&str>, drop_in: bool) -> Result<AdminSocket, StartError> {
    let listen = config.admin.listen.clone().unwrap_or_else(|| "127.0.0.1:8474".to_owned());
    let refused = |reason| StartError::Admin { listen: listen.clone(), reason };
    let address = listen::resolve(&listen).await.map_err(refused)?;
    let token = token.map(str::to_owned);
    let security = match token {
        token if drop_in && (token.is_some() || listen::is_public(address)) => Security::drop_in(token),
        Some(token) => Security::token(token),
        None if listen::is_public(address) && !config.admin.insecure => {
            return Err(StartError::Exposed(listen));
        }
        None => Security::open(),
    };
    let security = config.admin.hosts.iter().fold(security, |security, name| security.with_name(name));
    let socket = listen::bind(address).map_err(refused)?;
    let address = socket.local_addr().map_err(|error| refused(error.to_string()))?;
    Ok(AdminSocket { listen, socket, address, security })
}

/// A supervisor that never listens, to try configurations on.
pub(crate) fn dry_supervisor() -> Result<Arc<Supervisor>, StartError> {
    let authority = Arc::new(Authority::in_memory()?);
    let shared = Shared::new(0, Catalogue::default(), authority, Terminator::new()?, None);
    Ok(Supervisor::new(shared, true, true))
}

/// Short enough to be typed again.
fn random_seed() -> u64 {
    // The standard library seeds its hashers by the system's random numbers.
    RandomState::new().hash_one(()) & u64::from(u32::MAX)
}

/// Writes what the journal tells it to a file.
struct JournalWriter {
    finish: CancellationToken,
    task: JoinHandle<()>,
}

impl JournalWriter {
    async fn open(path: &Path) -> io::Result<(mpsc::Sender<String>, Self)> {
        let file = OpenOptions::new().create(true).append(true).open(path).await?;
        let (lines, receiver) = mpsc::channel(JOURNAL_QUEUE);
        let finish = CancellationToken::new();
        let task = tokio::spawn(write(BufWriter::new(file), receiver, finish.clone()));
        Ok((lines, Self { finish, task }))
    }

    /// Writes out what there is.
    async fn finish(self) {
        self.finish.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the journal's file may lack its last lines");
        }
    }
}

async fn write(mut file: BufWriter<File>, mut lines: mpsc::Receiver<String>, finish: CancellationToken) {
    let mut failing = false;
    loop {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            () = finish.cancelled() => None,
        };
        let Some(mut line) = line else { break };
        line.push('\n');
        let mut result = file.write_all(line.as_bytes()).await;
        if result.is_ok() && lines.is_empty() {
            result = file.flush().await;
        }
        if let Err(error) = &result
            && !failing
        {
            tracing::error!(%error, "cannot write the journal's file");
        }
        failing = result.is_err();
    }
    if let Err(error) = file.flush().await {
        tracing::error!(%error, "cannot write the journal's file");
    }
}
