//! Everything that is wrong in a configuration file, and not only the first thing.
use std::path::Path;

use aconite_api::{ControlError, Problem, check, model::ProxySpec, read_value};
use aconite_toxics::{Catalogue, SpecError, ToxicSpec};
use serde_json::Value;

use super::read_token;
use crate::{
    config::{Complaint, Config, ConfigError, ConfigFile},
    listen,
    plan::Armed,
    supervisor::Supervisor,
};

/// Mistakes that are looked for in one value.
const MAX: usize = 50;

/// What a start of `serve` would refuse in the file, in the order of its lines. `has_token` says whether the environment
/// has a token for the admin API.
///
/// # Errors
/// If the file cannot be read, or is neither YAML nor JSON.
pub(crate) async fn mistakes(
    path: &Path,
    supervisor: &Supervisor,
    has_token: bool,
) -> Result<Vec<Complaint>, ConfigError> {
    let mut file = ConfigFile::open(path)?;
    let mut found = Vec::new();
    let Value::Object(mut top) = file.value() else {
        // Toxiproxy's list is read as Toxiproxy reads it: to the first mistake.
        return Ok(Vec::new());
    };
    let proxies = match top.get("proxies") {
        Some(Value::Array(_)) => top.remove("proxies"),
        _ => None,
    };
    let (problems, rest) =
        each_mistake(top.into(), "", async |value| read_value::<Config>(value).map(drop)).await;
    found.extend(problems);
    file.config = read_value(rest).unwrap_or_default();
    for (index, value) in proxies.iter().flat_map(|list| list.as_array().into_iter().flatten()).enumerate() {
        let (problems, proxy) = of_proxy(value.clone(), &format!("proxies[{index}]"), supervisor).await;
        found.extend(problems);
        file.config.proxies.push(proxy);
    }
    found.extend(of_admin(&file.config, has_token).await);
    found.extend(repeated_names(&file.config.proxies));
    let mut complaints: Vec<_> = found.into_iter().map(|problem| file.complaint(problem)).collect();
    complaints.extend(file.taken_addresses().await);
    complaints.sort_by_key(|complaint| (complaint.place.line, complaint.place.column));
    complaints.dedup();
    Ok(complaints)
}

/// The mistakes of a proxy and its toxics, and the proxy without them; a disabled one if it cannot be read at all.
async fn of_proxy(mut value: Value, at: &str, supervisor: &Supervisor) -> (Vec<Problem>, ProxySpec) {
    let toxics = match value.get_mut("toxics") {
        Some(Value::Array(toxics)) => std::mem::take(toxics),
        _ => Vec::new(),
    };
    let check = async |value: Value| -> Result<(), Problem> {
        let spec: ProxySpec = read_value(value)?;
        check::strict_proxy(&spec)?;
        Ok(supervisor.check(spec).await?)
    };
    let (mut found, rest) = each_mistake(value, at, check).await;
    let proxy = read_value::<ProxySpec>(rest).ok();
    let place = proxy.clone().filter(|_| found.is_empty());
    for (index, toxic) in toxics.into_iter().enumerate() {
        let check = async |value| of_toxic(value, place.clone(), supervisor).await;
        found.extend(each_mistake(toxic, &format!("{at}.toxics[{index}]"), check).await.0);
    }
    (found, proxy.unwrap_or_else(|| ProxySpec { enabled: false, ..ProxySpec::default() }))
}

/// What a toxic on a proxy is refused for; on its own if the proxy has mistakes itself.
async fn of_toxic(value: Value, proxy: Option<ProxySpec>, supervisor: &Supervisor) -> Result<(), Problem> {
    let toxic: ToxicSpec = read_value(value)?;
    check::strict_toxic(&toxic)?;
    let Some(proxy) = proxy else {
        return Ok(Armed::new(&toxic, &Catalogue::default()).map(drop).map_err(ControlError::from)?);
    };
    let spec = ProxySpec { toxics: vec![toxic], ..proxy };
    supervisor.check(spec).await.map_err(Problem::from).map_err(|problem| {
        let path = problem.path.as_deref().unwrap_or_default();
        let inside = path.strip_prefix("toxics[0]").unwrap_or(path).trim_start_matches('.').to_owned();
        Problem { path: Some(inside), ..problem }
    })
}

