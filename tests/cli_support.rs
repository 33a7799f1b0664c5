//! The real executable, started in an environment of its own.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::GUARD;

/// A command of the executable with no environment but a home of its own.
pub(crate) fn aconite(home: &Path) -> Command {
    named("aconite", home)
}

/// The executable under another name.
pub(crate) fn named(name: &str, home: &Path) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(env!("CARGO_BIN_EXE_aconite"));
    command
        .arg0(name)
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let home = TempDir::new().unwrap();
    aconite(home.path()).args(arguments).output().unwrap()
}

/// Runs a command that has to end by itself, without much output.
pub(crate) fn ending(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + GUARD;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it does not end: {}", stderr(&child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts that a command went well, and gives what it printed.
#[track_caller]
pub(crate) fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{:?}: {}", output.status, stderr(output));
    stdout(output)
}

/// A file in a directory.
pub(crate) fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A running `aconite serve`. Killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) home: TempDir,
    /// What it said when all listened: `admin`, `proxies`, `seed`, `pid`.
    pub(crate) addresses: Value,
    log: Arc<(Mutex<String>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Started with an admin API on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let home = TempDir::new().unwrap();
        let mut command = aconite(home.path());
        command.args(["serve", "--admin", "127.0.0.1:0"]).args(arguments);
        Self::from(command, home)
    }

    /// Started by a command; back when it says that it listens.
    pub(crate) fn from(mut command: Command, home: TempDir) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let addresses = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended: {said}");
            said.push_str(&line);
            let json: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("a log line is JSON: {line}"));
            if let Some(addresses) = json["addresses"].as_str() {
                break serde_json::from_str(addresses).unwrap();
            }
        };
        let log = Arc::new((Mutex::new(said), Condvar::new()));
        let sink = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                sink.0.lock().unwrap().push_str(&line);
                sink.1.notify_all();
                line.clear();
            }
        });
        Self { child, home, addresses, log, reader: Some(reader) }
    }

    pub(crate) fn admin(&self) -> &str {
        self.addresses["admin"].as_str().unwrap()
    }

    /// The address of a proxy, as it was when the server started.
    pub(crate) fn proxy(&self, name: &str) -> &str {
        self.addresses["proxies"][name].as_str().unwrap()
    }

    /// A command that talks to this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = aconite(self.home.path());
        command.env("ACONITE_URL", format!("http://{}", self.admin())).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it has logged a text.
    #[track_caller]
    pub(crate) fn logged(&self, text: &str) {
        let (log, grown) = &*self.log;
        let patience = Duration::from_secs(20);
        let waiting = |log: &mut String| !log.contains(text);
        let (log, waited) = grown.wait_timeout_while(log.lock().unwrap(), patience, waiting).unwrap();
        assert!(
            !waited.timed_out(),
            "not logged: {text}
{log}"
        );
    }

    /// Waits until it has logged a text; the line that has it.
    #[track_caller]
    pub(crate) fn line(&self, text: &str) -> String {
        self.logged(text);
        let log = self.log.0.lock().unwrap();
        log.lines().find(|line| line.contains(text)).unwrap().to_owned()
    }

    /// Waits until it has ended; gives its exit code and all that it logged.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let log = self.log.0.lock().unwrap().clone();
        (status.code(), log)
    }

    /// One of the kernel's figures of its memory, in bytes: `VmRSS` now, `VmHWM` at its peak.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self, figure: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    /// How many files it has open.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The answer's status and body to a plain request.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> (u16, String) {
        request(self.admin(), method, path, headers)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer's status and body to a plain request.
pub(crate) fn request(address: &str, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GUARD)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
