//! The roots that this machine trusts, and the forms in which they are handed on together with our own.

use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::CertificateDer;

/// The password of a trust store is not a secret, as all that is inside is public; Java insists on one.
pub const TRUST_STORE_PASSWORD: &str = "changeit";

/// The trust store could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write a PKCS#12 trust store")]
pub struct TrustStoreError(#[source] p12_keystore::error::Error);

/// The roots of the system, or, when `SSL_CERT_FILE` or `SSL_CERT_DIR` is set, what those name in their stead.
///
/// Files that cannot be read are logged and left out: a damaged root must not keep the others from being trusted.
#[must_use]
pub fn system() -> Vec<CertificateDer<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "cannot read a trusted root");
    }
    if found.certs.is_empty() {
        tracing::warn!("no trusted roots found on this system");
    }
    found.certs
}

/// `own` and the roots that this machine trusts, PEM: for clients whose setting replaces their own roots.
#[must_use]
pub fn bundle_pem(own: &CertificateDer<'_>) -> String {
    pem(others(own).iter().chain([own]))
}

/// The same as a PKCS#12 trust store, for Java.
///
/// # Errors
/// When the password cannot be encoded.
pub fn pkcs12(own: &CertificateDer<'_>, password: &str) -> Result<Vec<u8>, TrustStoreError> {
    trust_store(own, &others(own), password)
}

/// The system's roots without `own`, should `SSL_CERT_FILE` already name a bundle of ours.
fn others(own: &CertificateDer<'_>) -> Vec<CertificateDer<'static>> {
    let mut found = system();
    found.retain(|root| root != own);
    found
}

/// Writes certificates one after the other as PEM (RFC 7468).
pub(super) fn pem<'a>(certificates: impl IntoIterator<Item = &'a CertificateDer<'a>>) -> String {
    // OpenSSL and its kin write line feeds alone, whatever the platform.
    let style = EncodeConfig::new().set_line_ending(LineEnding::LF);
    certificates
        .into_iter()
        .map(|der| pem::encode_config(&Pem::new("CERTIFICATE", der.to_vec()), style))
        .collect()
}

/// Writes a trust store that Java 8u301 and later read: `own` under the alias `aconite`, the others numbered.
fn trust_store(
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    password: &str,
) -> Result<Vec<u8>, TrustStoreError> {
    use p12_keystore::{Certificate, KeyStore, KeyStoreEntry};
    let mut store = KeyStore::new();
    let own_entry = Certificate::from_der(own).map_err(TrustStoreError)?;
    store.add_entry("aconite", KeyStoreEntry::Certificate(own_entry));
    for (number, root) in others.iter().enumerate() {
        match Certificate::from_der(root) {
            Ok(entry) => {
                store.add_entry(&format!("root-{number:03}"), KeyStoreEntry::Certificate(entry));
            }
            Err(error) => tracing::warn!(%error, "a trusted root is left out of the trust store"),
        }
    }
    store.writer(password).write().map_err(TrustStoreError)
}
