//! Certificates and keys from files that the user names.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    sign::CertifiedKey,
};

use super::{files::read_regular, provider};

/// A certificate or key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not PEM, or holds a damaged block.
    #[error("`{path}` is not a valid PEM file")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// The file holds no certificate.
    #[error("`{0}` holds no certificate")]
    NoCertificate(PathBuf),
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("the key in `{key}` does not work with the certificate in `{cert}`")]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// Reads a chain, the own certificate first, and its private key (PKCS#8, SEC 1 or PKCS#1), both PEM.
///
/// Both may be the same file.
///
/// # Errors
/// See [`IdentityError`].
pub fn read(cert: &Path, key: &Path) -> Result<Arc<CertifiedKey>, IdentityError> {
    let chain = certificates(cert)?;
    let text = read_file(key)?;
    let private = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|source| IdentityError::Pem { path: key.to_owned(), source })?;
    CertifiedKey::from_der(chain, private, &provider())
        .map(Arc::new)
        .map_err(|source| IdentityError::Unusable { cert: cert.to_owned(), key: key.to_owned(), source })
}

/// Reads all certificates of a PEM file.
///
/// # Errors
/// When the file cannot be read, holds a damaged block, or no certificate at all.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let text = read_file(path)?;
    let found = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| IdentityError::Pem { path: path.to_owned(), source })?;
    if found.is_empty() {
        return Err(IdentityError::NoCertificate(path.to_owned()));
    }
    Ok(found)
}

fn read_file(path: &Path) -> Result<Vec<u8>, IdentityError> {
    read_regular(path).map_err(|source| IdentityError::Read { path: path.to_owned(), source })
}
