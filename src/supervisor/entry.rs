//! One proxy as the supervisor keeps it: what was asked for, and what runs.
use std::{net::SocketAddr, sync::Arc};

use aconite_api::{
    ControlError, check,
    model::{Protocol, ProxySpec},
};
use aconite_toxics::{Catalogue, Direction, SpecError, ToxicSpec};
use tokio::{sync::watch, time::Instant};

use super::Shared;
use crate::{
    connection::ConnectionShared,
    http::TlsFiles,
    link::Counters,
    listen,
    metrics::ProxyMetrics,
    plan::{Armed, Plan},
    proxy::{Bound, Kind, Listening, Proxy},
};

/// A proxy.
pub(crate) struct Entry {
    /// As it was asked for, its toxics apart; `listen` is the real address once it has listened.
    pub(crate) spec: ProxySpec,
    /// In the order in which they were added.
    pub(crate) toxics: Vec<Arc<Armed>>,
    plan: watch::Sender<Arc<Plan>>,
    proxy: Arc<Proxy>,
    pub(crate) listening: Option<Listening>,
    traffic: Arc<Counters>,
}

/// A proxy that was read and found right, and does not listen yet.
pub(crate) struct Draft {
    pub(crate) spec: ProxySpec,
    pub(crate) toxics: Vec<Arc<Armed>>,
    kind: Kind,
    tls: Arc<TlsFiles>,
    /// Where it would listen; `None` if it need not and cannot be told.
    pub(crate) address: Option<SocketAddr>,
    /// Whether another port of the same address does as well.
    any_port: bool,
}

/// A proxy that has everything it needs: starting it cannot fail.
pub(crate) struct Prepared {
    entry: Entry,
    door: Door,
}

/// Where a prepared proxy gets its connections from.
enum Door {
    Closed,
    Own(Bound),
    /// The listener on this address, which another proxy leaves.
    TakenOver(SocketAddr),
}

impl Draft {
    /// Reads a spec. Toxics of `old` that are still there keep their numbers.
    ///
    /// # Errors
    /// What is invalid, with its path.
    pub(crate) async fn new(
        mut spec: ProxySpec,
        old: &[Arc<Armed>],
        shared: &Shared,
    ) -> Result<Self, ControlError> {
        check::proxy(&spec)?;
        let protocol = spec.protocol();
        let toxics = std::mem::take(&mut spec.toxics);
        let toxics = arm_all(toxics, old, &spec, &shared.catalogue)?;
        let kind = Kind::new(&spec)?;
        let tls = shared.tls_to_upstreams(&spec)?;
        let address = match listen::resolve(&spec.listen).await {
            Ok(address) => Some(address),
            Err(_) if !spec.enabled => None,
            Err(error) => return Err(ControlError::listen(in_full(&error))),
        };
        let guarded = spec.credentials.is_some() || spec.open_proxy;
        if protocol == Protocol::Forward && !guarded && address.is_some_and(listen::is_public) {
            let text = format!("a forward proxy on `{}` would serve anybody", spec.listen);
            let hint = "give `credentials`, or say `open_proxy: true`, or listen on 127.0.0.1";
            return Err(SpecError::new("listen", text).hint(hint).into());
        }
        Ok(Self { spec, toxics, kind, tls, address, any_port: false })
    }

    /// Whether it listens and leads where `spec` does.
    pub(crate) fn leads_as(&self, spec: &ProxySpec) -> bool {
        self.spec.upstream == spec.upstream
            && self.address.is_some_and(|address| address.to_string() == spec.listen)
    }

    /// Keeps the port that `old` has if the draft asks for any free port of the same address.
    pub(crate) fn keep_port(&mut self, old: Option<&Entry>) {
        let held = old.and_then(|old| match &old.listening {
            Some(listening) => Some(listening.address),
            // Disabled: the port that it had, if it had one.
            None => old.spec.listen.parse().ok().filter(|held: &SocketAddr| held.port() != 0),
        });
        let Some((asked, held)) = self.address.zip(held) else { return };
        let same_host = asked.ip() == held.ip() || asked.ip().is_unspecified() && held.ip().is_unspecified();
        if asked.port() == 0 && same_host {
            self.address = Some(held);
            self.any_port = true;
        }
    }

    /// The socket that it listens on, if it is to listen.
    ///
    /// # Errors
    /// If the address cannot be had.
    fn bind(&self) -> Result<Option<std::net::TcpListener>, ControlError> {
        let Some(mut address) = self.address.filter(|_| self.spec.enabled) else { return Ok(None) };
        let bound = listen::bind(address).or_else(|error| {
            if !self.any_port {
                return Err(error);
            }
            address.set_port(0);
            listen::bind(address)
        });
        bound.map(Some).map_err(ControlError::listen)
    }