/// What the admin API would not start with.
async fn of_admin(config: &Config, has_token: bool) -> Vec<Problem> {
    let mut found = Vec::new();
    if let Some(path) = &config.admin.token_file
        && let Err(error) = read_token(path)
    {
        let message = format!("cannot read the token in `{}`: {error}", path.display());
        found.push(SpecError::new("admin.token_file", message).into());
    }
    let protected = config.admin.token_file.is_some() || has_token;
    if let Some(listen) = &config.admin.listen
        && !protected
        && !config.admin.insecure
        && listen::resolve(listen).await.is_ok_and(listen::is_public)
    {
        let text =
            format!("other machines could reach the admin API on `{listen}`, and no token protects it");
        let hint = "set ACONITE_TOKEN or `token_file`, or listen on 127.0.0.1";
        found.push(SpecError::new("admin.listen", text).hint(hint).into());
    }
    found
}

fn repeated_names(proxies: &[ProxySpec]) -> Vec<Problem> {
    let repeated = proxies.iter().enumerate().filter(|(index, proxy)| {
        !proxy.name.is_empty() && proxies.iter().take(*index).any(|before| before.name == proxy.name)
    });
    let problem = |(index, proxy): (usize, &ProxySpec)| {
        let message = format!("two proxies are named `{}`", proxy.name);
        SpecError::new(format!("proxies[{index}].name"), message).into()
    };
    repeated.map(problem).collect()
}

/// The mistakes of a value, and the value without them: each is taken out before the next one is looked for.
async fn each_mistake(
    mut value: Value,
    at: &str,
    check: impl AsyncFn(Value) -> Result<(), Problem>,
) -> (Vec<Problem>, Value) {
    let mut found: Vec<Problem> = Vec::new();
    let mut paths: Vec<String> = Vec::new();
    while found.len() < MAX
        && let Err(problem) = check(value.clone()).await
    {
        let path = problem.path.clone().unwrap_or_default();
        // A member that is missing because it was taken out is not a mistake of the file's.
        let is_around = |inner: &String| {
            let rest = inner.strip_prefix(&path);
            path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if paths.iter().any(is_around) {
            break;
        }
        let whole = match path.as_str() {
            "" => at.to_owned(),
            _ if at.is_empty() => path.clone(),
            inside if inside.starts_with('[') => format!("{at}{inside}"),
            inside => format!("{at}.{inside}"),
        };
        found.push(Problem { path: Some(whole), ..problem });
        let is_out = take_out(&mut value, &path);
        paths.push(path);
        if !is_out {
            break;
        }
    }
    (found, value)
}

/// Removes the member of a map that a path leads to. Keys may have dots themselves. Items of lists stay: the ones behind
/// would change their numbers.
fn take_out(value: &mut Value, path: &str) -> bool {
    match value {
        Value::Array(items) => {
            let Some((index, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
                return false;
            };
            let item = index.parse().ok().and_then(|index: usize| items.get_mut(index));
            item.is_some_and(|item| take_out(item, rest.strip_prefix('.').unwrap_or(rest)))
        }
        Value::Object(fields) => {
            let rest_after = |key: &str| {
                let rest = path.strip_prefix(key)?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest.len())
            };
            let nearest = fields.keys().filter_map(|key| Some((rest_after(key)?, key.clone()))).min();
            let Some((left, key)) = nearest else { return false };
            if left == 0 {
                return fields.shift_remove(&key).is_some();
            }
            let rest = &path[path.len() - left..];
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            // What is wrong may be a member that is not there: then the map around it is at fault.
            fields.get_mut(&key).is_some_and(|field| take_out(field, rest))
                || fields.shift_remove(&key).is_some()
        }
        _ => false,
    }
}
