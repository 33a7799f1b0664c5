//! What our certificates look like. Shaped by RFC 5280 and by the strict checks of Python 3.13 and OpenSSL's
//! `-x509_strict`: key identifiers on both levels, critical constraints, a serial number of 128 random bits.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use rustls::pki_types::ServerName;
use time::{Duration, OffsetDateTime};

use crate::tls::provider;

/// How far certificates reach into the past, for clients whose clock is behind ours.
const BACKDATE: Duration = Duration::DAY;
/// The authority's life, counted from its backdated beginning.
const AUTHORITY_LIFE: Duration = Duration::days(365);
/// A leaf's life from now on: with the backdating it stays below 30 days.
const LEAF_LIFE: Duration = Duration::days(28);
/// A common name may have 64 characters (RFC 5280, appendix A.1: ub-common-name). Clients look at the alternative name.
const COMMON_NAME_LIMIT: usize = 64;

/// The time in which a certificate is valid.
#[derive(Clone, Copy)]
pub(super) struct Validity {
    pub(super) from: OffsetDateTime,
    pub(super) until: OffsetDateTime,
}

impl Validity {
    /// A leaf's, never longer than that of its issuer.
    pub(super) fn leaf(now: OffsetDateTime, issuer: Self) -> Self {
        Self { from: (now - BACKDATE).max(issuer.from), until: (now + LEAF_LIFE).min(issuer.until) }
    }

    /// One that has been over for a day.
    pub(super) fn past(now: OffsetDateTime) -> Self {
        Self { from: now - LEAF_LIFE, until: now - Duration::DAY }
    }
}

/// A new ECDSA P-256 key.
pub(super) fn key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

/// A self-signed authority that may sign leaves and nothing else.
pub(super) fn authority(
    common_name: &str,
    key: &KeyPair,
    now: OffsetDateTime,
) -> Result<Certificate, rcgen::Error> {
    let from = now - BACKDATE;
    let mut params = CertificateParams::default();
    params.not_before = from;
    params.not_after = from + AUTHORITY_LIFE;
    params.serial_number = Some(serial()?);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Aconite");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.self_signed(key)
}

/// A server certificate for one host.
pub(super) fn leaf(
    host: &ServerName<'_>,
    key: &KeyPair,
    issuer: &Issuer<'_, KeyPair>,
    validity: Validity,
) -> Result<Certificate, rcgen::Error> {
    let name = host.to_str();
    let mut params = CertificateParams::default();
    params.not_before = validity.from;
    params.not_after = validity.until;
    params.serial_number = Some(serial()?);
    params.subject_alt_names = vec![match host {
        ServerName::IpAddress(address) => SanType::IpAddress(IpAddr::from(*address)),
        _ => SanType::DnsName(name.as_ref().try_into()?),
    }];
    params.distinguished_name = DistinguishedName::new();
    let common_name = if name.len() <= COMMON_NAME_LIMIT { name.as_ref() } else { "Aconite leaf" };
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params.signed_by(key, issuer)
}

/// Random bytes from the system.
pub(super) fn random<const N: usize>() -> Result<[u8; N], rcgen::Error> {
    let mut bytes = [0; N];
    provider().secure_random.fill(&mut bytes).map_err(|_| rcgen::Error::RingUnspecified)?;
    Ok(bytes)
}

/// A positive serial number without leading zeros, as DER wants it (RFC 5280, section 4.1.2.2).
fn serial() -> Result<SerialNumber, rcgen::Error> {
    let mut bytes = random::<16>()?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
