use std::{
    io::ErrorKind,
    sync::{Arc, Mutex},
};

use aconite_toxics::NEVER;
use rand::{Rng, SeedableRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, tcp::OwnedWriteHalf},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};

use super::{
    super::{
        pump::READ_SIZE,
        testing::{Fault, Plan, assert_reset, guarded, ms, noise, pair, read_all},
    },
    *,
};

struct Connection {
    client: TcpStream,
    upstream: TcpStream,
    up: Plan,
    down: Plan,
    counters: Arc<Counters>,
    relay: JoinHandle<End>,
    stop: oneshot::Sender<()>,
}

async fn open(up: &[Fault], down: &[Fault]) -> Connection {
    open_for(pair().await, up, down).await
}

async fn open_for((client, inbound): (TcpStream, TcpStream), up: &[Fault], down: &[Fault]) -> Connection {
    let (outbound, upstream) = pair().await;
    let (up, down) = (Plan::of(up), Plan::of(down));
    let counters = Arc::new(Counters::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = tokio::spawn({
        let opened = Instant::now();
        let (up, down) = (Lane::new(opened, up.governor()), Lane::new(opened, down.governor()));
        let counters = Arc::clone(&counters);
        async move {
            let stop = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            relay(inbound, outbound, up, down, &counters, stop).await
        }
    });
    Connection { client, upstream, up, down, counters, relay, stop }
}

impl Connection {
    async fn ending(self) -> End {
        guarded(self.relay).await.unwrap()
    }
}

async fn expect(socket: &mut TcpStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    guarded(socket.read_exact(&mut got)).await.unwrap();
    assert_eq!(got, bytes);
}

#[tokio::test]
async fn a_message_passes_and_is_counted_while_the_connection_is_open() {
    let mut link = open(&[], &[]).await;
    link.client.write_all(b"ping").await.unwrap();
    expect(&mut link.upstream, b"ping").await;
    link.upstream.write_all(b"pong!").await.unwrap();
    expect(&mut link.client, b"pong!").await;
    let Counters { upstream, downstream } = &*link.counters;
    assert_eq!((upstream.received(), downstream.received()), (4, 5));
    // The count of what was sent may follow the bytes themselves.
    guarded(async {
        while (upstream.sent(), downstream.sent()) != (4, 5) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_small() {
    let (client, inbound) = pair().await;
    let (outbound, upstream) = pair().await;
    let lane = || Lane::new(Instant::now(), Plan::of(&[]).governor());
    let counters = Counters::default();
    let relay = relay(inbound, outbound, lane(), lane(), &counters, std::future::pending());
    assert!(size_of_val(&relay) <= 2_048, "{} bytes", size_of_val(&relay));
    drop((relay, client, upstream));
}

#[tokio::test]
async fn tox_14_a_client_that_has_finished_gets_its_answer() {
    for faults in [&[][..], &[Fault::Delay(ms(20))]] {
        let mut link = open(faults, faults).await;
        link.client.write_all(b"0123456789").await.unwrap();
        link.client.shutdown().await.unwrap();
        let (request, end) = read_all(&mut link.upstream).await;
        assert_eq!((request.as_slice(), end.unwrap()), (&b"0123456789"[..], 10));
        link.upstream.write_all(b"GOT 10").await.unwrap();
        link.upstream.shutdown().await.unwrap();
        let (answer, end) = read_all(&mut link.client).await;
        assert_eq!((answer.as_slice(), end.unwrap()), (&b"GOT 10"[..], 6));
        assert_eq!(link.ending().await, End { side: Side::Client, how: How::Fin });
    }
}

#[tokio::test]
async fn tox_10_a_reset_is_an_rst_on_both_sides_of_a_live_connection() {
    for upstream in [true, false] {
        let mut link = open(&[], &[]).await;
        link.client.write_all(b"ping").await.unwrap();
        expect(&mut link.upstream, b"ping").await;
        let start = Instant::now();
        let plan = if upstream { &link.up } else { &link.down };
        plan.set(&[Fault::Reset(ms(30))]);
        assert_reset(&mut link.client).await;
        assert_reset(&mut link.upstream).await;
        assert!(start.elapsed() >= ms(30));
        assert_eq!(link.ending().await, End { side: Side::Toxic, how: How::Rst });
    }
}

#[tokio::test]
async fn a_toxic_still_breaks_a_connection_whose_client_has_finished() {
    for (up, later) in [(&[Fault::Reset(ms(200))][..], false), (&[], true)] {
        let mut link = open(up, &[]).await;
        link.client.shutdown().await.unwrap();
        let (nothing, end) = read_all(&mut link.upstream).await;
        assert_eq!((nothing.len(), end.unwrap()), (0, 0));
        if later {
            link.up.set(&[Fault::Reset(ms(0))]);
        }
        assert_reset(&mut link.client).await;
        assert_eq!(link.ending().await, End { side: Side::Toxic, how: How::Rst });
    }
}

#[tokio::test]
async fn a_reset_does_not_queue_behind_what_a_client_refuses_to_read() {
    for down in [&[][..], &[Fault::Delay(ms(1))]] {
        let mut link = open(&[], down).await;
        let (mut reader, mut writer) = link.upstream.into_split();
        let flood = tokio::spawn(async move {
            let block = vec![7; 64 * 1024];
            while writer.write_all(&block).await.is_ok() {}
        });
        stuck(&link.counters.downstream).await;
        let mut faults = down.to_vec();
        faults.push(Fault::Reset(ms(50)));
        link.down.set(&faults);
        assert_eq!(guarded(link.relay).await.unwrap(), End { side: Side::Toxic, how: How::Rst });
        guarded(flood).await.unwrap();
        let end = guarded(reader.read(&mut [0; 1])).await;
        assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        assert_reset(&mut link.client).await;
    }
}

/// Waits until a flow has moved, and then moves no more.
async fn stuck(traffic: &super::super::Traffic) {
    guarded(async {
        let mut before = 0;
        loop {
            tokio::time::sleep(ms(100)).await;
            let now = traffic.received();
            if now != 0 && now == before {
                return;
            }
            before = now;
        }
    })
    .await;
}

#[tokio::test]
async fn a_peers_reset_reaches_the_other_side_as_one() {
    for vanishes in [Side::Client, Side::Upstream] {
        let mut link = open(&[], &[]).await;
        link.client.write_all(b"ping").await.unwrap();
        expect(&mut link.upstream, b"ping").await;
        let (gone, mut left) = match vanishes {
            Side::Client => (link.client, link.upstream),
            _ => (link.upstream, link.client),
        };
        gone.set_zero_linger().unwrap();
        drop(gone);
        assert_reset(&mut left).await;
        assert_eq!(guarded(link.relay).await.unwrap(), End { side: vanishes, how: How::Rst });
    }
}

#[tokio::test]
async fn tox_02_a_client_that_vanishes_with_data_in_flight_ends_both_sides() {
    for down in [&[][..], &[Fault::Delay(ms(400))], &[Fault::Delay(ms(5)), Fault::Slice(100)]] {
        let link = open(&[], down).await;
        let (mut reader, writer) = link.upstream.into_split();
        let flood = tokio::spawn(write_until_refused(writer));
        stuck(&link.counters.downstream).await;
        // Unread data makes this an RST.
        drop(link.client);
        assert_eq!(guarded(link.relay).await.unwrap(), End { side: Side::Client, how: How::Rst });
        guarded(flood).await.unwrap();
        let end = guarded(reader.read(&mut [0; 1])).await;
        assert!(matches!(end, Ok(0) | Err(_)));
    }
}

async fn write_until_refused(mut writer: OwnedWriteHalf) {
    let block = vec![7; 64 * 1024];
    while writer.write_all(&block).await.is_ok() {}
}

#[tokio::test]
async fn a_close_gives_both_sides_what_came_before_and_a_fin() {
    let mut link = open(&[], &[Fault::CloseAfter(5)]).await;
    link.client.write_all(b"never read by the upstream").await.unwrap();
    link.upstream.write_all(b"hello world").await.unwrap();
    let (got, end) = read_all(&mut link.client).await;
    assert_eq!((got.as_slice(), end.unwrap()), (&b"hello"[..], 5));
    let (_, end) = read_all(&mut link.upstream).await;
    end.unwrap();
    assert_eq!(link.ending().await, End { side: Side::Toxic, how: How::Fin });
}

#[tokio::test]
async fn a_close_waits_for_a_slow_reader_to_take_all_that_came_before_it() {
    const LIMIT: usize = 200_000;
    const UNREAD: usize = 50_000;
    let mut link = open_for(narrow_pair().await, &[], &[Fault::CloseAfter(LIMIT)]).await;
    let (_upstream, writer) = link.upstream.into_split();
    tokio::spawn(write_until_refused(writer));
    guarded(link.client.read_exact(&mut vec![0; LIMIT - UNREAD])).await.unwrap();
    // The close is due now, behind more than the sockets can hold.
    guarded(async {
        while link.counters.downstream.received() < LIMIT as u64 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let (rest, end) = read_all(&mut link.client).await;
    end.unwrap();
    assert_eq!(rest.len(), UNREAD);
}

/// Two connected sockets between which hardly anything fits.
async fn narrow_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpSocket::new_v4().unwrap();
    near.set_recv_buffer_size(4_096).unwrap();
    let (near, far) = tokio::join!(near.connect(listener.local_addr().unwrap()), listener.accept());
    let (near, far) = (near.unwrap(), far.unwrap().0);
    SockRef::from(&far).set_send_buffer_size(4_096).unwrap();
    (near, far)
}

#[tokio::test]
async fn tox_03_what_a_cut_connection_holds_arrives_once_it_is_mended() {
    let mut link = open(&[], &[Fault::Delay(NEVER)]).await;
    let sent = noise(3, 50_000);
    link.upstream.write_all(&sent).await.unwrap();
    link.upstream.shutdown().await.unwrap();
    guarded(async {
        while link.counters.downstream.received() < 50_000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(link.counters.downstream.sent(), 0);
    link.down.set(&[]);
    let (got, end) = read_all(&mut link.client).await;
    assert_eq!(end.unwrap(), 50_000);
    assert_eq!(got, sent);
}

#[tokio::test]
async fn stopping_sends_a_fin_to_both_sides() {
    let mut link = open(&[], &[Fault::Delay(NEVER)]).await;
    link.upstream.write_all(b"held").await.unwrap();
    link.stop.send(()).unwrap();
    assert_eq!(read_all(&mut link.client).await.1.unwrap(), 0);
    assert_eq!(read_all(&mut link.upstream).await.1.unwrap(), 0);
    assert_eq!(guarded(link.relay).await.unwrap(), End { side: Side::Proxy, how: How::Fin });
}

#[tokio::test]
async fn latency_shifts_a_stream_and_does_not_throttle_it() {
    let mut link = open(&[], &[Fault::Delay(ms(100))]).await;
    let sent = noise(6, 4 * READ_SIZE);
    let start = Instant::now();
    link.upstream.write_all(b"x").await.unwrap();
    expect(&mut link.client, b"x").await;
    assert!(start.elapsed() >= ms(100));
    link.upstream.write_all(&sent).await.unwrap();
    expect(&mut link.client, &sent).await;
}

#[tokio::test]
async fn a_reader_that_stops_costs_bounded_memory_and_loses_nothing() {
    for (faults, most) in [(&[][..], 4 * READ_SIZE), (&[Fault::Slice(5_000)], 4 * READ_SIZE)] {
        let mut link = open(&[], faults).await;
        let sent = Arc::new(noise(4, 1_000_003).repeat(24));
        let (_reader, mut writer) = link.upstream.into_split();
        let all = Arc::clone(&sent);
        let writing = tokio::spawn(async move {
            writer.write_all(&all).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        stuck(&link.counters.downstream).await;
        let downstream = &link.counters.downstream;
        assert!(downstream.received() < sent.len() as u64, "the reader must not have room for all");
        assert!(downstream.received() - downstream.sent() <= most as u64);
        // A toxic joins while bytes are stuck outside its lane, and goes again.
        link.down.set(&[Fault::Delay(ms(1))]);
        let mut head = vec![0; 1_000_000];
        guarded(link.client.read_exact(&mut head)).await.unwrap();
        link.down.set(&[]);
        let (tail, end) = read_all(&mut link.client).await;
        end.unwrap();
        guarded(writing).await.unwrap();
        assert!([head, tail].concat() == *sent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_of_toxics_loses_and_reorders_nothing() {
    const MESSAGES: u32 = 65_535;
    let mut link = open(&[], &[]).await;
    let (up, down) = (link.up.clone(), link.down.clone());
    let done = Arc::new(Mutex::new(false));
    let churn = tokio::spawn({
        let done = Arc::clone(&done);
        async move {
            let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(5);
            let mut changes = 0;
            while !*done.lock().unwrap() {
                let faults = [
                    Fault::Delay(Duration::from_micros(u64::from(dice.next_u32() % 3_000))),
                    Fault::Slice(dice.next_u32() as usize % 900 + 100),
                    Fault::Delay(NEVER),
                ];
                let take = dice.next_u32() as usize % (faults.len() + 1);
                let plan = if dice.next_u32() % 2 == 0 { &up } else { &down };
                plan.set(&faults[..take]);
                changes += 1;
                tokio::time::sleep(Duration::from_micros(u64::from(dice.next_u32() % 2_000))).await;
                // What waits for ever must not stop the other direction for long.
                plan.set(&faults[..take.min(2)]);
            }
            changes
        }
    });
    // Small messages up, bulk down, at the same time.
    let bulk = Arc::new(noise(5, 3_000_000));
    let (mut from_client, mut to_client) = link.upstream.split();
    let (mut from_upstream, mut to_upstream) = link.client.split();
    let messages = async {
        for number in 0..MESSAGES {
            to_upstream.write_all(&number.to_be_bytes()).await.unwrap();
        }
        to_upstream.shutdown().await.unwrap();
    };
    let answers = async {
        to_client.write_all(&bulk).await.unwrap();
        to_client.shutdown().await.unwrap();
    };
    let (mut got_messages, mut got_bulk) = (Vec::new(), Vec::new());
    let ((), (), up_end, down_end) = guarded(async {
        tokio::join!(
            messages,
            answers,
            from_client.read_to_end(&mut got_messages),
            from_upstream.read_to_end(&mut got_bulk)
        )
    })
    .await;
    *done.lock().unwrap() = true;
    assert!(guarded(churn).await.unwrap() > 10);
    up_end.unwrap();
    down_end.unwrap();
    assert!(got_messages == (0..MESSAGES).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
    assert!(got_bulk == *bulk);
    assert_eq!(guarded(link.relay).await.unwrap().how, How::Fin);
    let Counters { upstream, downstream } = &*link.counters;
    assert_eq!((upstream.received(), upstream.sent()), (u64::from(MESSAGES) * 4, u64::from(MESSAGES) * 4));
    assert_eq!((downstream.received(), downstream.sent()), (3_000_000, 3_000_000));
}
