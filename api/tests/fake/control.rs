//! The contract itself.
use std::sync::atomic::Ordering;

use aconite_api::{
    Control, ControlError, MetricsFormat,
    model::{Apply, Change, Chaos, Connection, Exchange, ExchangeFilter, Happening, ProxySpec, Switch},
};
use aconite_toxics::{Catalogue, Direction, ToxicSpec};
use tokio::sync::broadcast;

use super::{Fake, masked, resolve};

impl Control for Fake {
    fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    fn proxies(&self) -> Vec<ProxySpec> {
        self.state().proxies.values().cloned().map(masked).collect()
    }

    fn proxy(&self, name: &str) -> Result<ProxySpec, ControlError> {
        self.state().get(name).cloned().map(masked)
    }

    async fn create_proxy(&self, spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        let spec = self.checked(spec)?;
        let mut state = self.state();
        if state.proxies.contains_key(&spec.name) {
            return Err(ControlError::ProxyExists(spec.name));
        }
        let spec = state.bind(spec)?;
        state.proxies.insert(spec.name.clone(), spec.clone());
        Ok(masked(spec))
    }

    async fn change_proxy(
        &self,
        name: &str,
        change: Box<dyn FnOnce(ProxySpec) -> Result<ProxySpec, ControlError> + Send>,
    ) -> Result<ProxySpec, ControlError> {
        let mut state = self.state();
        let current = state.get(name)?.clone();
        let mut spec = self.checked(change(current.clone())?)?;
        if spec.name != name {
            return Err(ControlError::invalid("name", format!("a proxy keeps its name, here `{name}`")));
        }
        if spec.credentials == masked(current.clone()).credentials {
            spec.credentials = current.credentials;
        }
        let spec = state.bind(spec)?;
        state.proxies.insert(name.to_owned(), spec.clone());
        Ok(masked(spec))
    }

    async fn populate_proxy(&self, spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        let spec = self.checked(spec)?;
        let mut state = self.state();
        if let Ok(current) = state.get(&spec.name)
            && current.upstream == spec.upstream
            && resolve(&spec.listen)? == current.listen
        {
            return Ok(current.clone());
        }
        let spec = state.bind(spec)?;
        state.proxies.insert(spec.name.clone(), spec.clone());
        Ok(spec)
    }

    async fn delete_proxy(&self, name: &str) -> Result<(), ControlError> {
        let mut state = self.state();
        state.get(name)?;
        state.proxies.remove(name);
        Ok(())
    }

    async fn reset(&self) -> Result<(), ControlError> {
        let mut state = self.state();
        let mut first = Ok(());
        for mut spec in state.proxies.clone().into_values() {
            spec.toxics.clear();
            spec.enabled = true;
            match state.bind(spec.clone()) {
                Ok(bound) => drop(state.proxies.insert(bound.name.clone(), bound)),
                Err(error) => {
                    state.get(&spec.name)?.toxics.clear();
                    first = first.and(Err(error));
                }
            }
        }
        first
    }

    async fn apply(&self, apply: Apply) -> Result<Vec<Change>, ControlError> {
        let specs = apply.proxies.iter().enumerate().map(|(index, spec)| {
            self.checked(spec.clone()).map_err(|error| error.within(&format!("proxies[{index}]")))
        });
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.state();
        let before = state.proxies.clone();
        let mut changes = Vec::new();
        let change = |action, proxy: &str, fields| Change { action, proxy: proxy.to_owned(), fields };
        for spec in specs {
            let known = state.proxies.contains_key(&spec.name);
            match state.bind(spec) {
                Ok(spec) if before.get(&spec.name) == Some(&spec) => {}
                Ok(spec) => {
                    changes.push(change(if known { "change" } else { "create" }, &spec.name, Vec::new()));
                    state.proxies.insert(spec.name.clone(), spec);
                }
                Err(error) => {
                    state.proxies = before;
                    return Err(error);
                }
            }
        }
        if apply.prune {
            let absent = |name: &String| !apply.proxies.iter().any(|spec| spec.name == *name);
            for name in before.keys().filter(|name| absent(name)) {
                state.proxies.remove(name);
                changes.push(change("delete", name, Vec::new()));
            }
        }
        if apply.dry_run {
            state.proxies = before;
        }
        Ok(changes)
    }

