//! The authority on disk.
//!
//! Key and certificate live together in one file, which appears whole or not at all, so that two processes which start
//! at once end up with the same authority and a crash leaves no key without its certificate. The public certificate is
//! copied beside it, for clients to be pointed at.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, Permissions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use rcgen::KeyPair;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tempfile::NamedTempFile;

use super::{AuthorityError, Material};
use crate::tls::roots;

const SECRET_FILE: &str = "ca-key.pem";
const PUBLIC_FILE: &str = "ca.pem";

/// Where the authority and other data live: `ACONITE_DATA_DIR`, else `aconite` below `XDG_DATA_HOME`, else
/// `~/.local/share/aconite` (XDG Base Directory Specification 0.8; relative paths there are to be ignored).
///
/// `variable` looks up an environment variable. `None` when none of them, nor `HOME`, is set.
pub fn default_data_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("ACONITE_DATA_DIR")
        .or_else(|| path("XDG_DATA_HOME").filter(|base| base.is_absolute()).map(|base| base.join("aconite")))
        .or_else(|| path("HOME").map(|home| home.join(".local/share/aconite")))
}

/// The file in `data_dir` that holds the public certificate, PEM.
#[must_use]
pub fn certificate_path(data_dir: &Path) -> PathBuf {
    data_dir.join(PUBLIC_FILE)
}

/// Loads the authority, or makes it when there is none.
pub(super) fn load_or_create(
    data_dir: &Path,
    create: impl FnOnce() -> Result<Material, AuthorityError>,
) -> Result<Material, AuthorityError> {
    let secret = data_dir.join(SECRET_FILE);
    let material = match read(&secret)? {
        Some(found) => found,
        None => {
            let made = create()?;
            make_dir(data_dir)?;
            match temporary(data_dir, &secret_text(&made))?.persist_noclobber(&secret) {
                Ok(_) => made,
                // Another process was quicker: its authority counts.
                Err(lost) if lost.error.kind() == ErrorKind::AlreadyExists => {
                    read(&secret)?.ok_or_else(|| io_error(&secret, lost.error))?
                }
                Err(failed) => return Err(io_error(&secret, failed.error)),
            }
        }
    };
    publish(data_dir, &material.certificate)?;
    Ok(material)
}

/// Puts `material` in the place of whatever authority there was.
pub(super) fn replace(data_dir: &Path, material: &Material) -> Result<(), AuthorityError> {
    make_dir(data_dir)?;
    let secret = data_dir.join(SECRET_FILE);
    temporary(data_dir, &secret_text(material))?
        .persist(&secret)
        .map_err(|failed| io_error(&secret, failed.error))?;
    publish(data_dir, &material.certificate)
}

fn read(secret: &Path) -> Result<Option<Material>, AuthorityError> {
    let text = match fs::read(secret) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(secret, error)),
    };
    warn_if_exposed(secret);
    let malformed = |reason: String| AuthorityError::Malformed { path: secret.to_owned(), reason };
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| malformed(error.to_string()))?;
    let key = KeyPair::try_from(&key).map_err(|error| malformed(error.to_string()))?;
    let certificate = CertificateDer::from_pem_slice(&text).map_err(|error| malformed(error.to_string()))?;
    Ok(Some(Material { key, certificate }))
}

