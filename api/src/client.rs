//! A typed client of the API, for the command line and for tests.
//!
//! HTTP/1.1 without TLS, as the API is served; a connection for each call.
use std::{borrow::Cow, time::Duration};

use aconite_toxics::ToxicSpec;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    Problem,
    model::{Apply, Chaos, Connection, Exchange, ExchangeFilter, ProxySpec, Switch},
    problem::ErrorBody,
    v1::{Connections, ProxyList, ToxicList},
};

mod dial;
mod error;
mod feed;
mod root;

pub use crate::v1::{Exchanges, ToxicType};
pub use error::ClientError;
pub use feed::{Feed, Live};

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long an answer may take: longer than the longest wait that can be asked for.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// What a path segment carries as it is (RFC 3986, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    /// `host:port`.
    authority: String,
    authorization: Option<HeaderValue>,
    /// How long a loopback address may refuse connections before a call fails.
    patience: Duration,
    routes: Routes,
}

/// Which of the server's routes are used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Routes {
    /// Those under `/v1`, and Toxiproxy's where `/v1` is closed.
    All,
    /// Toxiproxy's alone: the server may be a genuine one.
    Toxiproxy,
}

/// One change that applying a configuration made, or would make.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Applied {
    /// `create`, `change` or `delete`.
    pub action: String,
    /// The proxy.
    pub proxy: String,
    /// What changed of it: field names, or `toxics.NAME`.
    #[serde(default)]
    pub fields: Vec<String>,
}

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// A client of the server at `url` (`http://host:port`, or `host:port`), with the token if one is needed.
    ///
    /// # Errors
    /// If the address or the token cannot be used.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self> {
        let bad = || ClientError::Url(url.to_owned());
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let uri: Uri = format!("http://{}/", rest.trim_end_matches('/')).parse().map_err(|_| bad())?;
        let is_plain = uri.path() == "/" && uri.query().is_none() && !rest.contains(['@', '#']);
        let authority = uri.authority().filter(|_| is_plain && !rest.contains("://")).ok_or_else(bad)?;
        let port = authority.port_u16().unwrap_or(80);
        let authorization = token
            .map(|token| HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Token))
            .transpose()?
            .map(|mut value| {
                value.set_sensitive(true);
                value
            });
        Ok(Self {
            authority: format!("{}:{port}", authority.host()),
            authorization,
            patience: Duration::ZERO,
            routes: Routes::All,
        })
    }

    /// The same client, but it waits up to `patience` for a server on a loopback address that refuses connections: one
    /// that was started just now may not listen yet. Default: it does not wait.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same client, but it uses Toxiproxy's routes only, so that it works with a genuine Toxiproxy server. Calls that
    /// Toxiproxy does not have fail as refused.
    #[must_use]
    pub fn for_toxiproxy(self) -> Self {
        Self { routes: Routes::Toxiproxy, ..self }
    }

    /// The server, `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// All proxies, sorted by name.
    ///
    /// # Errors
    /// As every call: if the server cannot be reached, or refuses.
    pub async fn proxies(&self) -> Result<Vec<ProxySpec>> {
        Ok(self.get::<ProxyList>("/v1/proxies").await?.proxies)
    }

    /// One proxy.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn proxy(&self, name: &str) -> Result<ProxySpec> {
        self.get(&proxy_path(name)).await
    }

    /// Creates a proxy with its toxics.
    ///
    /// # Errors
    /// If the spec is invalid, the name is taken or the address cannot be had; or as every call.
    pub async fn create_proxy(&self, spec: &ProxySpec) -> Result<ProxySpec> {
        self.send(Method::POST, "/v1/proxies", spec).await
    }

    /// Changes the fields that `patch`, a JSON object, has; `null` puts one back to its default.
    ///
    /// # Errors
    /// As for creating; then nothing has changed.
    pub async fn patch_proxy(&self, name: &str, patch: &Value) -> Result<ProxySpec> {
        self.send(Method::PATCH, &proxy_path(name), patch).await
    }

    /// Makes a proxy wholly so.
    ///
    /// # Errors
    /// As for creating; then nothing has changed.
    pub async fn replace_proxy(&self, spec: &ProxySpec) -> Result<ProxySpec> {
        self.send(Method::PUT, &proxy_path(&spec.name), spec).await
    }

    /// Deletes a proxy.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn delete_proxy(&self, name: &str) -> Result<()> {
        self.call(Method::DELETE, &proxy_path(name), None).await.map(drop)
    }

    /// Adds a toxic.
    ///
    /// # Errors
    /// If there is no such proxy, the spec is invalid or the name is taken; or as every call.
    pub async fn add_toxic(&self, proxy: &str, toxic: &ToxicSpec) -> Result<ToxicSpec> {
        self.send(Method::POST, &format!("{}/toxics", proxy_path(proxy)), toxic).await
    }

    /// A proxy's toxics.
    ///
    /// # Errors
    /// If there is no such proxy; or as every call.
    pub async fn toxics(&self, proxy: &str) -> Result<Vec<ToxicSpec>> {
        Ok(self.get::<ToxicList>(&format!("{}/toxics", proxy_path(proxy))).await?.toxics)
    }

    /// Changes the fields that `patch`, a JSON object, has.
    ///
    /// # Errors
    /// If there is no such toxic or the result is invalid; or as every call.
    pub async fn patch_toxic(&self, proxy: &str, toxic: &str, patch: &Value) -> Result<ToxicSpec> {
        self.send(Method::PATCH, &toxic_path(proxy, toxic), patch).await
    }

    /// Removes a toxic.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn remove_toxic(&self, proxy: &str, toxic: &str) -> Result<()> {
        self.call(Method::DELETE, &toxic_path(proxy, toxic), None).await.map(drop)
    }

    /// Enables every proxy and removes every toxic.
    ///
    /// # Errors
    /// If a proxy cannot listen; or as every call.
    pub async fn reset(&self) -> Result<()> {
        self.call(Method::POST, "/reset", None).await.map(drop)
    }

    /// The version of Toxiproxy whose routes the server has.
    ///
    /// # Errors
    /// As every call.
    pub async fn version(&self) -> Result<String> {
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        Ok(self.get::<Version>("/version").await?.version)
    }

    /// Creates or replaces proxies as Toxiproxy does, one after the other.
    ///
    /// # Errors
    /// If one of them fails, after which the earlier ones stay; or as every call.
    pub async fn populate(&self, proxies: &Value) -> Result<Value> {
        self.send(Method::POST, "/populate", proxies).await
    }

    /// Makes the whole configuration so, or nothing of it.
    ///
    /// # Errors
    /// The first mistake; or as every call.
    pub async fn apply(&self, apply: &Apply) -> Result<Vec<Applied>> {
        #[derive(Deserialize)]
        struct Changes {
            changes: Vec<Applied>,
        }
        Ok(self.send::<Changes>(Method::POST, "/v1/apply", apply).await?.changes)
    }

    /// The types of toxics.
    ///
    /// # Errors
    /// As every call.
    pub async fn toxic_types(&self) -> Result<Vec<ToxicType>> {
        #[derive(Deserialize)]
        struct Types {
            toxics: Vec<ToxicType>,
        }
        Ok(self.get::<Types>("/v1/toxics").await?.toxics)
    }

    /// One type of toxic.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn toxic_type(&self, kind: &str) -> Result<ToxicType> {
        self.get(&format!("/v1/toxics/{}", segment(kind))).await
    }

    /// The kill switch.
    ///
    /// # Errors
    /// As every call.
    pub async fn chaos(&self) -> Result<Chaos> {
        self.get("/v1/chaos").await
    }

    /// Turns the kill switch.
    ///
    /// # Errors
    /// If the environment does not allow it; or as every call.
    pub async fn set_chaos(&self, enabled: bool, switch: &Switch) -> Result<Chaos> {
        let path = if enabled { "/v1/chaos/enable" } else { "/v1/chaos/disable" };
        self.send(Method::POST, path, switch).await
    }

    /// Exchanges in the journal.
    ///
    /// # Errors
    /// As every call.
    pub async fn exchanges(&self, filter: &ExchangeFilter) -> Result<Exchanges> {
        let query = serde_urlencoded::to_string(filter).unwrap_or_default();
        self.get(&format!("/v1/exchanges?{query}")).await
    }

    /// One exchange.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn exchange(&self, id: u64) -> Result<Exchange> {
        self.get(&format!("/v1/exchanges/{id}")).await
    }

    /// Empties the journal.
    ///
    /// # Errors
    /// As every call.
    pub async fn clear_exchanges(&self) -> Result<()> {
        self.call(Method::DELETE, "/v1/exchanges", None).await.map(drop)
    }

    /// Live connections.
    ///
    /// # Errors
    /// As every call.
    pub async fn connections(&self) -> Result<Vec<Connection>> {
        Ok(self.get::<Connections>("/v1/connections").await?.connections)
    }

    /// Breaks a live connection by RST.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn reset_connection(&self, id: u64) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/connections/{id}"), None).await.map(drop)
    }

    /// The local certificate authority's certificate, PEM.
    ///
    /// # Errors
    /// If there is none; or as every call.
    pub async fn ca_pem(&self) -> Result<Bytes> {
        self.call(Method::GET, "/v1/ca.pem", None).await
    }

    /// Metrics in Prometheus' text format.
    ///
    /// # Errors
    /// As every call.
    pub async fn metrics(&self) -> Result<Bytes> {
        self.call(Method::GET, "/metrics", None).await
    }

    /// Whether every enabled proxy listens.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn is_ready(&self) -> Result<bool> {
        match self.call(Method::GET, "/readyz", None).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(StatusCode::SERVICE_UNAVAILABLE) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Follows what happens.
    ///
    /// # Errors
    /// As every call.
    pub async fn follow(&self) -> Result<Feed> {
        let response = self.answer(Method::GET, "/v1/events", None).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(Feed::new(response.into_body(), self.authority.clone()))
    }

    /// Asks for anything by GET.
    ///
    /// # Errors
    /// As every call.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let body = self.call(Method::GET, path, None).await?;
        self.read(StatusCode::OK, &body)
    }

    /// Sends anything.
    ///
    /// # Errors
    /// As every call.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = serde_json::to_vec(body).expect("resources are plain data with string keys");
        let answer = self.call(method, path, Some(body.into())).await?;
        self.read(StatusCode::OK, &answer)
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T> {
        let error = |_| ClientError::Answer { authority: self.authority.clone(), status };
        serde_json::from_slice(body).map_err(error)
    }

    /// Calls a route under `/v1`, or Toxiproxy's equivalent where `/v1` is closed or not wanted.
    async fn call(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes> {
        if self.routes == Routes::Toxiproxy && path.starts_with("/v1/") {
            let root = root::path(path).ok_or_else(|| {
                let message = format!("Toxiproxy has no equivalent of `{path}`");
                ClientError::Refused(Problem::new(StatusCode::NOT_FOUND, "not_found", message))
            })?;
            return self.call_here(method, root, body).await.map(root::as_v1);
        }
        match self.call_here(method.clone(), path, body.clone()).await {
            Err(ClientError::Refused(problem)) if problem.code == "closed" => match root::path(path) {
                Some(path) => self.call_here(method, path, body).await.map(root::as_v1),
                None => Err(ClientError::Refused(problem)),
            },
            answer => answer,
        }
    }

    async fn call_here(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes> {
        let response = self.answer(method, path, body).await?;
        if response.status().is_success() {
            self.collect(response).await
        } else {
            Err(self.refusal(response).await)
        }
    }

    async fn refusal(&self, response: http::Response<Incoming>) -> ClientError {
        let status = response.status();
        let body = match self.collect(response).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        match (self.read::<ErrorBody>(status, &body), self.read::<root::RootError>(status, &body)) {
            (Ok(ErrorBody { error }), _) => ClientError::Refused(Problem { status, ..error }),
            (_, Ok(root::RootError { error })) => {
                ClientError::Refused(Problem::new(status, "refused", error))
            }
            (Err(error), _) => error,
        }
    }

    async fn collect(&self, response: http::Response<Incoming>) -> Result<Bytes> {
        let body = timeout(ANSWER_TIME, response.into_body().collect()).await;
        let body = body.map_err(|_| ClientError::Timeout(self.authority.clone()))?;
        Ok(body.map_err(|source| self.broke(source))?.to_bytes())
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<http::Response<Incoming>> {
        let slow = |_| ClientError::Timeout(self.authority.clone());
        let stream = timeout(CONNECT_TIME.max(self.patience), dial::dial(&self.authority, self.patience))
            .await
            .map_err(slow)?
            .map_err(|source| ClientError::Connect { authority: self.authority.clone(), source })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|source| self.broke(source))?;
        #[expect(clippy::disallowed_methods, reason = "it ends with its sender")]
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.authority);
        if let Some(token) = &self.authorization {
            request = request.header(header::AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|_| ClientError::Url(format!("{}{path}", self.authority)))?;
        let answer = timeout(ANSWER_TIME, sender.send_request(request)).await.map_err(slow)?;
        answer.map_err(|source| self.broke(source))
    }

    fn broke(&self, source: hyper::Error) -> ClientError {
        ClientError::Http { authority: self.authority.clone(), source }
    }
}

/// A name as a path segment.
pub(crate) fn segment(name: &str) -> Cow<'_, str> {
    match name {
        // As they are they would be taken for a way through the tree.
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        name => utf8_percent_encode(name, SEGMENT).into(),
    }
}

fn proxy_path(name: &str) -> String {
    format!("/v1/proxies/{}", segment(name))
}

fn toxic_path(proxy: &str, toxic: &str) -> String {
    format!("{}/toxics/{}", proxy_path(proxy), segment(toxic))
}
