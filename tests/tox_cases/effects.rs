//! What each toxic does to a connection, and when.
use std::{io::ErrorKind, time::Instant};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    time::timeout,
};

use super::{before, echo, ms, round_trip, source};
use crate::{
    cli_support::{printed, run},
    support::{Caller, End, GUARD, Origin, hear},
};

#[tokio::test]
async fn tox_06_latency_is_paid_once_and_not_for_each_piece() {
    const SIZE: usize = 100_000_000;
    let origin = source(SIZE).await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "latency", "attributes": {"latency": 500}})).await;
    let start = Instant::now();
    let mut client = proxied.connect().await;
    let heard = hear(&mut client, GUARD).await;
    let took = start.elapsed();
    assert_eq!((heard.bytes.len(), heard.end), (SIZE, End::Closed));
    // For each piece of 64 KiB it would be 760 s.
    assert!(took >= ms(500) && took < ms(15_000), "{took:?}");
}

#[tokio::test]
async fn tox_07_a_busy_connection_ends_on_time() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "limit_time", "attributes": {"time": 600}})).await;
    let start = Instant::now();
    let (mut read, mut write) = proxied.connect().await.into_split();
    let busy = tokio::spawn(async move {
        while write.write_all(b".").await.is_ok() {
            tokio::time::sleep(ms(20)).await;
        }
    });
    let mut heard = 0;
    while timeout(GUARD, read.read_u8()).await.unwrap().is_ok() {
        heard += 1;
    }
    let took = start.elapsed();
    busy.abort();
    assert!(took >= ms(590) && took < ms(900), "{took:?}");
    assert!(heard > 5, "{heard} bytes came back before the end");
}

#[tokio::test]
async fn tox_08_a_rate_is_each_connections_own() {
    let origin = source(40_000).await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "bandwidth", "attributes": {"rate": 100}})).await;
    let start = Instant::now();
    let one = || async {
        let mut client = proxied.connect().await;
        assert_eq!(hear(&mut client, GUARD).await.bytes.len(), 40_000);
        start.elapsed()
    };
    let (a, b, c, d, e, f) = tokio::join!(one(), one(), one(), one(), one(), one());
    for took in [a, b, c, d, e, f] {
        // Shared among six it would be 2.4 s.
        assert!(took >= ms(390) && took < ms(1_800), "{took:?}");
    }
}

#[tokio::test]
async fn tox_09_resets_go_on_until_the_toxic_is_removed_or_its_window_ends() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "reset_peer", "name": "rst", "attributes": {"timeout": 10}})).await;
    for _ in 0..5 {
        let start = Instant::now();
        let mut client = proxied.connect().await;
        assert_eq!(hear(&mut client, GUARD).await.end, End::Reset);
        assert!(start.elapsed() >= ms(9), "{:?}", start.elapsed());
    }
    proxied.remove("rst").await;
    round_trip(&mut proxied.connect().await).await;
    let start = Instant::now();
    proxied.add(json!({"type": "reset_peer", "window": {"for": 700}, "attributes": {"timeout": 10}})).await;
    let mut client = proxied.connect().await;
    assert_eq!(hear(&mut client, GUARD).await.end, End::Reset);
    assert!(start.elapsed() < ms(700), "the machine is too busy to tell");
    tokio::time::sleep_until((start + ms(800)).into()).await;
    round_trip(&mut proxied.connect().await).await;
}

#[tokio::test]
async fn tox_10_a_reset_is_econnreset_for_both_sides() {
    for stream in ["upstream", "downstream"] {
        for delay in [0, 300] {
            let (ended, mut ends) = mpsc::unbounded_channel();
            let origin = Origin::running(move |mut caller: Caller| {
                let ended = ended.clone();
                async move {
                    let end = loop {
                        match caller.stream.read_u8().await {
                            Ok(byte) => caller.say([byte]).await,
                            Err(error) => break error.kind(),
                        }
                    };
                    ended.send(end).unwrap();
                }
            })
            .await;
            let proxied = before(&origin).await;
            let mut client = proxied.connect().await;
            round_trip(&mut client).await;
            let start = Instant::now();
            proxied
                .add(json!({"type": "reset_peer", "stream": stream, "attributes": {"timeout": delay}}))
                .await;
            let end = timeout(GUARD, client.read_u8()).await.unwrap().unwrap_err().kind();
            assert_eq!(end, ErrorKind::ConnectionReset, "{stream} {delay}");
            assert!(start.elapsed() >= ms(delay), "{stream} {delay}");
            let end = timeout(GUARD, ends.recv()).await.unwrap();
            assert_eq!(end, Some(ErrorKind::ConnectionReset), "{stream} {delay}");
        }
    }
}

/// The manual says what so many took the attribute for, and what to use instead.
#[test]
fn tox_09_the_manual_says_that_the_time_is_a_delay() {
    let manual = printed(&run(&["explain", "reset_peer"]));
    assert!(manual.contains("the delay before the reset, not a period"), "{manual}");
    assert!(manual.contains("window"), "{manual}");
}
