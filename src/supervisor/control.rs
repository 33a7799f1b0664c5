//! The admin API's questions and orders, answered.
use std::{collections::BTreeMap, time::Duration};

use aconite_api::{
    Control, ControlError, MetricsFormat,
    model::{Apply, Change, Chaos, Connection, Exchange, ExchangeFilter, Happening, ProxySpec, Switch},
};
use aconite_toxics::{Catalogue, ToxicSpec};
use tokio::sync::broadcast;

use super::{
    Supervisor,
    entry::{Draft, Entry, masked},
};
use crate::{listen, metrics::Metrics};

impl Control for Supervisor {
    fn catalogue(&self) -> &Catalogue {
        &self.shared.catalogue
    }

    fn proxies(&self) -> Vec<ProxySpec> {
        self.read(|proxies| proxies.values().map(Entry::view).collect())
    }

    fn proxy(&self, name: &str) -> Result<ProxySpec, ControlError> {
        self.read(|proxies| proxies.get(name).map(Entry::view).ok_or_else(|| missing(name, proxies)))
    }

    async fn create_proxy(&self, spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        let draft = Draft::new(spec, &[], &self.shared).await?;
        let _changing = self.changing.lock().await;
        let name = draft.spec.name.clone();
        if self.read(|proxies| proxies.contains_key(&name)) {
            return Err(ControlError::ProxyExists(name));
        }
        self.put(draft).await
    }

    async fn change_proxy(
        &self,
        name: &str,
        change: Box<dyn FnOnce(ProxySpec) -> Result<ProxySpec, ControlError> + Send>,
    ) -> Result<ProxySpec, ControlError> {
        let _changing = self.changing.lock().await;
        let (old, toxics) = self.read(|proxies| {
            let entry = proxies.get(name).ok_or_else(|| missing(name, proxies))?;
            Ok::<_, ControlError>((entry.whole(), entry.toxics.clone()))
        })?;
        let mut new = change(old.clone())?;
        if new.name != old.name {
            return Err(ControlError::invalid("name", format!("a proxy keeps its name, here `{name}`")));
        }
        keep_secret(&mut new, &old);
        if new.listen != old.listen {
            // Even of a disabled proxy; the words are those of Toxiproxy, which only resolves here.
            listen::resolve(&new.listen).await.map_err(ControlError::listen)?;
        }
        let draft = Draft::new(new, &toxics, &self.shared).await?;
        self.put(draft).await
    }

    async fn populate_proxy(&self, spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        if self.read(|proxies| proxies.contains_key(&spec.name)) {
            // To be compared with the proxy's.
            listen::resolve(&spec.listen).await.map_err(ControlError::listen)?;
        }
        let draft = Draft::new(spec, &[], &self.shared).await?;
        let _changing = self.changing.lock().await;
        let name = draft.spec.name.clone();
        let same = self.read(|proxies| {
            let entry = proxies.get(&name)?;
            draft.leads_as(&entry.spec).then(|| entry.view())
        });
        match same {
            Some(view) => Ok(view),
            None => self.put(draft).await,
        }
    }

    async fn delete_proxy(&self, name: &str) -> Result<(), ControlError> {
        let _changing = self.changing.lock().await;
        self.read(|proxies| if proxies.contains_key(name) { Ok(()) } else { Err(missing(name, proxies)) })?;
        self.carry_out(Vec::new(), &[name.to_owned()]).await.map_err(|(_, error)| error)
    }

