//! Qdrant's REST API: collections and points, kept in memory and searched by comparing with every point.
//!
//! Sparse and multi vectors, prefetch with fusion, recommendations, groups, facets, aliases and snapshots are not here;
//! a request for one of them is refused in words that say so.
mod collection;
mod filter;
mod id;
mod payload;
mod refusal;
mod requests;
mod search;
mod store;
mod vectors;

use std::sync::Arc;

use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use self::{
    collection::Collection,
    id::PointId,
    refusal::Refusal,
    requests::{
        Batch, Count, CreateCollection, CreateIndex, DeletePayload, Query, Retrieve, Scroll, Search,
        Selector, SetPayload, Upsert,
    },
    store::Store,
};
use super::{
    address::Pace,
    call::{Call, Unreadable},
    provider::{Provider, Server},
    reply::Reply,
};

/// What the clients compare their own version with: they want the same major, and a minor at most one away.
const VERSION: &str = "1.19.0";

/// Seconds that every request claims to have taken: fixed, so that answers do not change.
const TIME: f64 = 0.000_125;

pub(super) static PROVIDER: Provider =
    Provider { name: "qdrant", is_model: false, start: || Arc::new(Store::default()) };

impl Server for Store {
    fn answer(&self, call: &Call, _pace: &Pace) -> Reply {
        respond(call, self).unwrap_or_else(Refusal::into_reply)
    }

    fn refuse(&self, why: Unreadable) -> Reply {
        Refusal::unreadable(why).into_reply()
    }
}

fn respond(call: &Call, store: &Store) -> Result<Reply, Refusal> {
    match (&call.method, &call.segments()[..]) {
        (&Method::GET, [""]) => {
            let commit = super::digest::Digest::of(VERSION.as_bytes()).hex("", 40);
            let index =
                json!({"title": "qdrant - vector search engine", "version": VERSION, "commit": commit});
            Ok(Reply::json(StatusCode::OK, &index))
        }
        (&Method::GET, ["healthz" | "livez"]) => Ok(Reply::text(StatusCode::OK, "healthz check passed")),
        (&Method::GET, ["readyz"]) => Ok(Reply::text(StatusCode::OK, "all shards are ready")),
        (&Method::GET, ["collections"]) => {
            let collections: Vec<_> = store.names().into_iter().map(|name| json!({"name": name})).collect();
            ok(&json!({"collections": collections}))
        }
        (&Method::GET, ["aliases"]) => ok(&json!({"aliases": []})),
        (method, ["collections", name, rest @ ..]) => {
            let name = percent_decode_str(name).decode_utf8_lossy();
            match *rest {
                [] => whole_collection(call, method, store, &name),
                ["exists"] if method == Method::GET => ok(&json!({"exists": store.names().contains(&*name)})),
                ["index", ..] | ["points", ..] => within_collection(call, method, store, &name, rest),
                _ => Err(Refusal::unknown_route()),
            }
        }
        _ => Err(Refusal::unknown_route()),
    }
}

fn whole_collection(call: &Call, method: &Method, store: &Store, name: &str) -> Result<Reply, Refusal> {
    match *method {
        Method::GET => store.read(name, |collection| ok(&collection.info())),
        Method::PUT => {
            store.create(name, Collection::new(read::<CreateCollection>(call)?)?)?;
            ok(&true)
        }
        // What can be changed is how a collection is indexed, and nothing is.
        Method::PATCH => store.read(name, |_| ok(&true)),
        Method::DELETE => ok(&store.delete(name)),
        _ => Err(Refusal::unknown_route()),
    }
}

fn within_collection(
    call: &Call,
    method: &Method,
    store: &Store,
    name: &str,
    rest: &[&str],
) -> Result<Reply, Refusal> {
    match (method.as_str(), rest) {
        ("PUT", ["index"]) => {
            let index: CreateIndex = read(call)?;
            write(call, store, name, |collection| collection.create_index(index))
        }
        ("DELETE", ["index", field]) => {
            let field = percent_decode_str(field).decode_utf8_lossy();
            write(call, store, name, |collection| {
                collection.delete_index(&field);
                Ok(())
            })
        }
        ("PUT", ["points"]) => {
            let points = read::<Upsert>(call)?.into_points()?;
            write(call, store, name, |collection| collection.upsert(points))
        }
        ("POST", ["points", "delete"]) => {
            let selector: Selector = read(call)?;
            write(call, store, name, |collection| collection.delete(&selector))
        }
        ("POST" | "PUT", ["points", "payload"]) => {
            let set: SetPayload = read(call)?;
            let overwrite = method == Method::PUT;
            write(call, store, name, |collection| collection.set_payload(&set, overwrite))
        }
        ("POST", ["points", "payload", "delete"]) => {
            let delete: DeletePayload = read(call)?;
            write(call, store, name, |collection| collection.delete_payload(&delete))
        }
        ("POST", ["points", "payload", "clear"]) => {
            let selector: Selector = read(call)?;
            write(call, store, name, |collection| collection.clear_payload(&selector))
        }
        ("GET", ["points", id]) => {
            let id: PointId = id.parse().map_err(Refusal::bad)?;
            store.read(name, |collection| ok(&collection.one(id)?))
        }
        ("POST", ["points"]) => {
            let retrieve: Retrieve = read(call)?;
            store.read(name, |collection| ok(&collection.retrieve(&retrieve)?))
        }
        ("POST", ["points", "count"]) => {
            let count: Count = read(call)?;
            store.read(name, |collection| ok(&json!({"count": collection.count(&count)})))
        }
        ("POST", ["points", "scroll"]) => {
            let scroll: Scroll = read(call)?;
            store.read(name, |collection| ok(&collection.scroll(&scroll)?))
        }
        ("POST", ["points", "query"]) => {
            let query: Query = read(call)?;
            store.read(name, |collection| ok(&query.run(collection)?))
        }
        ("POST", ["points", "query", "batch"]) => {
            let batch: Batch<Query> = read(call)?;
            store.read(name, |collection| ok(&each(&batch.searches, |query| query.run(collection))?))
        }
        ("POST", ["points", "search"]) => {
            let search: Search = read(call)?;
            store.read(name, |collection| ok(&search.run(collection)?))
        }
        ("POST", ["points", "search", "batch"]) => {
            let batch: Batch<Search> = read(call)?;
            store.read(name, |collection| ok(&each(&batch.searches, |search| search.run(collection))?))
        }
        _ => Err(Refusal::unknown_route()),
    }
}

fn each<S, T>(searches: &[S], run: impl Fn(&S) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
    searches.iter().map(run).collect()
}

fn write(
    call: &Call,
    store: &Store,
    name: &str,
    change: impl FnOnce(&mut Collection) -> Result<(), Refusal>,
) -> Result<Reply, Refusal> {
    let operation = store.write(name, change)?;
    let wait = call.query.split('&').any(|pair| pair == "wait=true");
    let status = if wait { "completed" } else { "acknowledged" };
    ok(&json!({"operation_id": operation, "status": status}))
}

fn read<T: DeserializeOwned>(call: &Call) -> Result<T, Refusal> {
    serde_json::from_slice(&call.body).map_err(|error| {
        Refusal::with_text(StatusCode::BAD_REQUEST, format!("Format error in JSON body: {error}"))
    })
}

fn ok(result: &impl Serialize) -> Result<Reply, Refusal> {
    #[derive(Serialize)]
    struct Envelope<'a, T> {
        result: &'a T,
        status: &'static str,
        time: f64,
    }
    Ok(Reply::json(StatusCode::OK, &Envelope { result, status: "ok", time: TIME }))
}