    /// Gets everything that it needs to run. It takes over the listener on `taken_over`, or has one of its own.
    ///
    /// # Errors
    /// If the address cannot be had, or a file cannot be used.
    pub(crate) fn prepare(
        self,
        taken_over: Option<SocketAddr>,
        before: Option<&Entry>,
        shared: &Shared,
        chaos: bool,
    ) -> Result<Prepared, ControlError> {
        let socket = if taken_over.is_none() { self.bind()? } else { None };
        let address = taken_over.or_else(|| socket.as_ref().and_then(|socket| socket.local_addr().ok()));
        let Self { mut spec, toxics, kind, tls, .. } = self;
        if let Some(address) = address {
            spec.listen = address.to_string();
        }
        let name: Arc<str> = spec.name.as_str().into();
        let (plan, _) = Plan::at(Instant::now(), name, shared.seed, chaos, spec.exclusive, &toxics);
        let (plan, receiver) = watch::channel(Arc::new(plan));
        let traffic = before.map_or_else(Arc::default, |before| Arc::clone(&before.traffic));
        let numbers = before.map(|before| Arc::clone(&before.proxy.site.numbers)).unwrap_or_default();
        let series = before.map(|before| Arc::clone(&before.proxy.site.series)).unwrap_or_default();
        let site = shared.site(spec.clone(), receiver, Arc::clone(&traffic), numbers, series);
        let service = shared.service(kind, &site, address, tls);
        let proxy = Arc::new(Proxy::new(site, service));
        let door = match (taken_over, socket) {
            (Some(address), _) => Door::TakenOver(address),
            (None, Some(socket)) => {
                let bound = Bound::new(socket, &shared.workers, &shared.tracker);
                Door::Own(bound.map_err(|error| ControlError::listen(in_full(&error.to_string())))?)
            }
            (None, None) => Door::Closed,
        };
        Ok(Prepared { entry: Entry { spec, toxics, plan, proxy, listening: None, traffic }, door })
    }
}

impl Prepared {
    pub(crate) fn name(&self) -> &str {
        &self.entry.spec.name
    }

    /// Begins to serve. A listener that it takes over is among `freed`.
    pub(crate) fn start(self, freed: &mut Vec<Listening>) -> Entry {
        let Self { mut entry, door } = self;
        entry.listening = match door {
            Door::Closed => None,
            Door::Own(bound) => Some(bound.accept_for(Arc::clone(&entry.proxy))),
            Door::TakenOver(address) => {
                let at = freed.iter().position(|listening| listening.address == address);
                let listening = at.map(|at| freed.swap_remove(at));
                listening.inspect(|listening| listening.hand_to(Arc::clone(&entry.proxy)))
            }
        };
        entry
    }
}

impl Entry {
    /// As the API shows it: complete toxics, upstream ones first; no secrets.
    pub(crate) fn view(&self) -> ProxySpec {
        let of = |direction| self.toxics.iter().filter(move |toxic| toxic.spec.stream == direction);
        let toxics = of(Direction::Upstream).chain(of(Direction::Downstream));
        ProxySpec {
            toxics: toxics.map(|toxic| toxic.spec.clone()).collect(),
            credentials: self.spec.credentials.as_deref().map(masked),
            protocol: Some(self.spec.protocol()),
            ..self.spec.clone()
        }
    }

    /// As it was asked for, toxics and secrets too.
    pub(crate) fn whole(&self) -> ProxySpec {
        ProxySpec {
            toxics: self.toxics.iter().map(|toxic| toxic.spec.clone()).collect(),
            ..self.spec.clone()
        }
    }

    /// Puts the toxics that may strike now in effect; says when that changes by itself.
    pub(crate) fn publish(&self, chaos: bool) -> Option<Instant> {
        let old = Arc::clone(&self.plan.borrow());
        let (now, name, exclusive) = (Instant::now(), Arc::clone(&old.proxy), self.spec.exclusive);
        let (plan, next) = Plan::at(now, name, old.seed, chaos, exclusive, &self.toxics);
        if !plan.is_same(&old) {
            self.plan.send_replace(Arc::new(plan));
        }
        next
    }

    /// Adds a toxic.
    ///
    /// # Errors
    /// If its name is taken or it is invalid here.
    pub(crate) fn add_toxic(
        &mut self,
        spec: &ToxicSpec,
        catalogue: &Catalogue,
    ) -> Result<ToxicSpec, ControlError> {
        let armed = arm(spec, &self.spec, catalogue)?;
        if self.toxics.iter().any(|toxic| toxic.spec.name == armed.spec.name) {
            return Err(ControlError::ToxicExists(armed.spec.name));
        }
        let spec = armed.spec.clone();
        self.toxics.push(Arc::new(armed));
        Ok(spec)
    }

