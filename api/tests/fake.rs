//! A [`Control`] in memory: it keeps the contract, and only pretends to listen.
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, atomic::AtomicBool},
};

use aconite_api::{
    ControlError,
    model::{Chaos, Connection, Exchange, Happening, Protocol, ProxySpec, Rule},
};
use aconite_toxics::{Catalogue, Direction, ToxicSpec};
use tokio::sync::{Notify, broadcast};

mod control;

/// Proxies that live in memory.
pub(crate) struct Fake {
    catalogue: Catalogue,
    state: Mutex<State>,
    feed: broadcast::Sender<Happening>,
    /// Whether the environment forbids toxics to act.
    pub(crate) is_production: AtomicBool,
    /// Tells that a caller waits for exchanges to end.
    pub(crate) waits: Notify,
    /// Lets that caller go on.
    pub(crate) settled: Notify,
}

struct State {
    proxies: BTreeMap<String, ProxySpec>,
    next_port: u16,
    chaos: Chaos,
    exchanges: Vec<Exchange>,
    connections: Vec<Connection>,
}

impl Default for Fake {
    fn default() -> Self {
        let chaos = Chaos {
            enabled: true,
            active_rules: 0,
            rules: Vec::new(),
            by: None,
            reason: None,
            since: "2026-11-30T00:00:00Z".to_owned(),
        };
        Self {
            catalogue: Catalogue::default(),
            state: Mutex::new(State {
                proxies: BTreeMap::new(),
                next_port: 40_000,
                chaos,
                exchanges: Vec::new(),
                connections: Vec::new(),
            }),
            feed: broadcast::channel(16).0,
            is_production: AtomicBool::new(false),
            waits: Notify::new(),
            settled: Notify::new(),
        }
    }
}

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A proxy as it is, its password too.
    pub(crate) fn whole(&self, name: &str) -> ProxySpec {
        self.state().get(name).unwrap().clone()
    }

    /// Whether something listens at an address.
    pub(crate) fn listens(&self, address: &str) -> bool {
        self.state().listens(address, "")
    }

    pub(crate) fn record(&self, exchange: Exchange) {
        self.state().exchanges.push(exchange);
    }

    pub(crate) fn connect(&self, connection: Connection) {
        self.state().connections.push(connection);
    }

    pub(crate) fn happen(&self, event: &'static str, detail: serde_json::Value) {
        let happening = Happening { event, at: "2026-11-30T00:00:00Z".to_owned(), detail };
        assert!(self.feed.send(happening).is_ok(), "nobody listens");
    }

    /// Everything that must hold of a proxy and its toxics.
    fn checked(&self, mut spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        if spec.name.is_empty() {
            return Err(ControlError::invalid("name", "a proxy needs a name"));
        }
        if spec.upstream.is_empty() && spec.protocol() != Protocol::Forward {
            return Err(ControlError::invalid("upstream", "a proxy needs an upstream"));
        }
        for index in 0..spec.toxics.len() {
            let place = format!("toxics[{index}]");
            let toxic = self.checked_toxic(&spec.toxics[index]).map_err(|error| error.within(&place))?;
            if spec.toxics[..index].iter().any(|other| other.name == toxic.name) {
                return Err(ControlError::ToxicExists(toxic.name).within(&place));
            }
            spec.toxics[index] = toxic;
        }
        spec.toxics.sort_by_key(|toxic| toxic.stream == Direction::Downstream);
        Ok(spec)
    }

    fn checked_toxic(&self, toxic: &ToxicSpec) -> Result<ToxicSpec, ControlError> {
        let mut toxic = self.catalogue.resolve(toxic).named();
        toxic.attributes = self.catalogue.parse(&toxic)?.attributes();
        Ok(toxic)
    }
}

/// As it is shown.
fn masked(mut spec: ProxySpec) -> ProxySpec {
    let mask = |credentials: String| format!("{}:***", credentials.split(':').next().unwrap());
    spec.credentials = spec.credentials.map(mask);
    spec
}

impl State {
    fn listens(&self, address: &str, but: &str) -> bool {
        self.proxies.values().any(|proxy| proxy.enabled && proxy.listen == address && proxy.name != but)
    }

    fn get(&mut self, name: &str) -> Result<&mut ProxySpec, ControlError> {
        let missing = ControlError::no_proxy(name, self.proxies.keys().map(String::as_str));
        self.proxies.get_mut(name).ok_or(missing)
    }

    /// Listens, if the proxy is enabled: then the address is the real one.
    fn bind(&mut self, mut spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        if spec.enabled {
            let address = resolve(&spec.listen)?;
            spec.listen = match address.strip_suffix(":0") {
                Some(host) => {
                    self.next_port += 1;
                    format!("{host}:{}", self.next_port)
                }
                None => address,
            };
            if self.listens(&spec.listen, &spec.name) {
                let text = format!("listen tcp {}: bind: address already in use", spec.listen);
                return Err(ControlError::listen(text));
            }
        }
        Ok(spec)
    }

    fn rules(&mut self) -> Chaos {
        let of = |proxy: &ProxySpec| {
            let name = proxy.name.clone();
            let rule = move |toxic: &ToxicSpec| Rule {
                proxy: name.clone(),
                id: toxic.name.clone(),
                kind: toxic.kind.clone(),
                probability: toxic.toxicity,
            };
            proxy.toxics.iter().map(rule).collect::<Vec<_>>()
        };
        self.chaos.rules = self.proxies.values().flat_map(of).collect();
        self.chaos.active_rules = self.chaos.rules.len();
        self.chaos.clone()
    }
}

/// The address as Go's `net.Listen` reads it.
fn resolve(listen: &str) -> Result<String, ControlError> {
    let listen = if listen.is_empty() { ":0" } else { listen };
    let Some((host, port)) = listen.rsplit_once(':') else {
        return Err(ControlError::listen(format!("listen tcp: address {listen}: missing port in address")));
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" => "[::]",
        "localhost" => "127.0.0.1",
        host if host.starts_with("127.") => host,
        host => return Err(ControlError::listen(format!("listen tcp: lookup {host}: no such host"))),
    };
    Ok(format!("{host}:{port}"))
}
