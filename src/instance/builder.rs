//! How an instance is configured and started.
use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use aconite_api::{Security, model::ProxySpec};
use aconite_toxics::{Catalogue, Millis};
use tokio::sync::mpsc;

use super::{Aconite, StartError, journal_file::JournalWriter};
use crate::{
    admin::AdminServer,
    config::{self, Config},
    journal::{Finished, Outlets},
    listen,
    supervisor::{Shared, Supervisor, SwitchFile},
    tls::{accept::Terminator, authority::Authority},
};

/// How long a stop waits for connections to end, unless told otherwise: less than the 10 s that a container is given.
const DRAIN: Duration = Duration::from_secs(8);

/// How an instance is to be.
#[derive(Clone, Debug)]
#[must_use = "nothing runs until it is started"]
pub struct Builder {
    config: Config,
    catalogue: Catalogue,
    token: Option<String>,
    drop_in: bool,
    workers: usize,
    finished: Option<mpsc::Sender<Finished>>,
    keeps_switch: bool,
}

impl Builder {
    /// On free ports of 127.0.0.1, with a CA in memory.
    pub(super) fn embedded() -> Self {
        let admin = config::Admin { listen: Some("127.0.0.1:0".to_owned()), ..config::Admin::default() };
        Self {
            config: Config { admin, ..Config::default() },
            catalogue: Catalogue::default(),
            token: None,
            drop_in: false,
            workers: 1,
            finished: None,
            keeps_switch: false,
        }
    }

    /// The source of every random choice. Default: random.
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

    /// Replaces Toxiproxy: its routes are open on every address, as container wrappers expect; `/v1` is not.
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

    /// How long [`Aconite::stop`] waits for connections to end. Default 8 s; with [`drop_in`](Self::drop_in) none, as Toxiproxy.
    pub fn drain(mut self, patience: Duration) -> Self {
        let ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.config.drain = Some(Millis(ms));
        self
    }

    /// How many threads connections are spread over. Default 1.
    pub fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.workers = workers.get();
        self
    }

    /// Where each exchange that has ended is sent too; what finds no room is lost. Default: nowhere.
    pub(crate) fn finished(mut self, finished: Option<mpsc::Sender<Finished>>) -> Self {
        self.finished = finished;
        self
    }

    /// Whether a kill switch that an operator has turned off stays off after a restart: its state is then kept in the
    /// data directory. Default false.
    pub(crate) fn keeps_switch(mut self, keeps: bool) -> Self {
        self.keeps_switch = keeps;
        self
    }

    /// Starts it, listening on everything that is configured.
    ///
    /// # Errors
    /// If anything that is configured cannot be had. Nothing runs then.
    pub async fn start(self) -> Result<Aconite, StartError> {
        let Self { config, catalogue, token, drop_in, workers, finished, keeps_switch } = self;
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
        let (lines, journal) = match &config.journal.file {
            None => (None, None),
            Some(path) => {
                let (lines, writer) = JournalWriter::open(path)
                    .await
                    .map_err(|source| StartError::Journal { path: path.clone(), source })?;
                (Some(lines), Some(writer))
            }
        };
        let seed = config.seed.unwrap_or_else(random_seed);
        let outlets = Outlets { lines, finished };
        let mut shared =
            Shared::new(seed, catalogue, Arc::new(authority), Terminator::new()?, outlets, workers)?;
        if token.is_none() {
            shared.keep_from(admin.address);
        }
        let production = config.is_production();
        let switch_file = config.data_dir.as_ref().filter(|_| keeps_switch);
        let switch_file = switch_file.map(|directory| SwitchFile::new(directory, &admin.listen));
        let allowed = !production || config.allow_production;
        let supervisor = Supervisor::new(shared, !production, allowed, switch_file);
        let mut instance = Aconite {
            supervisor,
            admin: None,
            admin_address: admin.address,
            seed,
            token,
            drain: config.drain.map_or(if drop_in { Duration::ZERO } else { DRAIN }, Duration::from),
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

/// Short enough to be typed again.
fn random_seed() -> u64 {
    // The standard library seeds its hashers by the system's random numbers.
    RandomState::new().hash_one(()) & u64::from(u32::MAX)
}
