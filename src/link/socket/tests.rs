use std::future::poll_fn;

use aconite_toxics::NEVER;
use rand::{Rng, SeedableRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    time::Instant,
};

use super::{
    super::testing::{Fault, Plan, Watch, assert_reset, guarded, ms, noise, pair, read_all},
    *,
};

struct Fixture {
    client: TcpStream,
    socket: ToxicSocket<Watch>,
    control: SocketControl,
    counters: Arc<Counters>,
    up: Plan,
    down: Plan,
}

async fn open(up: &[Fault], down: &[Fault]) -> Fixture {
    let (client, stream) = pair().await;
    let (up, down) = (Plan::of(up), Plan::of(down));
    let opened = Instant::now();
    let (up_lane, down_lane) = (Lane::new(opened, up.governor()), Lane::new(opened, down.governor()));
    let counters = Arc::new(Counters::default());
    let (socket, control) = ToxicSocket::new(stream, up_lane, down_lane, Arc::clone(&counters));
    Fixture { client, socket, control, counters, up, down }
}

/// Polls the socket as hyper does while it neither reads nor writes, until it fails.
async fn idle(socket: &mut ToxicSocket<Watch>) -> io::ErrorKind {
    poll_fn(|cx| match Pin::new(&mut *socket).poll_flush(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(error.kind()),
        _ => Poll::Pending,
    })
    .await
}

#[tokio::test]
async fn bytes_pass_and_are_counted_with_and_without_toxics() {
    for faults in [&[][..], &[Fault::Delay(ms(3)), Fault::Slice(2)]] {
        let Fixture { mut client, mut socket, counters, .. } = open(faults, faults).await;
        client.write_all(b"ping").await.unwrap();
        let mut got = [0; 4];
        guarded(socket.read_exact(&mut got)).await.unwrap();
        assert_eq!(&got, b"ping");
        let pieces = [IoSlice::new(b"po"), IoSlice::new(b""), IoSlice::new(b"ng!")];
        let sent =
            guarded(poll_fn(|cx| Pin::new(&mut socket).poll_write_vectored(cx, &pieces))).await.unwrap();
        assert_eq!(sent, 5);
        let server = tokio::spawn(async move { socket.shutdown().await });
        let (got, end) = read_all(&mut client).await;
        assert_eq!((got.as_slice(), end.unwrap()), (&b"pong!"[..], 5));
        drop(client);
        guarded(server).await.unwrap().unwrap();
        let Counters { upstream, downstream } = &*counters;
        assert_eq!((upstream.received(), upstream.sent()), (4, 4));
        assert_eq!((downstream.received(), downstream.sent()), (5, 5));
    }
}

#[tokio::test]
async fn flushing_does_not_wait_for_the_lane_and_shutting_down_does() {
    let Fixture { mut client, mut socket, .. } = open(&[], &[Fault::Delay(ms(80))]).await;
    let start = Instant::now();
    guarded(socket.write_all(b"late")).await.unwrap();
    guarded(socket.flush()).await.unwrap();
    let flushed = start.elapsed();
    let server = tokio::spawn(async move {
        socket.shutdown().await.unwrap();
        socket
    });
    let (got, end) = read_all(&mut client).await;
    assert_eq!((got.as_slice(), end.unwrap()), (&b"late"[..], 4));
    assert!(start.elapsed() >= ms(80));
    assert!(flushed < start.elapsed());
    drop(client);
    drop(guarded(server).await.unwrap());
}

#[tokio::test]
async fn a_toxic_that_joins_breaks_a_socket_that_nobody_reads_or_writes() {
    for (upstream, fault, kind) in [
        (true, Fault::Reset(ms(20)), io::ErrorKind::ConnectionReset),
        (false, Fault::Reset(ms(20)), io::ErrorKind::ConnectionReset),
    ] {
        let Fixture { mut client, mut socket, up, down, .. } = open(&[], &[]).await;
        client.write_all(b"unread").await.unwrap();
        let server = tokio::spawn(async move { idle(&mut socket).await });
        (if upstream { &up } else { &down }).set(&[fault]);
        assert_eq!(guarded(server).await.unwrap(), kind);
        assert_reset(&mut client).await;
    }
}

