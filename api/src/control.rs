//! What the API asks of the proxies that it governs, and every way in which that can fail.
use aconite_toxics::{Catalogue, SpecError, ToxicSpec, meant};
use thiserror::Error;
use tokio::sync::broadcast;

use crate::{
    MetricsFormat,
    model::{Apply, Change, Chaos, Connection, Exchange, ExchangeFilter, Happening, ProxySpec, Switch},
};

/// What the API asks. The proxy implements it; no call waits for a connection's data.
///
/// A proxy is always given back with the address that it really listens on, complete attributes, toxics in order
/// (upstream ones first), and with its password masked; what comes in masked is what it was. Errors in a proxy's
/// toxics say which one: `toxics[1].attributes.rate`.
pub trait Control: Send + Sync + 'static {
    /// The toxics that can be added.
    fn catalogue(&self) -> &Catalogue;

    /// All proxies, sorted by name.
    fn proxies(&self) -> Vec<ProxySpec>;

    /// One proxy.
    ///
    /// # Errors
    /// [`ControlError::NoProxy`].
    fn proxy(&self, name: &str) -> Result<ProxySpec, ControlError>;

    /// Creates a proxy with its toxics and, if enabled, binds before answering; all or nothing.
    ///
    /// # Errors
    /// If the name is taken, the spec is invalid, or the address cannot be had.
    fn create_proxy(&self, spec: ProxySpec) -> impl Future<Output = Result<ProxySpec, ControlError>> + Send;

    /// Makes a proxy what the spec says; `toxics` `None` keeps those it has. The new listener is
    /// bound before the old one is given up. A change of address or upstream drops live connections.
    ///
    /// # Errors
    /// As for creating; then nothing has changed.
    fn change_proxy(
        &self,
        name: &str,
        change: Box<dyn FnOnce(ProxySpec) -> Result<ProxySpec, ControlError> + Send>,
    ) -> impl Future<Output = Result<ProxySpec, ControlError>> + Send;

    /// Creates a proxy; leaves an existing one of that name alone if it listens and leads as the
    /// spec says, else replaces it, toxics and all.
    ///
    /// # Errors
    /// As for creating.
    fn populate_proxy(&self, spec: ProxySpec)
    -> impl Future<Output = Result<ProxySpec, ControlError>> + Send;

    /// Deletes a proxy, its listener closed before the answer.
    ///
    /// # Errors
    /// [`ControlError::NoProxy`].
    fn delete_proxy(&self, name: &str) -> impl Future<Output = Result<(), ControlError>> + Send;

    /// Enables every proxy and removes every toxic; goes on past a failure and reports the first.
    ///
    /// # Errors
    /// If a proxy cannot listen.
    fn reset(&self) -> impl Future<Output = Result<(), ControlError>> + Send;

    /// Makes the whole configuration so, or nothing of it.
    ///
    /// # Errors
    /// The first mistake.
    fn apply(&self, apply: Apply) -> impl Future<Output = Result<Vec<Change>, ControlError>> + Send;

    /// Adds a toxic, in effect on live connections when this returns.
    ///
    /// # Errors
    /// If there is no such proxy, the name is taken, or the spec is invalid there.
    fn add_toxic(&self, proxy: &str, toxic: ToxicSpec) -> Result<ToxicSpec, ControlError>;

    /// Changes a toxic; its name, type and stream stay.
    ///
    /// # Errors
    /// If there is no such toxic, or the result of `change` is invalid.
    fn change_toxic(
        &self,
        proxy: &str,
        toxic: &str,
        change: Box<dyn FnOnce(ToxicSpec) -> Result<ToxicSpec, ControlError> + Send>,
    ) -> Result<ToxicSpec, ControlError>;

    /// Removes a toxic.
    ///
    /// # Errors
    /// If there is no such toxic.
    fn remove_toxic(&self, proxy: &str, toxic: &str) -> Result<(), ControlError>;

    /// The kill switch.
    fn chaos(&self) -> Chaos;

    /// Turns the kill switch, at once and for live connections too.
    ///
    /// # Errors
    /// If the environment does not allow it.
    fn set_chaos(&self, enabled: bool, switch: Switch) -> Result<Chaos, ControlError>;

    /// Exchanges in the journal, and the cursor for the next call.
    fn exchanges(&self, filter: &ExchangeFilter) -> (Vec<Exchange>, u64);

    /// One exchange.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    fn exchange(&self, id: u64) -> Result<Exchange, ControlError>;

    /// Comes back when no exchange that had begun is in flight, or after 30 s.
    fn exchanges_settled(&self) -> impl Future<Output = ()> + Send;

    /// Empties the journal.
    fn clear_exchanges(&self);

    /// Live connections.
    fn connections(&self) -> Vec<Connection>;

    /// Breaks a live connection by RST.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    fn reset_connection(&self, id: u64) -> Result<(), ControlError>;

    /// The live feed.
    fn happenings(&self) -> broadcast::Receiver<Happening>;

    /// The local CA's certificate, PEM; `None` if there is no CA.
    fn ca_pem(&self) -> Option<String>;

    /// All metrics, as text.
    fn metrics(&self, format: MetricsFormat) -> String;

    /// Whether every enabled proxy listens.
    fn is_ready(&self) -> bool;
}

/// Why an operation failed. Nothing was changed then.
#[derive(Clone, Debug, Error)]
pub enum ControlError {
    /// There is no such proxy.
    #[error("no proxy has the name `{name}`")]
    NoProxy {
        /// The name asked for.
        name: String,
        /// The proxy that was probably meant.
        nearest: Option<String>,
    },
    /// There is no such toxic.
    #[error("no toxic of the proxy has the name `{name}`")]
    NoToxic {
        /// The name asked for.
        name: String,
        /// The toxic that was probably meant.
        nearest: Option<String>,
    },
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// A proxy of that name exists.
    #[error("a proxy named `{0}` exists")]
    ProxyExists(String),
    /// A toxic of that name exists on the proxy.
    #[error("a toxic named `{0}` exists on the proxy")]
    ToxicExists(String),
    /// What the request specifies is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The address cannot be listened on. The text is Toxiproxy's (`listen tcp 127.0.0.1:1: bind: …`).
    #[error("{reason}")]
    Listen {
        /// The field, from the body's root down.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// Not allowed here.
    #[error("{0}")]
    Forbidden(String),
}

impl ControlError {
    /// There is no proxy of this name among those that are there.
    pub fn no_proxy<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        Self::NoProxy { name: name.to_owned(), nearest: meant(name, known).map(str::to_owned) }
    }

    /// There is no toxic of this name among those of the proxy.
    pub fn no_toxic<'n>(name: &str, known: impl IntoIterator<Item = &'n ToxicSpec>) -> Self {
        let known = known.into_iter().map(|toxic| toxic.name.as_str());
        Self::NoToxic { name: name.to_owned(), nearest: meant(name, known).map(str::to_owned) }
    }

    /// The address in `listen` cannot be listened on.
    pub fn listen(reason: impl Into<String>) -> Self {
        Self::Listen { path: "listen".to_owned(), reason: reason.into() }
    }

    /// Something in the request is invalid.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        SpecError::new(path, message).into()
    }

    /// The same error as seen from what has the specification at `place`.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Spec(error) => error.within(place).into(),
            Self::Listen { path, reason } => Self::Listen { path: format!("{place}.{path}"), reason },
            Self::ToxicExists(name) => {
                let text = format!("another toxic of the proxy is named `{name}`");
                SpecError::new("name", text).within(place).into()
            }
            other => other,
        }
    }
}
