//! Serves a simulated provider on a free port, for clients outside this process.
//!
//! `cargo run --example sim_server -- "sim://openai?tps=20"` prints the URL to put into a client's `base_url`.
use std::{convert::Infallible, error::Error};

use aconite::sim::Simulator;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sim://openai".to_owned());
    let simulator = Simulator::new(&url)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(&format!("http://{}", listener.local_addr()?));
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let simulator = simulator.clone();
        #[expect(clippy::disallowed_methods, reason = "the process ends with its connections")]
        tokio::spawn(async move {
            let answer = service_fn(async |request| Ok::<_, Infallible>(simulator.handle(request).await));
            // An error here is a client that hung up.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}

#[expect(clippy::print_stdout, reason = "the URL is what the program is started for")]
fn announce(url: &str) {
    println!("{url}");
}
