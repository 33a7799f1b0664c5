//! Changes of several proxies at once: everything is checked and bound before anything switches.
use std::{collections::BTreeSet, net::SocketAddr};

use aconite_api::{
    ControlError,
    model::{Apply, Change, ProxySpec},
};
use aconite_toxics::ToxicSpec;

use super::{
    Supervisor,
    control::keep_secret,
    entry::{Draft, Prepared},
};
use crate::proxy::Listening;

impl Supervisor {
    /// Whether a proxy could be created, as far as that can be told without listening.
    ///
    /// # Errors
    /// The first mistake.
    pub(crate) async fn check(&self, spec: ProxySpec) -> Result<(), ControlError> {
        Draft::new(spec, &[], &self.shared).await.map(drop)
    }

    /// All or nothing: everything is read and every new listener bound before anything changes.
    pub(super) async fn apply_all(&self, apply: Apply) -> Result<Vec<Change>, ControlError> {
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
            let mut draft = draft.map_err(|error| error.within(&place))?;
            self.read(|proxies| draft.keep_port(proxies.get(&draft.spec.name)));
            drafts.push((old, draft));
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
            let drafts = drafts.into_iter().map(|(_, draft)| draft).collect();
            let done = self.carry_out(drafts, &gone).await;
            done.map_err(|(index, error)| error.within(&format!("proxies[{index}]")))?;
        }
        Ok(changes)
    }

    /// Puts drafts in place and deletes the proxies in `gone`. The caller holds `changing`.
    ///
    /// # Errors
    /// Which draft cannot be had, and why. Then nothing has changed.
    pub(super) async fn carry_out(
        &self,
        drafts: Vec<Draft>,
        gone: &[String],
    ) -> Result<(), (usize, ControlError)> {
        let steps = self.read(|proxies| {
            let is_changed =
                |draft: &Draft| proxies.get(&draft.spec.name).is_none_or(|entry| entry.differs_from(draft));
            let changed: Vec<_> = drafts.iter().map(is_changed).collect();
            // The listeners of deleted and changed proxies are free to be taken over.
            let leaving = drafts.iter().zip(&changed).filter(|(_, changed)| **changed);
            let leaving = leaving.map(|(draft, _)| &draft.spec.name).chain(gone);
            let mut free: Vec<SocketAddr> =
                leaving.filter_map(|name| Some(proxies.get(name)?.listening.as_ref()?.address)).collect();
            let mut steps = Vec::with_capacity(drafts.len());
            for (index, (draft, changed)) in drafts.into_iter().zip(changed).enumerate() {
                if !changed {
                    steps.push(Step::Adopt(Box::new(draft)));
                    continue;
                }
                let wanted = draft.address.filter(|_| draft.spec.enabled);
                let at = free.iter().position(|free| Some(*free) == wanted);
                let taken_over = at.map(|at| free.swap_remove(at));
                let before = proxies.get(&draft.spec.name);
                let prepared = draft.prepare(taken_over, before, &self.shared, self.is_enabled());
                steps.push(Step::Start(Box::new(prepared.map_err(|error| (index, error))?)));
            }
            Ok(steps)
        })?;
        let (views, freed) = self.switch_to(steps, gone);
        self.windows.notify_one();
        self.listeners.notify_one();
        for mut listening in freed {
            listening.stop_accepting().await;
            listening.close_connections();
        }
        for view in &views {
            tracing::info!(proxy = %view.name, listen = %view.listen, upstream = %view.upstream, enabled = view.enabled, "a proxy is set up");
            self.shared
                .journal
                .tell("proxy", || serde_json::json!({"proxy": view.name, "enabled": view.enabled}));
        }
        Ok(())
    }

    /// Makes all steps at once; nothing here can fail. Answers the proxies that were started, and the listeners that
    /// nobody has taken over.
    fn switch_to(&self, steps: Vec<Step>, gone: &[String]) -> (Vec<ProxySpec>, Vec<Listening>) {
        let chaos = self.is_enabled();
        self.write(|proxies| {
            let mut freed: Vec<Listening> = Vec::new();
            let starting = steps.iter().filter_map(|step| match step {
                Step::Adopt(_) => None,
                Step::Start(prepared) => Some(prepared.name()),
            });
            for name in starting.chain(gone.iter().map(String::as_str)) {
                freed.extend(proxies.remove(name).and_then(|mut entry| entry.listening.take()));
            }
            let mut views = Vec::new();
            for step in steps {
                match step {
                    Step::Adopt(draft) => {
                        if let Some(entry) = proxies.get_mut(&draft.spec.name) {
                            entry.adopt(*draft);
                            entry.publish(chaos);
                        }
                    }
                    Step::Start(prepared) => {
                        let entry = prepared.start(&mut freed);
                        views.push(entry.view());
                        proxies.insert(entry.spec.name.clone(), entry);
                    }
                }
            }
            (views, freed)
        })
    }
}

/// What is done for one draft.
enum Step {
    /// Its toxics take the place of those of the running proxy, whose connections stay.
    Adopt(Box<Draft>),
    /// It is started, in place of a running proxy if there is one of its name.
    Start(Box<Prepared>),
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