/// Keeps the public copy equal to the authority in use. Nothing is written when it is, so a read-only directory will do.
fn publish(data_dir: &Path, certificate: &CertificateDer<'_>) -> Result<(), AuthorityError> {
    let path = certificate_path(data_dir);
    let text = roots::pem([certificate]);
    if fs::read(&path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    let file = temporary(data_dir, &text)?;
    allow_all_to_read(file.path()).map_err(|error| io_error(&path, error))?;
    file.persist(&path).map_err(|failed| io_error(&path, failed.error))?;
    Ok(())
}

/// A complete file of mode 0600 in `data_dir`, not yet under its name; gone again if it is never given one.
fn temporary(data_dir: &Path, text: &str) -> Result<NamedTempFile, AuthorityError> {
    let write = || {
        let mut file = NamedTempFile::new_in(data_dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|error| io_error(data_dir, error))
}

fn secret_text(material: &Material) -> String {
    material.key.serialize_pem() + &roots::pem([&material.certificate])
}

fn make_dir(data_dir: &Path) -> Result<(), AuthorityError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(data_dir).map_err(|error| io_error(data_dir, error))
}

#[cfg(unix)]
fn allow_all_to_read(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn allow_all_to_read(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A key mounted from elsewhere may have to be readable by a group, so this is not an error.
#[cfg(unix)]
fn warn_if_exposed(secret: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata(secret).is_ok_and(|file| file.mode() & 0o077 != 0) {
        tracing::warn!(path = %secret.display(), "others can read the private key of the local CA");
    }
}

#[cfg(not(unix))]
fn warn_if_exposed(_: &Path) {}

fn io_error(path: &Path, source: io::Error) -> AuthorityError {
    AuthorityError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Barrier, thread};

    use rcgen::PublicKeyData as _;
    use time::{Duration, OffsetDateTime};

    use super::*;
    use crate::tls::authority::Authority;

    fn days_ago(days: i64) -> Material {
        Material::new(OffsetDateTime::now_utc() - Duration::days(days)).unwrap()
    }

    #[test]
    fn the_second_start_finds_what_the_first_made() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("deep/aconite");
        let first = Authority::load_or_create(&home).unwrap();
        let second = Authority::load_or_create(&home).unwrap();
        assert_eq!(first.certificate(), second.certificate());
        assert_eq!(fs::read_to_string(certificate_path(&home)).unwrap(), first.pem());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_key() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("aconite");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for make in [Authority::load_or_create, Authority::rotate] {
            make(&home).unwrap();
            assert_eq!(mode(&home), 0o700);
            assert_eq!(mode(&home.join(SECRET_FILE)), 0o600);
            assert_eq!(mode(&certificate_path(&home)), 0o644);
        }
        let names: HashSet<_> =
            fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [SECRET_FILE, PUBLIC_FILE].map(OsString::from).into());
    }

    #[test]
    fn those_who_start_at_once_get_one_authority() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("aconite");
            let line = Barrier::new(8);
            let seen: HashSet<_> = thread::scope(|scope| {
                let start = || {
                    // All have made a key of their own before the first one writes.
                    load_or_create(&home, || {
                        let made = days_ago(0);
                        line.wait();
                        Ok(made)
                    })
                };
                let all: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
                all.into_iter()
                    .map(|one| {
                        let found = one.join().unwrap().unwrap();
                        (found.certificate.to_vec(), found.key.subject_public_key_info())
                    })
                    .collect()
            });
            assert_eq!(seen.len(), 1);
        }
    }

    #[test]
    fn rotation_replaces_key_and_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let old = Authority::load_or_create(dir.path()).unwrap();
        let new = Authority::rotate(dir.path()).unwrap();
        let loaded = Authority::load_or_create(dir.path()).unwrap();
        assert_ne!(old.certificate(), new.certificate());
        assert_eq!(new.certificate(), loaded.certificate());
        assert_eq!(fs::read_to_string(certificate_path(dir.path())).unwrap(), new.pem());
    }

    #[test]
    fn a_stale_public_copy_is_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::load_or_create(dir.path()).unwrap();
        for stale in [Some("something else"), None] {
            let copy = certificate_path(dir.path());
            match stale {
                Some(text) => fs::write(&copy, text).unwrap(),
                None => fs::remove_file(&copy).unwrap(),
            }
            Authority::load_or_create(dir.path()).unwrap();
            assert_eq!(fs::read_to_string(&copy).unwrap(), authority.pem());
        }
    }

    #[test]
    fn damaged_files_are_reported_and_left_alone() {
        let good = days_ago(0);
        let other = days_ago(0);
        let key_alone = good.key.serialize_pem();
        let mismatch = key_alone.clone() + &roots::pem([&other.certificate]);
        for damaged in ["", "garbage", &key_alone, &mismatch] {
            let dir = tempfile::tempdir().unwrap();
            let secret = dir.path().join(SECRET_FILE);
            fs::write(&secret, damaged).unwrap();
            let refused = Authority::load_or_create(dir.path());
            assert!(matches!(refused, Err(AuthorityError::Malformed { .. })), "{damaged}");
            assert_eq!(fs::read_to_string(&secret).unwrap(), damaged);
        }
    }

    #[test]
    fn an_expired_authority_says_how_to_go_on() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), &days_ago(370)).unwrap();
        let refused = Authority::load_or_create(dir.path()).unwrap_err();
        assert!(matches!(refused, AuthorityError::Expired { .. }));
        assert!(refused.to_string().contains("aconite ca rotate"));
        Authority::rotate(dir.path()).unwrap();
        Authority::load_or_create(dir.path()).unwrap();
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = Authority::load_or_create(&file.join("aconite"));
        assert!(matches!(refused, Err(AuthorityError::Io { .. })));
    }

    #[test]
    fn data_directory_follows_the_environment() {
        let directory = |set: &[(&str, &str)]| {
            default_data_dir(|name| {
                let (_, value) = set.iter().find(|(known, _)| *known == name)?;
                Some(OsString::from(value))
            })
        };
        let own = ("ACONITE_DATA_DIR", "here");
        let xdg = ("XDG_DATA_HOME", "/data");
        let home = ("HOME", "/home/me");
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(directory(&[own, xdg, home]), at("here"));
        assert_eq!(directory(&[xdg, home]), at("/data/aconite"));
        assert_eq!(directory(&[home]), at("/home/me/.local/share/aconite"));
        let relative = ("XDG_DATA_HOME", "data");
        let empty = ("ACONITE_DATA_DIR", "");
        assert_eq!(directory(&[empty, relative, home]), at("/home/me/.local/share/aconite"));
        assert_eq!(directory(&[]), None);
    }
}
