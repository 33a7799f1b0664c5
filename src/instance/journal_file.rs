//! The journal's file.
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;
use tokio::{
    fs::{File, OpenOptions},
    io::{AsyncWriteExt, BufWriter},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::journal::Lines;

/// Lines that may wait to be written.
const QUEUE: usize = 10_000;
/// How many bytes they may have together.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// A line, and the room that it takes in the queue until it is written.
type Line = (String, OwnedSemaphorePermit);

/// Writes what the journal tells it to a file.
pub(super) struct JournalWriter {
    finish: CancellationToken,
    reopen: mpsc::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl JournalWriter {
    /// Opens the file to add to it; what is sent is written, a line each. If the file is new, only its owner can read it.
    ///
    /// # Errors
    /// If it cannot be opened, or could block for ever as a pipe does.
    pub(super) async fn open(path: &Path) -> io::Result<(Lines, Self)> {
        let file = append_to(path).await?;
        let (queue, receiver) = mpsc::channel(QUEUE);
        let lines = Lines { queue, room: Arc::new(Semaphore::new(QUEUE_BYTES)) };
        let (reopen, reopening) = mpsc::channel(1);
        let finish = CancellationToken::new();
        let writing = Writing { path: path.to_owned(), file: BufWriter::new(file), failing: false };
        #[expect(clippy::disallowed_methods, reason = "`finish` ends it")]
        let task = tokio::spawn(writing.run(receiver, reopening, finish.clone()));
        Ok((lines, Self { finish, reopen, task }))
    }

    /// Writes out what there is and opens the file anew, which may have been moved away. Answers when that is done.
    pub(super) async fn reopen(&self) {
        let (done, is_done) = oneshot::channel();
        if self.reopen.send(done).await.is_ok() {
            // A writer that has ended has nothing to open.
            let _ = is_done.await;
        }
    }

    /// Writes out what there is.
    pub(super) async fn finish(self) {
        self.finish.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the journal's file may lack its last lines");
        }
    }
}

/// Opens a file to append to. Pipes and directories are refused: opening a pipe waits for a reader.
async fn append_to(path: &Path) -> io::Result<File> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file =
        OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(nonblocking).open(path).await;
    let is_pipe = |kind: std::fs::FileType| std::os::unix::fs::FileTypeExt::is_fifo(&kind);
    let file = match file {
        // A pipe that nobody reads.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => None,
        Err(error) => return Err(error),
        Ok(file) if is_pipe(file.metadata().await?.file_type()) => None,
        Ok(file) => Some(file),
    };
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe; a regular file is needed");
    file.ok_or_else(refused)
}

/// An open journal file.
struct Writing {
    path: PathBuf,
    file: BufWriter<File>,
    failing: bool,
}

impl Writing {
    async fn run(
        mut self,
        mut lines: mpsc::Receiver<Line>,
        mut reopening: mpsc::Receiver<oneshot::Sender<()>>,
        finish: CancellationToken,
    ) {
        loop {
            let line = tokio::select! {
                biased;
                line = lines.recv() => line,
                Some(done) = reopening.recv() => {
                    self.reopen().await;
                    // Who does not wait for it need not know.
                    let _ = done.send(());
                    continue;
                }
                () = finish.cancelled() => None,
            };
            let Some((mut line, _room)) = line else { break };
            line.push('\n');
            let mut result = self.file.write_all(line.as_bytes()).await;
            if result.is_ok() && lines.is_empty() {
                result = self.file.flush().await;
            }
            self.note(&result);
        }
        let result = self.file.flush().await;
        self.note(&result);
    }

    async fn reopen(&mut self) {
        let result = self.file.flush().await;
        self.note(&result);
        match append_to(&self.path).await {
            Ok(file) => {
                self.file = BufWriter::new(file);
                self.failing = false;
            }
            Err(error) => {
                tracing::error!(%error, path = %self.path.display(), "cannot open the journal's file again; the one of before stays in use");
            }
        }
    }

    /// Logs the first of several failures.
    fn note(&mut self, result: &io::Result<()>) {
        if let Err(error) = result
            && !self.failing
        {
            tracing::error!(%error, "cannot write the journal's file");
        }
        self.failing = result.is_err();
    }
}