    fn add_toxic(&self, proxy: &str, toxic: ToxicSpec) -> Result<ToxicSpec, ControlError> {
        let mut state = self.state();
        let spec = state.get(proxy)?;
        let toxic = self.checked_toxic(&toxic)?;
        if spec.toxics.iter().any(|each| each.name == toxic.name) {
            return Err(ControlError::ToxicExists(toxic.name));
        }
        spec.toxics.push(toxic.clone());
        spec.toxics.sort_by_key(|toxic| toxic.stream == Direction::Downstream);
        Ok(toxic)
    }

    fn change_toxic(
        &self,
        proxy: &str,
        toxic: &str,
        change: Box<dyn FnOnce(ToxicSpec) -> Result<ToxicSpec, ControlError> + Send>,
    ) -> Result<ToxicSpec, ControlError> {
        let mut state = self.state();
        let spec = state.get(proxy)?;
        let missing = ControlError::no_toxic(toxic, &spec.toxics);
        let place = spec.toxics.iter_mut().find(|each| each.name == toxic).ok_or(missing)?;
        *place = self.checked_toxic(&change(place.clone())?)?;
        Ok(place.clone())
    }

    fn remove_toxic(&self, proxy: &str, toxic: &str) -> Result<(), ControlError> {
        let mut state = self.state();
        let toxics = &mut state.get(proxy)?.toxics;
        let before = toxics.len();
        toxics.retain(|each| each.name != toxic);
        if toxics.len() == before { Err(ControlError::no_toxic(toxic, &*toxics)) } else { Ok(()) }
    }

    fn chaos(&self) -> Chaos {
        self.state().rules()
    }

    fn set_chaos(&self, enabled: bool, switch: Switch) -> Result<Chaos, ControlError> {
        if enabled && self.is_production.load(Ordering::Relaxed) {
            return Err(ControlError::Forbidden("this is production".to_owned()));
        }
        let mut state = self.state();
        state.chaos.enabled = enabled;
        state.chaos.by = switch.operator;
        state.chaos.reason = switch.reason;
        Ok(state.rules())
    }

    fn exchanges(&self, filter: &ExchangeFilter) -> (Vec<Exchange>, u64) {
        let since = filter.since.unwrap_or(0);
        let mut found = self.state().exchanges.clone();
        found.retain(|exchange| {
            exchange.id > since
                && filter.status.is_none_or(|status| exchange.status == Some(status))
                && filter.proxy.as_ref().is_none_or(|proxy| exchange.proxy == *proxy)
        });
        let next = found.last().map_or(since, |exchange| exchange.id);
        (found, next)
    }

    fn exchange(&self, id: u64) -> Result<Exchange, ControlError> {
        let found = self.state().exchanges.iter().find(|exchange| exchange.id == id).cloned();
        found.ok_or_else(|| ControlError::NotFound(format!("exchange {id}")))
    }

    async fn exchanges_settled(&self) {
        self.waits.notify_one();
        self.settled.notified().await;
    }

    fn clear_exchanges(&self) {
        self.state().exchanges.clear();
    }

    fn connections(&self) -> Vec<Connection> {
        self.state().connections.clone()
    }

    fn reset_connection(&self, id: u64) -> Result<(), ControlError> {
        let mut state = self.state();
        let before = state.connections.len();
        state.connections.retain(|connection| connection.id != id);
        let gone = state.connections.len() < before;
        if gone { Ok(()) } else { Err(ControlError::NotFound(format!("connection {id}"))) }
    }

    fn happenings(&self) -> broadcast::Receiver<Happening> {
        self.feed.subscribe()
    }

    fn ca_pem(&self) -> Option<String> {
        None
    }

    fn metrics(&self, format: MetricsFormat) -> String {
        let end = if format == MetricsFormat::OpenMetrics { "# EOF\n" } else { "" };
        format!("toxiproxy_proxy_sent_bytes_total{{direction=\"downstream\"}} 1\n{end}")
    }

    fn is_ready(&self) -> bool {
        !self.state().proxies.is_empty()
    }
}
