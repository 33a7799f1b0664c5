//! Small bodies that decode to a gigabyte.
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{MIB, serving};
use crate::{
    cli_support::Server,
    support::{GUARD, Origin, hear},
};

/// What a bomb is made of: so many zeros, so many times.
const PIECE: usize = 4 * MIB;
const PIECES: usize = 256;
/// How much of a decoded stream a client reads: more than the memory that the process may take for it.
const READ: usize = 96 * MIB;
/// What the process may take beyond what it has when idle: 16 MiB that a document may decode to, twice while the buffer
/// grows, and a decoder with a window of 16 MiB.
const MOST: usize = 64 * MIB;
/// How long a neighbour may wait. A debug build decodes more than ten times more slowly.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 });

/// A gigabyte of zeros, in less than 1.5 MiB.
fn bomb(coding: &str, pieces: usize) -> Vec<u8> {
    let zeros = vec![0; PIECE];
    match coding {
        // Several members and frames are one body.
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap().repeat(pieces)
        }
        "zstd" => zstd::encode_all(&*zeros, 3).unwrap().repeat(pieces),
        // Once the window is full of zeros, each piece that is flushed is coded as the one before.
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
            let mut flushed = || {
                encoder.write_all(&zeros).unwrap();
                encoder.flush().unwrap();
                std::mem::take(encoder.get_mut())
            };
            let (first, second, other) = (flushed(), flushed(), flushed());
            [first, second, other.repeat(pieces - 2), encoder.into_inner()].concat()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_02_the_bombs_of_these_tests_go_off() {
    const FEW: usize = 5;
    for coding in ["gzip", "zstd", "br"] {
        let (bomb, mut plain) = (bomb(coding, FEW), Vec::new());
        match coding {
            "gzip" => flate2::read::MultiGzDecoder::new(&*bomb).read_to_end(&mut plain).unwrap(),
            "zstd" => zstd::Decoder::new(&*bomb).unwrap().read_to_end(&mut plain).unwrap(),
            _ => brotli::Decompressor::new(&*bomb, 4096).read_to_end(&mut plain).unwrap(),
        };
        assert!(plain.len() == FEW * PIECE && plain.iter().all(|byte| *byte == 0), "{coding}");
    }
}

/// A proxy in front of the bomb, one in front of something harmless, and their server.
async fn armed(content: &str, coding: &str, bomb: &[u8]) -> (Server, [Origin; 2]) {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content}\r\ncontent-encoding: {coding}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        bomb.len()
    );
    let bomb = Origin::answering_once([head.as_bytes(), bomb].concat()).await;
    let harmless = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let toxic = json!({"type": "edit", "attributes": {"ops": [{"path": "$.absent", "set": 1}]}});
    let server = serving(&json!([
        {"name": "bomb", "listen": "127.0.0.1:0", "upstream": bomb.url(), "toxics": [toxic.clone()]},
        {"name": "neighbour", "listen": "127.0.0.1:0", "upstream": harmless.url(), "toxics": [toxic]},
    ]));
    // What the first request of a process needs is not the bomb's.
    neighbour(&server).await;
    (server, [bomb, harmless])
}

/// How long a neighbour's request takes.
async fn neighbour(server: &Server) -> Duration {
    let start = Instant::now();
    let mut client = TcpStream::connect(server.proxy("neighbour")).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert_eq!(hear(&mut client, GUARD).await.body(), b"ok");
    start.elapsed()
}

/// The slowest of a neighbour's requests while something goes on, and what that gives.
async fn meanwhile<T: Send + 'static>(
    server: &Server,
    busy: impl Future<Output = T> + Send + 'static,
) -> (Duration, T) {
    let busy = tokio::spawn(busy);
    let mut slowest = Duration::ZERO;
    while !busy.is_finished() {
        slowest = slowest.max(neighbour(server).await);
    }
    (slowest, busy.await.unwrap())
}

/// What the journal says of the toxic on the bomb.
async fn reason(server: &Server) -> Value {
    let path = "/v1/exchanges?proxy=bomb&wait=1";
    let (_, exchanges) = crate::tox_cases::call_at(server.admin(), "GET", path, "").await;
    let exchanges: Value = serde_json::from_str(&exchanges).unwrap();
    exchanges["exchanges"][0]["toxics"][0]["reason"].clone()
}

async fn ask(address: String) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /v1/x HTTP/1.0\r\nhost: x\r\n\r\n").await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_02_a_gigabyte_in_a_document_costs_a_bounded_amount() {
    for coding in ["gzip", "zstd", "br"] {
        let bomb = bomb(coding, PIECES);
        assert!(bomb.len() < 3 * MIB / 2, "{coding}: {}", bomb.len());
        let (server, _origins) = armed("application/json", coding, &bomb).await;
        let before = server.memory("VmRSS");
        let mut client = ask(server.proxy("bomb").to_owned()).await;
        let (slowest, heard) = meanwhile(&server, async move { hear(&mut client, GUARD).await }).await;
        let grown = server.memory("VmHWM").saturating_sub(before);
        println!("{coding}: {} KiB more, a neighbour waited for {slowest:?}", grown / 1024);
        assert!(heard.body() == bomb, "{coding}: the body arrives as it was sent");
        assert_eq!(heard.header("content-encoding"), [coding]);
        assert_eq!(reason(&server).await, "too_large", "{coding}");
        assert!(grown < MOST, "{coding}: {} MiB more", grown / MIB);
        assert!(slowest < PATIENCE, "{coding}: a neighbour waited for {slowest:?}");
    }
}

/// A stream is decoded as it is read: who reads slowly, or leaves, costs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_02_a_gigabyte_in_a_stream_costs_a_bounded_amount() {
    for coding in ["gzip", "zstd", "br"] {
        let (server, _origins) = armed("text/event-stream", coding, &bomb(coding, PIECES)).await;
        let before = server.memory("VmRSS");
        let mut client = ask(server.proxy("bomb").to_owned()).await;
        let reading = async move {
            let mut head = crate::support::hear_until(&mut client, "\r\n\r\n").await;
            head.make_ascii_lowercase();
            let (mut piece, mut read) = (vec![1; 256 * 1024], 0);
            while read < READ {
                let count = timeout(GUARD, client.read(&mut piece)).await.unwrap().unwrap();
                assert!(count > 0 && piece[..count].iter().all(|byte| *byte == 0));
                read += count;
            }
            String::from_utf8(head).unwrap()
        };
        let (slowest, head) = meanwhile(&server, reading).await;
        let grown = server.memory("VmHWM").saturating_sub(before);
        println!("{coding}: {} KiB more, a neighbour waited for {slowest:?}", grown / 1024);
        assert!(!head.contains("content-encoding") && !head.contains("transfer-encoding"), "{head}");
        assert_eq!(reason(&server).await, "not_reached", "{coding}");
        assert!(grown < MOST, "{coding}: {} MiB more", grown / MIB);
        assert!(slowest < PATIENCE, "{coding}: a neighbour waited for {slowest:?}");
    }
}
