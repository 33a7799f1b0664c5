//! A governor over a list of faults that a test changes at will, and the sockets that tests use.
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use aconite_toxics::{Moment, Report, Schedule, StageId, StreamFilter};
use bytes::Bytes;
use rand::{Rng, SeedableRng};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use super::{Governor, prepare};

/// What a test puts on a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// Each item leaves so much later; `NEVER`: when the toxic is gone.
    Delay(Duration),
    /// Each item leaves in pieces of so many bytes.
    Slice(usize),
    /// The connection breaks so long after the start.
    Reset(Duration),
    /// The connection closes after so many bytes.
    CloseAfter(usize),
}

/// The toxics in effect; every entry counts as one with a number of its own.
#[derive(Clone)]
pub(super) struct Plan(Arc<watch::Sender<Vec<(StageId, Fault)>>>, Arc<Mutex<Vec<Moment>>>);

impl Plan {
    pub(super) fn of(faults: &[Fault]) -> Self {
        let plan = Self(Arc::new(watch::Sender::new(Vec::new())), Arc::default());
        plan.set(faults);
        plan
    }

    /// Replaces all faults. The nth is a changed nth of before; an equal one is left alone.
    pub(super) fn set(&self, faults: &[Fault]) {
        self.0.send_modify(|stages| {
            let before = std::mem::take(stages);
            for (toxic, fault) in (0..).zip(faults) {
                let revision = match before.iter().find(|(id, _)| id.toxic == toxic) {
                    Some((id, old)) => id.revision + u64::from(old != fault),
                    None => 0,
                };
                stages.push((StageId { toxic, revision }, *fault));
            }
        });
    }

    pub(super) fn governor(&self) -> Watch {
        let receiver = self.0.subscribe();
        Watch { changed: Box::pin(changed(receiver.clone())), receiver, struck: Arc::clone(&self.1) }
    }

    /// The moments at which toxics have struck.
    pub(super) fn struck(&self) -> Vec<Moment> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Faults = watch::Receiver<Vec<(StageId, Fault)>>;

pub(super) struct Watch {
    receiver: Faults,
    changed: Pin<Box<dyn Future<Output = Faults> + Send>>,
    struck: Arc<Mutex<Vec<Moment>>>,
}

async fn changed(mut receiver: Faults) -> Faults {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    receiver
}

impl Governor for Watch {
    fn has_changed(&self) -> bool {
        self.receiver.has_changed().unwrap_or(false)
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver = ready!(self.changed.as_mut().poll(cx));
        self.changed = Box::pin(changed(self.receiver.clone()));
        Poll::Ready(())
    }

    fn wanted(&mut self) -> Vec<StageId> {
        self.receiver.borrow().iter().map(|(id, _)| *id).collect()
    }

    fn start(&mut self, id: StageId) -> Option<Box<dyn StreamFilter<Bytes>>> {
        let fault = self.receiver.borrow().iter().find(|(known, _)| *known == id)?.1;
        Some(match fault {
            Fault::Delay(by) => Box::new(Delay(by)),
            Fault::Slice(size) => Box::new(Slice(size)),
            Fault::Reset(after) => Box::new(Reset(after)),
            Fault::CloseAfter(bytes) => Box::new(CloseAfter(bytes)),
        })
    }

    fn report(&mut self, _: StageId, report: Report) {
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).extend(report.struck);
    }
}

struct Delay(Duration);

impl StreamFilter<Bytes> for Delay {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now.saturating_add(self.0), item);
    }

    fn only_delays(&self) -> bool {
        true
    }
}

struct Slice(usize);

impl StreamFilter<Bytes> for Slice {
    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        while !item.is_empty() {
            out.send(now, item.split_to(item.len().min(self.0)));
        }
    }
}

struct Reset(Duration);

impl StreamFilter<Bytes> for Reset {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.wake_at(now + self.0);
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        out.reset(now);
    }
}

struct CloseAfter(usize);

impl StreamFilter<Bytes> for CloseAfter {
    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        item.truncate(self.0);
        self.0 -= item.len();
        out.send(now, item);
        if self.0 == 0 {
            out.close(now);
        }
    }
}

/// Two connected sockets with the options that a proxy's sockets have. Without `TCP_NODELAY` the kernel may still hold a
/// short write when the connection is reset, and discard it.
pub(super) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (near, (far, _)) = (near.unwrap(), far.unwrap());
    prepare(&near);
    prepare(&far);
    (near, far)
}

/// No test hangs, whatever the machine is busy with.
pub(super) const GUARD: Duration = Duration::from_secs(30);

pub(super) async fn guarded<T>(future: impl Future<Output = T>) -> T {
    timeout(GUARD, future).await.expect("it ends")
}

pub(super) async fn read_all(socket: &mut (impl AsyncRead + Unpin)) -> (Vec<u8>, io::Result<usize>) {
    let mut got = Vec::new();
    let end = guarded(socket.read_to_end(&mut got)).await;
    (got, end)
}

pub(super) async fn assert_reset(socket: &mut (impl AsyncRead + Unpin)) {
    let (_, end) = read_all(socket).await;
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Bytes that differ everywhere.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rand_chacha::ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
