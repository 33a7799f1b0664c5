//! The journal's file.
use std::{io, path::Path};

use tokio::{
    fs::{File, OpenOptions},
    io::{AsyncWriteExt, BufWriter},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// Lines that may wait to be written.
const QUEUE: usize = 10_000;

/// Writes what the journal tells it to a file.
pub(super) struct JournalWriter {
    finish: CancellationToken,
    task: JoinHandle<()>,
}

impl JournalWriter {
    /// Opens the file to add to it; what is sent is written, a line each.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) async fn open(path: &Path) -> io::Result<(mpsc::Sender<String>, Self)> {
        let file = OpenOptions::new().create(true).append(true).open(path).await?;
        let (lines, receiver) = mpsc::channel(QUEUE);
        let finish = CancellationToken::new();
        let task = tokio::spawn(write(BufWriter::new(file), receiver, finish.clone()));
        Ok((lines, Self { finish, task }))
    }

    /// Writes out what there is.
    pub(super) async fn finish(self) {
        self.finish.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the journal's file may lack its last lines");
        }
    }
}

async fn write(mut file: BufWriter<File>, mut lines: mpsc::Receiver<String>, finish: CancellationToken) {
    let mut failing = false;
    loop {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            () = finish.cancelled() => None,
        };
        let Some(mut line) = line else { break };
        line.push('\n');
        let mut result = file.write_all(line.as_bytes()).await;
        if result.is_ok() && lines.is_empty() {
            result = file.flush().await;
        }
        if let Err(error) = &result
            && !failing
        {
            tracing::error!(%error, "cannot write the journal's file");
        }
        failing = result.is_err();
    }
    if let Err(error) = file.flush().await {
        tracing::error!(%error, "cannot write the journal's file");
    }
}
