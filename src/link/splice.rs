//! Moving bytes between sockets through a pipe, inside the kernel.
#[cfg(target_os = "linux")]
pub(super) use linux::Conduit;
#[cfg(not(target_os = "linux"))]
pub(super) use nowhere::Conduit;

#[cfg(target_os = "linux")]
mod linux {
    use std::{cell::RefCell, io, os::fd::OwnedFd};

    use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
    use tokio::{io::Interest, net::TcpStream};

    use crate::files::Use;

    /// What a conduit holds at most, in bytes. Beyond the system's limit it stays at 64 KiB.
    const CAPACITY: usize = 256 * 1024;
    /// Empty conduits that a thread keeps for whoever needs one next.
    const SPARE: usize = 4;

    thread_local! {
        static SPARES: RefCell<Vec<Conduit>> = const { RefCell::new(Vec::new()) };
    }

    /// A pipe with what is on its way through it.
    #[derive(Debug)]
    pub(in crate::link) struct Conduit {
        exit: OwnedFd,
        entry: OwnedFd,
        held: usize,
    }

    impl Conduit {
        /// An empty one.
        pub(in crate::link) fn take() -> io::Result<Self> {
            if let Some(spare) = SPARES.with_borrow_mut(Vec::pop) {
                return Ok(spare);
            }
            let (exit, entry) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            let entry = Use::Upstream.check(entry)?;
            // A smaller one works too.
            let _ = fcntl_setpipe_size(&entry, CAPACITY);
            Ok(Self { exit, entry, held: 0 })
        }

        /// Lets others use it if it is empty.
        pub(in crate::link) fn give_back(self) {
            SPARES.with_borrow_mut(|spares| {
                if self.held == 0 && spares.len() < SPARE {
                    spares.push(self);
                }
            });
        }

        pub(in crate::link) fn is_empty(&self) -> bool {
            self.held == 0
        }

        /// Takes in what a socket has received; 0 at its end. To be called only while empty:
        /// else "would block" may mean that the pipe is full.
        pub(in crate::link) fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let bytes = from
                .try_io(Interest::READABLE, || Ok(splice(from, None, &self.entry, None, CAPACITY, flags)?))?;
            self.held += bytes;
            Ok(bytes)
        }

        /// Sends what it holds, or a part.
        pub(in crate::link) fn drain(&mut self, to: &TcpStream) -> io::Result<usize> {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let bytes =
                to.try_io(Interest::WRITABLE, || Ok(splice(&self.exit, None, to, None, self.held, flags)?))?;
            self.held -= bytes;
            Ok(bytes)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use std::{convert::Infallible, io};

    use tokio::net::TcpStream;

    /// There is none on this system.
    #[derive(Debug)]
    pub(in crate::link) struct Conduit(Infallible);

    impl Conduit {
        pub(in crate::link) fn take() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in crate::link) fn give_back(self) {
            match self.0 {}
        }

        pub(in crate::link) fn is_empty(&self) -> bool {
            match self.0 {}
        }

        pub(in crate::link) fn fill(&mut self, _: &TcpStream) -> io::Result<usize> {
            match self.0 {}
        }

        pub(in crate::link) fn drain(&mut self, _: &TcpStream) -> io::Result<usize> {
            match self.0 {}
        }
    }
}
