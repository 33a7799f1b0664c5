//! The admin API's questions and orders, answered.
use std::{collections::BTreeSet, time::Duration};

use aconite_api::{
    Control, ControlError,
    model::{Apply, Change, Chaos, Connection, Exchange, ExchangeFilter, Happening, ProxySpec, Switch},
};
use aconite_toxics::{Catalogue, ToxicSpec};
use tokio::sync::broadcast;

use super::{
    Supervisor,
    entry::{Draft, Entry, masked, within},
};
use crate::proxy::Listening;

impl Control for Supervisor {
    fn catalogue(&self) -> &Catalogue {
        &self.shared.catalogue
    }

    fn proxies(&self) -> Vec<ProxySpec> {
        self.read(|proxies| proxies.values().map(Entry::view).collect())
    }

    fn proxy(&self, name: &str) -> Result<ProxySpec, ControlError> {
        self.read(|proxies| proxies.get(name).map(Entry::view))
            .ok_or_else(|| ControlError::NoProxy(name.to_owned()))
    }

    async fn create_proxy(&self, spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        let draft = Draft::new(spec, &[], &self.shared).await?;
        let _changing = self.changing.lock().await;
        let name = draft.spec.name.clone();
        if self.read(|proxies| proxies.contains_key(&name)) {
            return Err(ControlError::ProxyExists(name));
        }
        let socket = draft.bind()?;
        let entry = draft.start(socket, None, None, &self.shared, self.is_enabled())?;
        Ok(self.put(entry))
    }

    async fn change_proxy(
        &self,
        name: &str,
        change: Box<dyn FnOnce(ProxySpec) -> Result<ProxySpec, ControlError> + Send>,
    ) -> Result<ProxySpec, ControlError> {
        let _changing = self.changing.lock().await;
        let (old, toxics) = self
            .read(|proxies| proxies.get(name).map(|entry| (entry.whole(), entry.toxics.clone())))
            .ok_or_else(|| ControlError::NoProxy(name.to_owned()))?;
        let mut new = change(old.clone())?;
        if new.name != old.name {
            return Err(ControlError::invalid("name", format!("a proxy keeps its name, here `{name}`")));
        }
        keep_secret(&mut new, &old);
        let draft = Draft::new(new, &toxics, &self.shared).await?;
        self.change(draft).await
    }

    async fn populate_proxy(&self, spec: ProxySpec) -> Result<ProxySpec, ControlError> {
        let draft = Draft::new(spec, &[], &self.shared).await?;
        let _changing = self.changing.lock().await;
        let name = draft.spec.name.clone();
        let same = self.read(|proxies| {
            let entry = proxies.get(&name)?;
            draft.leads_as(&entry.spec).then(|| entry.view())
        });
        match same {
            Some(view) => Ok(view),
            None if self.read(|proxies| proxies.contains_key(&name)) => self.replace(draft).await,
            None => {
                let socket = draft.bind()?;
                let entry = draft.start(socket, None, None, &self.shared, self.is_enabled())?;
                Ok(self.put(entry))
            }
        }
    }

    async fn delete_proxy(&self, name: &str) -> Result<(), ControlError> {
        let _changing = self.changing.lock().await;
        let entry = self
            .write(|proxies| proxies.remove(name))
            .ok_or_else(|| ControlError::NoProxy(name.to_owned()))?;
        self.retire(entry).await;
        Ok(())
    }