    /// Changes a toxic; its name, type and stream stay.
    ///
    /// # Errors
    /// If there is none, or it would be invalid then.
    pub(crate) fn change_toxic(
        &mut self,
        name: &str,
        change: impl FnOnce(ToxicSpec) -> Result<ToxicSpec, ControlError>,
        catalogue: &Catalogue,
    ) -> Result<ToxicSpec, ControlError> {
        let place = self.place_of(name)?;
        let toxic = &mut self.toxics[place];
        let old = toxic.spec.clone();
        let new = change(old.clone())?;
        let new = ToxicSpec { name: old.name, kind: old.kind, stream: old.stream, ..new };
        let armed = toxic.changed(&new, catalogue)?;
        check_on(&armed, &self.spec)?;
        let spec = armed.spec.clone();
        *toxic = Arc::new(armed);
        Ok(spec)
    }

    /// Removes a toxic.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn remove_toxic(&mut self, name: &str) -> Result<(), ControlError> {
        let place = self.place_of(name)?;
        self.toxics.remove(place).remove();
        Ok(())
    }

    fn place_of(&self, toxic: &str) -> Result<usize, ControlError> {
        let place = self.toxics.iter().position(|each| each.spec.name == toxic);
        place.ok_or_else(|| ControlError::no_toxic(toxic, self.toxics.iter().map(|each| &each.spec)))
    }

    /// Takes over the toxics of a draft, for the connections that there are.
    pub(crate) fn adopt(&mut self, draft: Draft) {
        let stays = |old: &Armed| draft.toxics.iter().any(|new| new.id.toxic == old.id.toxic);
        self.toxics.iter().filter(|old| !stays(old)).for_each(|old| old.remove());
        self.toxics = draft.toxics;
        self.proxy.refresh();
        self.spec = ProxySpec { listen: self.spec.listen.clone(), ..draft.spec };
    }

    /// Whether a draft differs in anything but toxics and what acts on them at once.
    pub(crate) fn differs_from(&self, draft: &Draft) -> bool {
        let bare = |spec: &ProxySpec| ProxySpec {
            toxics: Vec::new(),
            listen: String::new(),
            exclusive: false,
            protocol: Some(spec.protocol()),
            ..spec.clone()
        };
        let address = draft.address.map(|address| address.to_string());
        bare(&self.spec) != bare(&draft.spec) || address.is_none_or(|address| address != self.spec.listen)
    }

    /// The client connections that are open.
    pub(crate) fn connections(&self) -> Vec<Arc<ConnectionShared>> {
        self.proxy.live()
    }

    /// What it has counted. After its deletion this is gone.
    pub(crate) fn metrics(&self) -> ProxyMetrics {
        let Counters { upstream, downstream } = &*self.traffic;
        ProxyMetrics {
            proxy: self.spec.name.clone(),
            listener: self.spec.listen.clone(),
            upstream: self.spec.upstream.clone(),
            up: (upstream.received(), upstream.sent()),
            down: (downstream.received(), downstream.sent()),
            http: self.spec.protocol() != Protocol::Tcp,
            open: self.proxy.live().len(),
            connections: self.proxy.site.numbers.connections(),
            series: Arc::clone(&self.proxy.site.series),
        }
    }
}

fn check_on(armed: &Armed, proxy: &ProxySpec) -> Result<(), SpecError> {
    check::toxic(&armed.spec, armed.level, armed.connect, proxy)
}

/// Reads a toxic for a proxy.
fn arm(spec: &ToxicSpec, proxy: &ProxySpec, catalogue: &Catalogue) -> Result<Armed, ControlError> {
    let armed = Armed::new(spec, catalogue)?;
    check_on(&armed, proxy)?;
    Ok(armed)
}

fn arm_all(
    specs: Vec<ToxicSpec>,
    old: &[Arc<Armed>],
    proxy: &ProxySpec,
    catalogue: &Catalogue,
) -> Result<Vec<Arc<Armed>>, ControlError> {
    let mut toxics: Vec<Arc<Armed>> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.into_iter().enumerate() {
        let spec = catalogue.resolve(&spec).named();
        let same = old.iter().find(|toxic| {
            toxic.spec.name == spec.name && toxic.spec.kind == spec.kind && toxic.spec.stream == spec.stream
        });
        let armed = match same {
            Some(toxic) => toxic.changed(&spec, catalogue).map_err(ControlError::from).and_then(|armed| {
                check_on(&armed, proxy)?;
                // An equal toxic is the same one: nothing restarts.
                Ok(if armed.spec == toxic.spec { Arc::clone(toxic) } else { Arc::new(armed) })
            }),
            None => arm(&spec, proxy, catalogue).map(Arc::new),
        };
        let armed = armed.map_err(|error| error.within(&format!("toxics[{index}]")))?;
        if toxics.iter().any(|toxic| toxic.spec.name == armed.spec.name) {
            let taken = ControlError::ToxicExists(armed.spec.name.clone());
            return Err(taken.within(&format!("toxics[{index}]")));
        }
        toxics.push(armed);
    }
    Ok(toxics)
}

/// A user without the password.
pub(crate) fn masked(credentials: &str) -> String {
    format!("{}:***", credentials.split(':').next().unwrap_or_default())
}

fn in_full(error: &str) -> String {
    if error.starts_with("listen tcp") { error.to_owned() } else { format!("listen tcp: {error}") }
}
