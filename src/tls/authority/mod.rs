//! The local certificate authority: made at first use, kept in the data directory, minting a certificate for any host
//! that a client asks for.

mod cache;
mod mint;
mod store;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use rcgen::{Issuer, KeyPair, PublicKeyData as _};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SigningKey},
};
use time::{Duration, OffsetDateTime};

pub use self::store::{certificate_path, default_data_dir};
use self::{cache::Cache, mint::Validity};
use super::{
    host::{self, BadHost},
    provider,
    roots::{self, TrustStoreError},
};

/// How many leaves are remembered. One takes about 1 KiB.
const CACHED_LEAVES: usize = 4096;
/// How long a leaf is handed out before a new one takes its place: well within its own life.
const REUSE: Duration = Duration::days(7);

/// The authority cannot be loaded or made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be read or written.
    #[error("cannot access `{path}`")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is invalid an authority.
    #[error("`{path}` holds no usable certificate authority: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The authority's year is over.
    #[error("the local CA in `{path}` expired at {since}; make a new one with `aconite ca rotate`")]
    Expired {
        /// The data directory.
        path: PathBuf,
        /// The end of its life.
        since: OffsetDateTime,
    },
    /// A certificate cannot be made.
    #[error("cannot make the certificate of the local CA")]
    Mint(#[from] rcgen::Error),
    /// The provider refuses the key that was made for leaves.
    #[error("cannot use the key for leaf certificates")]
    Key(#[from] rustls::Error),
}

/// A leaf cannot be minted.
#[derive(Debug, thiserror::Error)]
pub enum LeafError {
    /// The host cannot be named in a certificate.
    #[error(transparent)]
    Host(#[from] BadHost),
    /// The authority's year ended while the process was running.
    #[error("the local CA expired at {0}; make a new one with `aconite ca rotate`")]
    Expired(OffsetDateTime),
    /// The certificate cannot be made.
    #[error("cannot mint a certificate")]
    Mint(#[from] rcgen::Error),
}

/// The local certificate authority.
///
/// All leaves of a process share one key, so that minting one costs a single signature.
pub struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    validity: Validity,
    issuer: Issuer<'static, KeyPair>,
    /// Signs what no client shall trust. Its certificate exists nowhere.
    stranger: Issuer<'static, KeyPair>,
    leaf_key: KeyPair,
    leaf_signer: Arc<dyn SigningKey>,
    leaves: Mutex<Cache<(Flavour, ServerName<'static>), Leaf>>,
}

/// What is stored of an authority.
struct Material {
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

#[derive(Clone, Copy, Eq, Hash, PartialEq)]
enum Flavour {
    Good,
    Expired,
    Untrusted,
}

#[derive(Clone)]
struct Leaf {
    key: Arc<CertifiedKey>,
    reuse_until: OffsetDateTime,
}

impl Authority {
    /// Loads the authority in `data_dir`, or makes it there at first use: directory 0700, key file 0600.
    ///
    /// Any number of processes may do so at once: all get the same authority.
    ///
    /// # Errors
    /// When files cannot be accessed, are damaged, or the authority has expired.
    pub fn load_or_create(data_dir: &Path) -> Result<Self, AuthorityError> {
        let now = OffsetDateTime::now_utc();
        let material = store::load_or_create(data_dir, || Material::new(now))?;
        Self::from_stored(material, data_dir, now)
    }

    /// Makes a new authority in `data_dir` in place of the present one. Clients have to be told to trust it.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn rotate(data_dir: &Path) -> Result<Self, AuthorityError> {
        let now = OffsetDateTime::now_utc();
        let material = Material::new(now)?;
        store::replace(data_dir, &material)?;
        Self::from_stored(material, data_dir, now)
    }

    /// An authority that lives as long as this value.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn in_memory() -> Result<Self, AuthorityError> {
        let now = OffsetDateTime::now_utc();
        Self::from_stored(Material::new(now)?, Path::new("memory"), now)
    }

    /// The public certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The public certificate, DER.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The end of the authority's life.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        self.validity.until.into()
    }

    /// The roots that this machine trusts and ours, PEM: for clients whose setting replaces their own roots.
    #[must_use]
    pub fn bundle_pem(&self) -> String {
        roots::bundle_pem(&self.certificate)
    }

    /// The same as a PKCS#12 trust store, for Java.
    ///
    /// # Errors
    /// When the password cannot be encoded.
    pub fn pkcs12(&self, password: &str) -> Result<Vec<u8>, TrustStoreError> {
        roots::pkcs12(&self.certificate, password)
    }

    /// A certificate for `host`, from the cache or newly minted: a DNS name (Unicode or A-label) or an IP address.
    ///
    /// # Errors
    /// When the host has no valid form, or the authority has expired.
    pub fn leaf(&self, host: &str) -> Result<Arc<CertifiedKey>, LeafError> {
        self.find_or_mint(Flavour::Good, host, OffsetDateTime::now_utc())
    }

    /// Like [`Self::leaf`], but its life ended a day ago.
    ///
    /// # Errors
    /// When the host has no valid form.
    pub fn leaf_expired(&self, host: &str) -> Result<Arc<CertifiedKey>, LeafError> {
        self.find_or_mint(Flavour::Expired, host, OffsetDateTime::now_utc())
    }

    /// Like [`Self::leaf`], but from an authority that nobody knows.
    ///
    /// # Errors
    /// When the host has no valid form.
    pub fn leaf_untrusted(&self, host: &str) -> Result<Arc<CertifiedKey>, LeafError> {
        self.find_or_mint(Flavour::Untrusted, host, OffsetDateTime::now_utc())
    }

    fn from_stored(material: Material, data_dir: &Path, now: OffsetDateTime) -> Result<Self, AuthorityError> {
        let malformed =
            |reason: &str| AuthorityError::Malformed { path: data_dir.to_owned(), reason: reason.to_owned() };
        let Material { key, certificate } = material;
        let validity = {
            let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)
                .map_err(|error| malformed(&error.to_string()))?;
            if parsed.public_key().raw != key.subject_public_key_info() {
                return Err(malformed("key and certificate do not belong together"));
            }
            if !parsed.is_ca() {
                return Err(malformed("the certificate is not that of an authority"));
            }
            Validity {
                from: parsed.validity().not_before.to_datetime(),
                until: parsed.validity().not_after.to_datetime(),
            }
        };
        if validity.until <= now {
            return Err(AuthorityError::Expired { path: data_dir.to_owned(), since: validity.until });
        }
        let stranger = Material::new(now)?;
        let leaf_key = mint::key()?;
        let leaf_der = PrivateKeyDer::Pkcs8(leaf_key.serialize_der().into());
        Ok(Self {
            pem: roots::pem([&certificate]),
            validity,
            issuer: Issuer::from_ca_cert_der(&certificate, key)?,
            stranger: Issuer::from_ca_cert_der(&stranger.certificate, stranger.key)?,
            leaf_signer: provider().key_provider.load_private_key(leaf_der)?,
            leaf_key,
            leaves: Mutex::new(Cache::new(CACHED_LEAVES)),
            certificate,
        })
    }

    fn find_or_mint(
        &self,
        flavour: Flavour,
        host: &str,
        now: OffsetDateTime,
    ) -> Result<Arc<CertifiedKey>, LeafError> {
        let slot = (flavour, host::parse(host)?);
        let found = self.lock_leaves().find(&slot);
        if let Some(leaf) = found.filter(|leaf| now < leaf.reuse_until) {
            return Ok(leaf.key);
        }
        // Not under the lock: others need not wait for a signature, and minting one name twice does no harm.
        let leaf = self.mint(flavour, &slot.1, now)?;
        let key = Arc::clone(&leaf.key);
        self.lock_leaves().insert(slot, leaf);
        Ok(key)
    }

    fn mint(
        &self,
        flavour: Flavour,
        host: &ServerName<'static>,
        now: OffsetDateTime,
    ) -> Result<Leaf, LeafError> {
        let (issuer, validity) = match flavour {
            Flavour::Good if self.validity.until <= now => {
                return Err(LeafError::Expired(self.validity.until));
            }
            Flavour::Good => (&self.issuer, Validity::leaf(now, self.validity)),
            Flavour::Untrusted => (&self.stranger, Validity::leaf(now, self.validity)),
            Flavour::Expired => (&self.issuer, Validity::past(now)),
        };
        let certificate = mint::leaf(host, &self.leaf_key, issuer, validity)?;
        Ok(Leaf {
            key: Arc::new(CertifiedKey::new(vec![certificate.into()], Arc::clone(&self.leaf_signer))),
            reuse_until: match flavour {
                Flavour::Expired => now + REUSE,
                Flavour::Good | Flavour::Untrusted => validity.until.min(now + REUSE),
            },
        })
    }

    fn lock_leaves(&self) -> std::sync::MutexGuard<'_, Cache<(Flavour, ServerName<'static>), Leaf>> {
        // The cache is whole between any two of its operations, so a panic elsewhere does not spoil it.
        self.leaves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Authority {
    /// Says which authority it is, and never a key.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authority").field("expires", &self.validity.until).finish_non_exhaustive()
    }
}

impl Material {
    fn new(now: OffsetDateTime) -> Result<Self, AuthorityError> {
        let key = mint::key()?;
        // The suffix tells authorities apart in a client's list, and after a rotation in its error messages.
        let [a, b, c] = mint::random()?;
        let name = format!("Aconite local CA {a:02x}{b:02x}{c:02x}");
        let certificate = mint::authority(&name, &key, now)?.into();
        Ok(Self { key, certificate })
    }
}

#[cfg(test)]
mod tests;
