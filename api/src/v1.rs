//! The whole product under `/v1`, as one table from which both the router and the OpenAPI document are made.
mod catalogue;
mod endpoint;
mod observe;
mod openapi;
mod page;
mod presets;
mod proxies;
pub(crate) mod read;
mod toxics;

use std::sync::Arc;

use aconite_toxics::ToxicSpec;
use axum::Router;

use self::endpoint::Endpoint;
use crate::{
    Control,
    model::{Apply, Chaos, Exchange, ExchangeFilter, ProxySpec, Switch},
};

pub use catalogue::ToxicType;
pub(crate) use observe::Connections;
pub use observe::Exchanges;
pub(crate) use proxies::ProxyList;
pub use read::read_value;
pub(crate) use toxics::ToxicList;

/// The routes.
pub(crate) fn router<C: Control>() -> Router<Arc<C>> {
    endpoints::<C>()
        .into_iter()
        .fold(Router::new(), |router, endpoint| router.route(endpoint.path, endpoint.handler))
}

/// Every endpoint, in the order of the documentation.
fn endpoints<C: Control>() -> Vec<Endpoint<C>> {
    vec![
        Endpoint::get("/v1/proxies", "Lists the proxies", proxies::list)
            .query::<proxies::TestScope>()
            .answers::<ProxyList>(200),
        Endpoint::post("/v1/proxies", "Creates a proxy with its toxics, all or nothing", proxies::create)
            .conflicts()
            .takes::<ProxySpec>()
            .answers::<ProxySpec>(201),
        Endpoint::get("/v1/proxies/{proxy}", "Shows a proxy", proxies::get)
            .query::<proxies::TestScope>()
            .answers::<ProxySpec>(200),
        Endpoint::patch(
            "/v1/proxies/{proxy}",
            "Changes the fields that are given (JSON merge patch, RFC 7396)",
            proxies::patch,
        )
        .conflicts()
        .takes_patch::<ProxySpec>()
        .answers::<ProxySpec>(200),
        Endpoint::put("/v1/proxies/{proxy}", "Makes a proxy wholly so", proxies::replace)
            .conflicts()
            .takes_replacement::<ProxySpec>()
            .answers::<ProxySpec>(200),
        Endpoint::delete("/v1/proxies/{proxy}", "Deletes a proxy and drops its connections", proxies::delete),
        Endpoint::get("/v1/proxies/{proxy}/toxics", "Lists a proxy's toxics", toxics::list)
            .query::<proxies::TestScope>()
            .answers::<ToxicList>(200),
        Endpoint::post(
            "/v1/proxies/{proxy}/toxics",
            "Adds a toxic, in effect at once; with `test_id`, for that test only",
            toxics::add,
        )
        .conflicts()
        .query::<proxies::TestScope>()
        .takes::<ToxicSpec>()
        .answers::<ToxicSpec>(201),
        Endpoint::delete(
            "/v1/proxies/{proxy}/toxics",
            "Removes a proxy's toxics, or one test's",
            toxics::clear,
        )
        .query::<proxies::TestScope>(),
        Endpoint::get("/v1/proxies/{proxy}/toxics/{toxic}", "Shows a toxic", toxics::get)
            .answers::<ToxicSpec>(200),
        Endpoint::patch(
            "/v1/proxies/{proxy}/toxics/{toxic}",
            "Changes the fields that are given (JSON merge patch, RFC 7396)",
            toxics::patch,
        )
        .takes_patch::<ToxicSpec>()
        .answers::<ToxicSpec>(200),
        Endpoint::put(
            "/v1/proxies/{proxy}/toxics/{toxic}",
            "Makes a toxic wholly so, but for its name, type and stream",
            toxics::replace,
        )
        .takes_replacement::<ToxicSpec>()
        .answers::<ToxicSpec>(200),
        Endpoint::delete("/v1/proxies/{proxy}/toxics/{toxic}", "Removes a toxic", toxics::remove),
        Endpoint::post("/v1/apply", "Makes the whole configuration so, or nothing of it", proxies::apply)
            .conflicts()
            .takes::<Apply>()
            .answers::<proxies::Changes>(200),
        Endpoint::get("/v1/toxics", "Lists the types of toxics", catalogue::list)
            .answers::<catalogue::Types>(200),
        Endpoint::get("/v1/toxics/{type}", "Explains a type of toxic", catalogue::get)
            .answers::<ToxicType>(200),
        Endpoint::get("/v1/presets", "Lists causes of failure, and how providers word them", presets::list)
            .query::<presets::PresetFilter>()
            .answers::<presets::Presets>(200),
        Endpoint::get("/v1/chaos", "Shows the kill switch", observe::chaos).answers::<Chaos>(200),
        Endpoint::post("/v1/chaos/enable", "Lets toxics act", observe::enable)
            .takes::<Switch>()
            .answers::<Chaos>(200),
        Endpoint::post("/v1/chaos/disable", "Stops every toxic, on live connections too", observe::disable)
            .takes::<Switch>()
            .answers::<Chaos>(200),
        Endpoint::get("/v1/exchanges", "Reads the journal of HTTP exchanges", observe::exchanges)
            .query::<ExchangeFilter>()
            .answers::<Exchanges>(200),
        Endpoint::delete("/v1/exchanges", "Empties the journal", observe::clear_exchanges),
        Endpoint::get("/v1/exchanges/{id}", "Shows an exchange", observe::exchange).answers::<Exchange>(200),
        Endpoint::get("/v1/connections", "Lists the live connections", observe::connections)
            .answers::<Connections>(200),
        Endpoint::delete("/v1/connections/{id}", "Resets a connection", observe::reset_connection),
        Endpoint::get("/v1/events", "Follows what happens, as server-sent events", observe::events)
            .sends("text/event-stream"),
        Endpoint::get("/v1/ca.pem", "The local certificate authority's certificate", observe::ca_pem)
            .sends("application/x-pem-file"),
        Endpoint::get("/v1/openapi.json", "This document", openapi::get).sends("application/json"),
        Endpoint::get("/healthz", "Whether the process lives", observe::healthz).sends("text/plain"),
        Endpoint::get("/readyz", "Whether every enabled proxy listens; else 503", observe::readyz)
            .sends("text/plain"),
        Endpoint::get("/", "The web page", page::get).sends("text/html"),
    ]
}
