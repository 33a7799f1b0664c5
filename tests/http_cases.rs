//! Real bug reports about HTTP/1.1, each turned into bytes on a socket. Named by case.

mod bodies;
mod connections;
mod heads;
mod interim;
mod uploads;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CLOSE_AFTER: &str = "connection: close\r\n\r\n";

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{CLOSE_AFTER}")
}
