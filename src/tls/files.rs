//! What is made of files that may be replaced while it is in use: certificates are renewed while the proxy runs.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

/// How old an answer to "have the files changed?" may be.
const RECHECK: Duration = Duration::from_secs(1);

/// The largest file that is read.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// A value that is read from files, and read again when they change.
pub(crate) struct FromFiles<T> {
    /// Without files nothing can change, and nobody need ask.
    watched: Option<Watched<T>>,
    first: Arc<T>,
}

struct Watched<T> {
    files: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<Arc<T>, String> + Send + Sync>,
    now: Mutex<Now<T>>,
}

struct Now<T> {
    value: Arc<T>,
    /// What the files were when `value` was read.
    stamps: Vec<FileVersion>,
    checked: Instant,
    /// Why the files of now cannot be used, if they cannot.
    failure: Option<String>,
}

/// Tells one content of a file from the next: a replaced file has another inode, a rewritten one another time.
#[derive(Clone, Debug, Eq, PartialEq)]
struct FileVersion(Option<(SystemTime, u64, u64)>);

impl<T: Send + Sync + 'static> FromFiles<T> {
    /// Reads the value, and again whenever one of the files has changed.
    ///
    /// # Errors
    /// If it cannot be read now.
    pub(crate) fn read<E: 'static>(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<Arc<T>, E> + Send + Sync + 'static,
        describe: fn(&E) -> String,
    ) -> Result<Self, E> {
        let stamps = stamps(&files);
        let first = read()?;
        if files.is_empty() {
            return Ok(Self { watched: None, first });
        }
        let read = Box::new(move || read().map_err(|error| describe(&error)));
        let now = Now { value: Arc::clone(&first), stamps, checked: Instant::now(), failure: None };
        Ok(Self { watched: Some(Watched { files, read, now: Mutex::new(now) }), first })
    }

    /// The value. Looks at the files at most once a second; while they cannot be used, the last value that could be read
    /// stays, and the log says why.
    pub(crate) fn current(&self) -> Arc<T> {
        let Some(watched) = &self.watched else { return Arc::clone(&self.first) };
        let mut now = watched.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.checked.elapsed() >= RECHECK {
            watched.look(&mut now);
        }
        Arc::clone(&now.value)
    }

    /// Looks at the files at once.
    ///
    /// # Errors
    /// If they cannot be used as they are.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        let Some(watched) = &self.watched else { return Ok(()) };
        let mut now = watched.now.lock().unwrap_or_else(PoisonError::into_inner);
        watched.look(&mut now);
        now.failure.clone().map_or(Ok(()), Err)
    }
}

impl<T> Watched<T> {
    fn look(&self, now: &mut Now<T>) {
        now.checked = Instant::now();
        let stamps = stamps(&self.files);
        if stamps == now.stamps {
            now.failure = None;
            return;
        }
        match (self.read)() {
            Ok(value) => {
                tracing::info!(files = ?self.files, "TLS files have changed and were read again");
                now.value = value;
                now.stamps = stamps;
                now.failure = None;
            }
            // Perhaps one of two files is not there yet: the next look tries again.
            Err(error) => {
                if now.failure.as_ref() != Some(&error) {
                    tracing::error!(files = ?self.files, %error, "TLS files have changed and cannot be used; those of before stay in use");
                }
                now.failure = Some(error);
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<FileVersion> {
    let stamp = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), inode(&metadata)))
    };
    files.iter().map(|path| FileVersion(stamp(path))).collect()
}

#[cfg(unix)]
fn inode(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> u64 {
    0
}

/// Reads a regular file of at most 16 MiB. A pipe could keep the caller waiting for ever.
///
/// # Errors
/// If it is something else, or cannot be read.
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = Vec::new();
    let read = fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if read as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(path: &Path) -> FromFiles<u64> {
        let from = path.to_owned();
        let read = move || {
            let text = read_regular(&from).map_err(|error| error.to_string())?;
            let number =
                String::from_utf8_lossy(&text).trim().parse().map_err(|_| "not a number".to_owned())?;
            Ok(Arc::new(number))
        };
        FromFiles::read(vec![path.to_owned()], read, String::clone).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_13_a_changed_file_is_read_again_within_a_second_and_a_broken_one_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("number");
        fs::write(&path, "1").unwrap();
        let number = numbers(&path);
        fs::write(&path, "22").unwrap();
        assert_eq!(*number.current(), 1, "it was read just now");
        tokio::time::advance(RECHECK).await;
        assert_eq!(*number.current(), 22);
        fs::write(&path, "twenty").unwrap();
        assert_eq!(number.refresh(), Err("not a number".to_owned()));
        assert_eq!(*number.current(), 22);
        fs::remove_file(&path).unwrap();
        assert!(number.refresh().is_err());
        assert_eq!(*number.current(), 22);
        // Replaced by another file, as tools for renewal do it.
        let next = home.path().join("next");
        fs::write(&next, "33").unwrap();
        fs::rename(&next, &path).unwrap();
        assert_eq!(number.refresh(), Ok(()));
        assert_eq!(*number.current(), 33);
    }

    #[test]
    fn a_15_only_regular_files_are_read() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe, home.path().to_owned(), "/dev/zero".into()] {
            let (done, is_done) = std::sync::mpsc::channel();
            let shown = path.display().to_string();
            // What it must not do is wait for ever.
            std::thread::spawn(move || done.send(read_regular(&path).map(drop)));
            let result = is_done.recv_timeout(Duration::from_secs(20)).expect("it waits");
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{shown}");
        }
    }
}
