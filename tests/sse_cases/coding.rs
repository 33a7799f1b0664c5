//! Compressed streams.
use std::io::Write;

use serde_json::json;

use super::{CHAT, END, ask, chunk, delta, idle_edit, streamed};
use crate::support::{Origin, Proxied};

#[tokio::test]
async fn sse_20_what_came_plain_stays_plain() {
    let body = delta("a").repeat(50);
    let origin = Origin::answering(streamed(&[&body])).await;
    let proxied = Proxied::http(&origin).await;
    for toxic in [false, true] {
        if toxic {
            proxied.add(idle_edit()).await;
        }
        let heard = proxied.raw(ask(CHAT, "Accept-Encoding: gzip, br, zstd\r\n")).await;
        assert_eq!(heard.header("content-encoding"), Vec::<String>::new(), "{toxic}");
        assert_eq!(heard.body(), body.as_bytes(), "{toxic}");
        assert!(origin.received().contains("Accept-Encoding: gzip, br, zstd\r\n"), "{}", origin.received());
    }
}

#[tokio::test]
async fn sse_22_an_event_is_dropped_out_of_a_compressed_stream() {
    let events = [delta("one"), delta("one two"), delta("one two three")];
    let mut coder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    let mut pieces = Vec::new();
    let mut taken = 0;
    for event in &events {
        coder.write_all(event.as_bytes()).unwrap();
        coder.flush().unwrap();
        pieces.push(coder.get_ref()[taken..].to_vec());
        taken = coder.get_ref().len();
    }
    pieces.push(coder.into_inner()[taken..].to_vec());
    pieces.retain(|piece| !piece.is_empty());
    let coded = pieces.concat();
    let plain = String::from_utf8(streamed(&[""; 0])).unwrap();
    let head = plain.trim_end_matches(END).to_owned();
    let head = head.replacen("\r\n\r\n", "\r\ncontent-encoding: br\r\n\r\n", 1);
    let chunks: Vec<u8> = pieces.iter().flat_map(chunk).collect();
    let origin = Origin::answering([head.as_bytes(), &chunks, END.as_bytes()].concat()).await;
    let proxied = Proxied::http(&origin).await;
    let untouched = proxied.raw(ask(CHAT, "Accept-Encoding: br\r\n")).await;
    assert_eq!((untouched.header("content-encoding"), untouched.body()), (vec!["br".to_owned()], coded));
    proxied.add(json!({"type": "drop", "attributes": {"at": {"events": 1}}})).await;
    let heard = proxied.raw(ask(CHAT, "Accept-Encoding: br\r\n")).await;
    assert_eq!(heard.header("content-encoding"), Vec::<String>::new());
    assert_eq!(String::from_utf8_lossy(&heard.body()), format!("{}{}", events[0], events[2]));
}
