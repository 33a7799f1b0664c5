//! Real bug reports about HTTP/2 and gRPC, over real sockets. Named by case.
use std::future::Future;

use bytes::Bytes;
use h2::{RecvStream, SendStream, client::SendRequest, server::SendResponse};
use http::{HeaderMap, Method, Request, Response};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
    time::timeout,
};

use crate::support::{GUARD, Origin};

mod declared;
pub(crate) mod protocols;
mod refused;
mod streams;

pub(crate) type Ended = JoinHandle<Result<(), h2::Error>>;

/// An upstream that speaks HTTP/2 without TLS, and serves each stream in a task of its own.
pub(crate) async fn origin<F, R>(serve: F) -> Origin
where
    F: Fn(Request<RecvStream>, SendResponse<Bytes>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    Origin::running(move |caller| serve_h2(caller.stream, serve.clone())).await
}

pub(crate) async fn serve_h2<IO, F, R>(io: IO, serve: F)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    F: Fn(Request<RecvStream>, SendResponse<Bytes>) -> R,
    R: Future<Output = ()> + Send + 'static,
{
    let Ok(mut connection) = h2::server::handshake(io).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(serve(request, respond));
    }
}

pub(crate) async fn client<IO>(io: IO) -> (SendRequest<Bytes>, Ended)
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = h2::client::handshake(io).await.unwrap();
    (sender, tokio::spawn(connection))
}

pub(crate) fn call(host: &str, path: &str) -> Request<()> {
    let request = Request::builder().method(Method::POST).uri(format!("http://{host}{path}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap()
}

/// Sends a request with a body; the answer's head is still to come.
pub(crate) async fn begin(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
    body: impl Into<Bytes>,
    end: bool,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let mut sender = timeout(GUARD, sender.clone().ready()).await.unwrap().unwrap();
    let (response, mut stream) = sender.send_request(request, false).unwrap();
    stream.send_data(body.into(), end).unwrap();
    (response, stream)
}

pub(crate) async fn read(body: &mut RecvStream) -> Result<usize, h2::Error> {
    let mut count = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        count += data.len();
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(count)
}

/// One call, to its end: the answer's head, how long its body was, its trailers.
pub(crate) async fn complete(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
    body: impl Into<Bytes>,
) -> Result<(http::response::Parts, usize, HeaderMap), h2::Error> {
    let whole = async {
        let (response, _sending) = begin(sender, request, body, true).await;
        let (head, mut body) = response.await?.into_parts();
        let count = read(&mut body).await?;
        let trailers = body.trailers().await?.unwrap_or_default();
        Ok((head, count, trailers))
    };
    timeout(GUARD, whole).await.expect("the call hangs")
}

/// One call without a body, to its end: the answer's head and body.
pub(crate) async fn whole(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
) -> Result<(http::response::Parts, Vec<u8>), h2::Error> {
    let whole = async {
        let mut sender = sender.clone().ready().await?;
        let (response, _) = sender.send_request(request, true)?;
        let (head, mut body) = response.await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            bytes.extend_from_slice(&data);
        }
        Ok((head, bytes))
    };
    timeout(GUARD, whole).await.expect("the call hangs")
}

/// Says how much came, as a gRPC server would.
pub(crate) async fn count(request: Request<RecvStream>, respond: SendResponse<Bytes>) {
    let mut body = request.into_body();
    if let Ok(count) = read(&mut body).await {
        answer(respond, vec![7; count]);
    }
}

pub(crate) fn answer(mut respond: SendResponse<Bytes>, body: Vec<u8>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    // A client may leave before the end.
    let Ok(mut sending) = respond.send_response(head, false) else { return };
    if sending.send_data(body.into(), false).is_ok() {
        let _ = sending.send_trailers(HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            http::HeaderValue::from_static("0"),
        )]));
    }
}