    async fn reset(&self) -> Result<(), ControlError> {
        let names: Vec<_> = self.read(|proxies| proxies.keys().cloned().collect());
        let mut failure = None;
        for name in names {
            let enable = |spec: ProxySpec| Ok(ProxySpec { enabled: true, toxics: Vec::new(), ..spec });
            match self.change_proxy(&name, Box::new(enable)).await {
                // Deleted meanwhile: nothing to reset.
                Ok(_) | Err(ControlError::NoProxy { .. }) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn apply(&self, apply: Apply) -> Result<Vec<Change>, ControlError> {
        let _changing = self.changing.lock().await;
        self.apply_all(apply).await
    }

    fn add_toxic(&self, proxy: &str, toxic: ToxicSpec) -> Result<ToxicSpec, ControlError> {
        self.with_toxics(proxy, |entry, catalogue| entry.add_toxic(&toxic, catalogue))
    }

    fn change_toxic(
        &self,
        proxy: &str,
        toxic: &str,
        change: Box<dyn FnOnce(ToxicSpec) -> Result<ToxicSpec, ControlError> + Send>,
    ) -> Result<ToxicSpec, ControlError> {
        self.with_toxics(proxy, |entry, catalogue| entry.change_toxic(toxic, change, catalogue))
    }

    fn remove_toxic(&self, proxy: &str, toxic: &str) -> Result<(), ControlError> {
        self.with_toxics(proxy, |entry, _| entry.remove_toxic(toxic))
    }

    fn chaos(&self) -> Chaos {
        self.switched()
    }

    fn set_chaos(&self, enabled: bool, switch: Switch) -> Result<Chaos, ControlError> {
        self.turn(enabled, switch)
    }

    fn exchanges(&self, filter: &ExchangeFilter) -> (Vec<Exchange>, u64) {
        self.shared.journal.list(filter)
    }

    fn exchange(&self, id: u64) -> Result<Exchange, ControlError> {
        self.shared.journal.get(id).ok_or_else(|| ControlError::NotFound(format!("exchange {id}")))
    }

    async fn exchanges_settled(&self) {
        // Who waits longer gets what there is.
        let _ = tokio::time::timeout(Duration::from_secs(30), self.shared.journal.settled()).await;
    }

    fn clear_exchanges(&self) {
        self.shared.journal.clear();
    }

    fn connections(&self) -> Vec<Connection> {
        let live: Vec<_> = self.read(|proxies| proxies.values().flat_map(Entry::connections).collect());
        let mut views: Vec<_> = live.iter().map(|connection| connection.view()).collect();
        views.sort_by_key(|view| view.id);
        views
    }

    fn reset_connection(&self, id: u64) -> Result<(), ControlError> {
        let live: Vec<_> = self.read(|proxies| proxies.values().flat_map(Entry::connections).collect());
        let connection = live.iter().find(|connection| connection.id == id);
        connection.ok_or_else(|| ControlError::NotFound(format!("connection {id}")))?.break_off.cancel();
        Ok(())
    }

    fn happenings(&self) -> broadcast::Receiver<Happening> {
        self.shared.journal.subscribe()
    }

    fn ca_pem(&self) -> Option<String> {
        Some(self.shared.authority.pem().to_owned())
    }

    fn metrics(&self, format: MetricsFormat) -> String {
        let proxies = self.read(|proxies| proxies.values().map(Entry::metrics).collect());
        let (in_flight, chaos) = (self.shared.journal.in_flight(), self.is_enabled());
        Metrics { proxies, in_flight, chaos }.text(format)
    }

    fn is_ready(&self) -> bool {
        !self.shared.drain.is_cancelled()
            && self.read(|proxies| {
                proxies.values().all(|entry| !entry.spec.enabled || entry.listening.is_some())
            })
    }
}

impl Supervisor {
    /// Puts one proxy in place, new or changed.
    async fn put(&self, draft: Draft) -> Result<ProxySpec, ControlError> {
        let name = draft.spec.name.clone();
        self.carry_out(vec![draft], &[]).await.map_err(|(_, error)| error)?;
        self.proxy(&name)
    }

    fn with_toxics<T>(
        &self,
        proxy: &str,
        change: impl FnOnce(&mut Entry, &Catalogue) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let chaos = self.is_enabled();
        let result = self.write(|proxies| -> Result<T, ControlError> {
            let Some(entry) = proxies.get_mut(proxy) else { return Err(missing(proxy, proxies)) };
            let result = change(entry, &self.shared.catalogue)?;
            entry.publish(chaos);
            Ok(result)
        })?;
        self.windows.notify_one();
        self.shared.journal.tell("toxic", || serde_json::json!({"proxy": proxy}));
        Ok(result)
    }
}

/// A spec that was read from the API carries the credentials masked: they stay what they were.
pub(super) fn keep_secret(new: &mut ProxySpec, old: &ProxySpec) {
    if let (Some(given), Some(kept)) = (&new.credentials, &old.credentials)
        && *given == masked(kept)
    {
        new.credentials.clone_from(&old.credentials);
    }
}

/// There is no proxy of this name.
fn missing(name: &str, proxies: &BTreeMap<String, Entry>) -> ControlError {
    ControlError::no_proxy(name, proxies.keys().map(String::as_str))
}