#[tokio::test]
async fn a_close_upstream_lets_the_reader_have_what_came_before() {
    let Fixture { mut client, mut socket, .. } = open(&[Fault::CloseAfter(6), Fault::Slice(1)], &[]).await;
    client.write_all(b"request").await.unwrap();
    let server = tokio::spawn(async move {
        let mut got = Vec::new();
        let mut byte = [0; 1];
        loop {
            // One byte a turn, and everything else that hyper does in between.
            match socket.read(&mut byte).await {
                Ok(1) => got.push(byte[0]),
                end => return (got, end),
            }
            if let Err(error) = socket.flush().await {
                return (got, Err(error));
            }
            tokio::task::yield_now().await;
        }
    });
    let (got, end) = guarded(server).await.unwrap();
    assert_eq!(got, b"reques");
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(read_all(&mut client).await.1.unwrap(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_while_nobody_reads() {
    for unread in [&b""[..], b"pipelined"] {
        let Fixture { mut client, mut socket, control, .. } = open(&[], &[]).await;
        let server = tokio::spawn(async move {
            tokio::select! {
                kind = idle(&mut socket) => panic!("{kind}"),
                () = control.closed_by_peer() => {}
            }
            assert!(control.is_closed_by_peer());
            socket
        });
        client.write_all(unread).await.unwrap();
        // So that the data is noticed by itself.
        sleep(ms(20)).await;
        drop(client);
        let mut socket = guarded(server).await.unwrap();
        let mut got = Vec::new();
        guarded(socket.read_to_end(&mut got)).await.unwrap();
        assert_eq!(got, unread);
    }
}

#[tokio::test]
async fn what_nobody_wanted_yet_is_read_later_in_full() {
    let Fixture { mut client, mut socket, .. } = open(&[], &[]).await;
    let sent = noise(7, 300_000);
    let all = sent.clone();
    let writing = tokio::spawn(async move {
        client.write_all(&all).await.unwrap();
        client
    });
    let mut got = vec![0; sent.len()];
    let reading = async {
        for piece in got.chunks_mut(7_777) {
            socket.flush().await.unwrap();
            socket.read_exact(piece).await.unwrap();
            socket.flush().await.unwrap();
        }
    };
    guarded(reading).await;
    assert!(got == sent);
    guarded(writing).await.unwrap();
}

#[tokio::test]
async fn an_answer_to_an_upload_that_goes_on_arrives_whole() {
    let Fixture { mut client, mut socket, .. } = open(&[], &[]).await;
    let server = tokio::spawn(async move {
        socket.read_exact(&mut [0; 100]).await.unwrap();
        socket.write_all(b"429").await.unwrap();
        socket.shutdown().await.unwrap();
    });
    // More than sockets hold: the client reads only when all is written.
    guarded(client.write_all(&noise(8, 1_000_003).repeat(20))).await.unwrap();
    let (got, end) = read_all(&mut client).await;
    assert_eq!((got.as_slice(), end.unwrap()), (&b"429"[..], 3));
    drop(client);
    guarded(server).await.unwrap();
}

#[tokio::test]
async fn a_tunnel_goes_on_after_one_direction_has_ended() {
    for faults in [&[][..], &[Fault::Delay(ms(2))]] {
        let Fixture { mut client, mut socket, .. } = open(faults, faults).await;
        let (mut near, mut far) = pair().await;
        let tunnel = tokio::spawn(async move { copy_bidirectional(&mut socket, &mut near).await });
        far.write_all(b"all I have").await.unwrap();
        far.shutdown().await.unwrap();
        let (got, _) = read_all(&mut client).await;
        assert_eq!(got, b"all I have");
        client.write_all(b"still here").await.unwrap();
        client.shutdown().await.unwrap();
        let (got, _) = read_all(&mut far).await;
        assert_eq!(got, b"still here");
        assert_eq!(guarded(tunnel).await.unwrap().unwrap(), (10, 10));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_bounded_and_loses_nothing() {
    let Fixture { mut client, mut socket, down, counters, .. } = open(&[], &[Fault::Slice(3_000)]).await;
    let sent = Arc::new(noise(9, 1_000_003).repeat(20));
    let all = Arc::clone(&sent);
    let writing = tokio::spawn(async move {
        socket.write_all(&all).await.unwrap();
        socket.shutdown().await.unwrap();
    });
    sleep(ms(300)).await;
    let held = counters.downstream.received() - counters.downstream.sent();
    assert!(held <= 4 * READ_SIZE as u64, "{held}");
    down.set(&[]);
    let (got, end) = read_all(&mut client).await;
    end.unwrap();
    drop(client);
    guarded(writing).await.unwrap();
    assert!(got == *sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn churn_of_toxics_on_an_echo_loses_and_reorders_nothing() {
    let Fixture { client, mut socket, up, down, .. } = open(&[], &[]).await;
    let echo = tokio::spawn(async move {
        let mut buffer = vec![0; 20_000];
        loop {
            match socket.read(&mut buffer).await.unwrap() {
                0 => return socket.shutdown().await.unwrap(),
                bytes => socket.write_all(&buffer[..bytes]).await.unwrap(),
            }
        }
    });
    let churn = tokio::spawn(async move {
        let mut dice = rand_chacha::ChaCha8Rng::seed_from_u64(10);
        loop {
            let faults = [
                Fault::Slice(dice.next_u32() as usize % 5_000 + 100),
                Fault::Delay(ms(2)),
                Fault::Delay(NEVER),
            ];
            let plan = if dice.next_u32() % 2 == 0 { &up } else { &down };
            plan.set(&faults[..dice.next_u32() as usize % 4]);
            sleep(Duration::from_micros(u64::from(dice.next_u32() % 1_500))).await;
            plan.set(&faults[..dice.next_u32() as usize % 3]);
        }
    });
    let sent = noise(10, 3_000_000);
    let (mut reader, mut writer) = client.into_split();
    let all = sent.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&all).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let (got, end) = read_all(&mut reader).await;
    end.unwrap();
    churn.abort();
    assert!(got == sent);
    guarded(writing).await.unwrap();
    guarded(echo).await.unwrap();
}