    async fn reset(&self) -> Result<(), ControlError> {
        let names: Vec<_> = self.read(|proxies| proxies.keys().cloned().collect());
        let mut failure = None;
        for name in names {
            let enable = |spec: ProxySpec| Ok(ProxySpec { enabled: true, toxics: Vec::new(), ..spec });
            match self.change_proxy(&name, Box::new(enable)).await {
                // Deleted meanwhile: nothing to reset.
                Ok(_) | Err(ControlError::NoProxy(_)) => {}
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

    fn metrics(&self) -> String {
        let traffic: Vec<_> = self.read(|proxies| proxies.values().map(Entry::traffic).collect());
        self.shared.metrics.text(&traffic, self.shared.journal.in_flight(), self.is_enabled())
    }

    fn is_ready(&self) -> bool {
        !self.shared.drain.is_cancelled()
            && self.read(|proxies| {
                proxies.values().all(|entry| !entry.spec.enabled || entry.listening.is_some())
            })
    }
}

impl Supervisor {
    fn put(&self, entry: Entry) -> ProxySpec {
        let view = entry.view();
        self.write(|proxies| proxies.insert(entry.spec.name.clone(), entry));
        self.windows.notify_one();
        tracing::info!(proxy = %view.name, listen = %view.listen, upstream = %view.upstream, enabled = view.enabled, "a proxy is set up");
        self.shared
            .journal
            .tell("proxy", || serde_json::json!({"proxy": view.name, "enabled": view.enabled}));
        view
    }

    /// Makes a proxy what a draft says. Nothing has changed if it fails.
    async fn change(&self, draft: Draft) -> Result<ProxySpec, ControlError> {
        let name = draft.spec.name.clone();
        let structural =
            self.read(|proxies| proxies.get(&name).is_none_or(|entry| entry.differs_from(&draft)));
        if structural {
            return self.replace(draft).await;
        }
        let chaos = self.is_enabled();
        let view = self.write(|proxies| {
            let entry = proxies.get_mut(&name)?;
            entry.adopt(draft);
            entry.publish(chaos);
            Some(entry.view())
        });
        self.windows.notify_one();
        view.ok_or(ControlError::NoProxy(name))
    }

    /// Puts a new proxy in the place of an old one: the new listener is there before the old one goes.
    async fn replace(&self, draft: Draft) -> Result<ProxySpec, ControlError> {
        let name = draft.spec.name.clone();
        let held =
            self.read(|proxies| proxies.get(&name)?.listening.as_ref().map(|listening| listening.address));
        let stays = draft.spec.enabled && held.is_some() && draft.address == held;
        let socket = if stays { None } else { draft.bind()? };
        let mut old =
            self.write(|proxies| proxies.remove(&name)).ok_or_else(|| ControlError::NoProxy(name.clone()))?;
        let taken_over = if stays { old.listening.take() } else { None };
        let started = draft.start(socket, taken_over, Some(&old), &self.shared, self.is_enabled());
        match started {
            Ok(entry) => {
                let view = self.put(entry);
                self.retire(old).await;
                Ok(view)
            }
            Err(error) => {
                self.write(|proxies| proxies.insert(name, old));
                Err(error)
            }
        }
    }

    /// Ends a proxy that is no longer listed: its address is free when this is over.
    async fn retire(&self, mut entry: Entry) {
        if let Some(mut listening) = entry.listening.take() {
            listening.stop_accepting().await;
            listening.close_connections();
        }
    }

    fn with_toxics<T>(
        &self,
        proxy: &str,
        change: impl FnOnce(&mut Entry, &Catalogue) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let chaos = self.is_enabled();
        let result = self.write(|proxies| -> Result<T, ControlError> {
            let entry = proxies.get_mut(proxy).ok_or_else(|| ControlError::NoProxy(proxy.to_owned()))?;
            let result = change(entry, &self.shared.catalogue)?;
            entry.publish(chaos);
            Ok(result)
        })?;
        self.windows.notify_one();
        self.shared.journal.tell("toxic", || serde_json::json!({"proxy": proxy}));
        Ok(result)
    }

    /// All or nothing: everything is read and every new listener bound before anything changes.
    async fn apply_all(&self, apply: Apply) -> Result<Vec<Change>, ControlError> {
        let mut drafts = Vec::new();
        let mut names = BTreeSet::new();
        for (index, mut spec) in apply.proxies.into_iter().enumerate() {
            let place = format!("proxies[{index}]");
            if !names.insert(spec.name.clone()) {
                return Err(ControlError::invalid(
                    format!("{place}.name"),
                    format!("two proxies are named `{}`", spec.name),
                ));
            }
            let old = self
                .read(|proxies| proxies.get(&spec.name).map(|entry| (entry.whole(), entry.toxics.clone())));
            let (old, toxics) = old.unzip();
            if let Some(old) = &old {
                keep_secret(&mut spec, old);
            }
            let draft = Draft::new(spec, toxics.as_deref().unwrap_or_default(), &self.shared).await;
            drafts.push((old, draft.map_err(|error| within(&place, error))?));
        }
        let gone: Vec<String> = if apply.prune {
            self.read(|proxies| proxies.keys().filter(|name| !names.contains(*name)).cloned().collect())
        } else {
            Vec::new()
        };
        let mut changes: Vec<_> =
            drafts.iter().filter_map(|(old, draft)| difference(old.as_ref(), draft)).collect();
        changes.extend(gone.iter().map(|name| Change {
            action: "delete",
            proxy: name.clone(),
            fields: Vec::new(),
        }));
        if !apply.dry_run {
            self.carry_out(drafts.into_iter().map(|(_, draft)| draft).collect(), &gone).await?;
        }
        Ok(changes)
    }

    async fn carry_out(&self, drafts: Vec<Draft>, gone: &[String]) -> Result<(), ControlError> {
        let mut ready = Vec::new();
        for (index, draft) in drafts.into_iter().enumerate() {
            let change =
                self.read(|proxies| proxies.get(&draft.spec.name).map(|entry| entry.differs_from(&draft)));
            let free_soon = self.read(|proxies| {
                let mut leaving = gone.iter().filter_map(|name| proxies.get(name)?.listening.as_ref());
                leaving.any(|listening| Some(listening.address) == draft.address)
            });
            // A change rebinds by itself; what a proxy on its way out holds is taken over.
            let bind = || draft.bind().map_err(|error| within(&format!("proxies[{index}]"), error));
            let socket = if change.is_none() && !free_soon { bind()? } else { None };
            ready.push((draft, change.is_some(), free_soon, socket));
        }
        let mut freed: Vec<Listening> = Vec::new();
        for name in gone {
            if let Some(mut entry) = self.write(|proxies| proxies.remove(name)) {
                freed.extend(entry.listening.take());
            }
        }
        for (draft, is_change, _, socket) in ready {
            if is_change {
                self.change(draft).await?;
                continue;
            }
            let at = freed.iter().position(|listening| Some(listening.address) == draft.address);
            let taken_over = at.filter(|_| draft.spec.enabled).map(|at| freed.remove(at));
            let entry = draft.start(socket, taken_over, None, &self.shared, self.is_enabled())?;
            self.put(entry);
        }
        for mut listening in freed {
            listening.stop_accepting().await;
            listening.close_connections();
        }
        Ok(())
    }
}

/// A spec that was read from the API carries the credentials masked: they stay what they were.
fn keep_secret(new: &mut ProxySpec, old: &ProxySpec) {
    if let (Some(given), Some(kept)) = (&new.credentials, &old.credentials)
        && *given == masked(kept)
    {
        new.credentials.clone_from(&old.credentials);
    }
}

/// What applying a draft changes.
fn difference(old: Option<&ProxySpec>, draft: &Draft) -> Option<Change> {
    let name = draft.spec.name.clone();
    let Some(old) = old else { return Some(Change { action: "create", proxy: name, fields: Vec::new() }) };
    let toxics: Vec<_> = draft.toxics.iter().map(|toxic| toxic.spec.clone()).collect();
    let listen = draft.address.map_or_else(|| draft.spec.listen.clone(), |address| address.to_string());
    let new = ProxySpec { listen, protocol: Some(draft.spec.protocol()), ..draft.spec.clone() };
    let plain = |spec: &ProxySpec| {
        serde_json::to_value(ProxySpec {
            toxics: Vec::new(),
            protocol: Some(spec.protocol()),
            ..spec.clone()
        })
        .unwrap_or_default()
    };
    let (before, after) = (plain(old), plain(&new));
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
    };
    let mut fields: Vec<String> =
        keys(&before).union(&keys(&after)).filter(|key| before.get(key) != after.get(key)).cloned().collect();
    let names: BTreeSet<_> = toxics.iter().chain(&old.toxics).map(|toxic| toxic.name.clone()).collect();
    let find = |list: &[ToxicSpec], name: &str| list.iter().find(|toxic| toxic.name == name).cloned();
    fields.extend(
        names
            .iter()
            .filter(|name| find(&toxics, name) != find(&old.toxics, name))
            .map(|name| format!("toxics.{name}")),
    );
    (!fields.is_empty()).then_some(Change { action: "change", proxy: name, fields })
}
