//! The files by which programs come to trust the local CA.
use std::{
    io::Write,
    path::{Path, PathBuf},
};

use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::CommandError;
use crate::tls::roots;

/// Where they are.
#[derive(Clone, Debug)]
pub(super) struct TrustFiles {
    /// The CA alone, PEM.
    pub(super) ca: PathBuf,
    /// The CA and the system's roots, PEM.
    pub(super) bundle: PathBuf,
    /// The same as a PKCS#12 trust store.
    pub(super) store: PathBuf,
}

impl TrustFiles {
    /// Writes them for a CA, below the data directory, each CA's apart from those of others.
    ///
    /// # Errors
    /// If the PEM is none, or the files cannot be written.
    pub(super) fn write(data_dir: &Path, ca_pem: &str) -> Result<Self, CommandError> {
        let own = CertificateDer::from_pem_slice(ca_pem.as_bytes())
            .map_err(|error| CommandError::because("the CA's certificate is no PEM", &error))?;
        // The signature's last bytes are as good as random.
        let tail = own.iter().rev().take(4).map(|byte| format!("{byte:02x}")).collect::<String>();
        let directory = data_dir.join("trust").join(tail);
        let failed = |error: &dyn std::error::Error| {
            CommandError::because(format!("cannot write trust files to `{}`", directory.display()), error)
        };
        std::fs::create_dir_all(&directory).map_err(|error| failed(&error))?;
        let store = roots::pkcs12(&own, roots::TRUST_STORE_PASSWORD).map_err(|error| failed(&error))?;
        let put = |name: &str, content: &[u8]| {
            let path = directory.join(name);
            write_whole(&path, content).map(|()| path).map_err(|error| failed(&error))
        };
        Ok(Self {
            ca: put("ca.pem", ca_pem.as_bytes())?,
            bundle: put("bundle.pem", roots::bundle_pem(&own).as_bytes())?,
            store: put("trust.p12", &store)?,
        })
    }
}

/// Writes a file of public content. A reader sees the whole file or the one before.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path)?;
    Ok(())
}
