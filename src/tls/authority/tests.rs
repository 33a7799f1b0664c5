use std::{collections::HashSet, fs, process::Command, thread};

use rustls::pki_types::pem::PemObject as _;
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    prelude::{FromDer as _, X509Certificate},
};

use super::*;

/// What a certificate says, in the few words that these tests compare.
struct Facts {
    names: Vec<String>,
    common_name: String,
    serial: Vec<u8>,
    from: OffsetDateTime,
    until: OffsetDateTime,
    /// `OID critical` of every extension.
    extensions: HashSet<String>,
    authority: bool,
    path_length: Option<u32>,
    key_usage: u16,
    server_auth: bool,
    subject_key_id: Vec<u8>,
    authority_key_id: Vec<u8>,
}

fn facts(der: &[u8]) -> Facts {
    let (rest, certificate) = X509Certificate::from_der(der).unwrap();
    assert!(rest.is_empty());
    let constraints = certificate.basic_constraints().unwrap().unwrap();
    let mut facts = Facts {
        names: Vec::new(),
        common_name: certificate.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned(),
        serial: certificate.raw_serial().to_vec(),
        from: certificate.validity().not_before.to_datetime(),
        until: certificate.validity().not_after.to_datetime(),
        extensions: HashSet::new(),
        authority: constraints.value.ca,
        path_length: constraints.value.path_len_constraint,
        key_usage: certificate.key_usage().unwrap().unwrap().value.flags,
        server_auth: certificate.extended_key_usage().unwrap().is_some_and(|usage| usage.value.server_auth),
        subject_key_id: Vec::new(),
        authority_key_id: Vec::new(),
    };
    for extension in certificate.extensions() {
        facts.extensions.insert(format!("{} {}", extension.oid, extension.critical));
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => facts.subject_key_id = id.0.to_vec(),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                facts.authority_key_id = id.key_identifier.as_ref().unwrap().0.to_vec();
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                facts.names = names.general_names.iter().map(spell_name).collect();
            }
            _ => {}
        }
    }
    facts
}

fn spell_name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => format!("dns {name}"),
        GeneralName::IPAddress(octets) => format!("ip {octets:?}"),
        other => format!("{other:?}"),
    }
}

fn leaf_facts(key: &CertifiedKey) -> Facts {
    assert_eq!(key.cert.len(), 1, "the leaf alone");
    facts(&key.cert[0])
}

fn present(program: &str) -> bool {
    let found = Command::new(program).arg("-help").output().is_ok();
    if !found {
        println!("left out: there is no `{program}` here");
    }
    found
}

#[test]
fn tls_01_authority_has_what_strict_clients_want() {
    let authority = Authority::in_memory().unwrap();
    let said = facts(authority.certificate());
    assert!(said.authority);
    assert_eq!(said.path_length, Some(0));
    assert_eq!(said.key_usage, 0b110_0000, "keyCertSign and cRLSign");
    assert_eq!(said.subject_key_id.len(), 20);
    let critical = ["2.5.29.19 true", "2.5.29.15 true", "2.5.29.14 false"];
    assert_eq!(said.extensions, critical.map(str::to_owned).into());
    assert_eq!(said.until - said.from, Duration::days(365));
    let now = OffsetDateTime::now_utc();
    assert!(said.from < now - Duration::hours(23), "{}", said.from);
}

#[test]
fn tls_01_leaf_has_what_strict_clients_want() {
    let authority = Authority::in_memory().unwrap();
    let said = leaf_facts(&authority.leaf("api.example.test").unwrap());
    assert_eq!(said.names, ["dns api.example.test"]);
    assert_eq!(said.common_name, "api.example.test");
    assert!(!said.authority);
    assert_eq!(said.key_usage, 1, "digitalSignature");
    assert!(said.server_auth);
    assert_eq!(said.authority_key_id, facts(authority.certificate()).subject_key_id);
    let now = OffsetDateTime::now_utc();
    assert!(said.from < now - Duration::hours(23));
    assert!(said.until > now + Duration::days(27));
    assert!(said.until - said.from <= Duration::days(30));
}

#[test]
fn serial_numbers_are_random_and_positive() {
    let authority = Authority::in_memory().unwrap();
    let serials: HashSet<_> = (0..50)
        .map(|number| leaf_facts(&authority.leaf(&format!("h{number}.test")).unwrap()).serial)
        .inspect(|serial| {
            assert_eq!(serial.len(), 16);
            assert!((0x40..0x80).contains(&serial[0]), "{serial:?}");
        })
        .collect();
    assert_eq!(serials.len(), 50);
}

#[test]
fn prx_07_addresses_become_address_names() {
    let authority = Authority::in_memory().unwrap();
    let names = |host| leaf_facts(&authority.leaf(host).unwrap()).names;
    assert_eq!(names("203.0.113.52"), ["ip [203, 0, 113, 52]"]);
    assert_eq!(names("[2001:db8::1]"), ["ip [32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]"]);
    assert_eq!(names("::ffff:127.0.0.1"), ["ip [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1]"]);
}

#[test]
fn prx_08_international_names_become_a_labels() {
    let authority = Authority::in_memory().unwrap();
    let unicode = authority.leaf("模型.example.test").unwrap();
    assert_eq!(leaf_facts(&unicode).names, ["dns xn--xgs754b.example.test"]);
    let ascii = authority.leaf("XN--XGS754B.example.test.").unwrap();
    assert!(Arc::ptr_eq(&unicode, &ascii), "one name, one leaf");
}

#[test]
fn names_longer_than_a_common_name_work() {
    let authority = Authority::in_memory().unwrap();
    let long = format!("{}.{}.example.test", "a".repeat(63), "b".repeat(63));
    let said = leaf_facts(&authority.leaf(&long).unwrap());
    assert_eq!(said.names, [format!("dns {long}")]);
    assert_eq!(said.common_name, "Aconite leaf");
}

#[test]
fn leaves_are_remembered_until_they_age() {
    let authority = Authority::in_memory().unwrap();
    let now = OffsetDateTime::now_utc();
    let at = |days| authority.find_or_mint(Flavour::Good, "a.test", now + Duration::days(days)).unwrap();
    let first = at(0);
    assert!(Arc::ptr_eq(&first, &at(6)));
    let second = at(8);
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&second, &at(9)));
}

#[test]
fn no_leaf_outlives_its_authority() {
    let authority = Authority::in_memory().unwrap();
    let end = authority.validity.until;
    let at = |now| authority.find_or_mint(Flavour::Good, "a.test", now);
    let last = at(end - Duration::days(3)).unwrap();
    assert_eq!(leaf_facts(&last).until, end);
    assert!(Arc::ptr_eq(&last, &at(end - Duration::SECOND).unwrap()));
    assert!(matches!(at(end), Err(LeafError::Expired(since)) if since == end));
}

#[test]
fn flavours_do_not_mix() {
    let authority = Authority::in_memory().unwrap();
    let expired = leaf_facts(&authority.leaf_expired("a.test").unwrap());
    let untrusted = leaf_facts(&authority.leaf_untrusted("a.test").unwrap());
    let good = leaf_facts(&authority.leaf("a.test").unwrap());
    let now = OffsetDateTime::now_utc();
    assert!(expired.until < now && expired.from < expired.until);
    assert_eq!(expired.authority_key_id, good.authority_key_id);
    assert_ne!(untrusted.authority_key_id, good.authority_key_id);
    assert!(untrusted.until > now && good.until > now);
}

#[test]
fn hosts_that_are_none_are_refused() {
    let authority = Authority::in_memory().unwrap();
    let refused = authority.leaf("a b");
    assert!(matches!(refused, Err(LeafError::Host(_))));
}

#[test]
fn many_threads_get_leaves_at_once() {
    let authority = Authority::in_memory().unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let authority = &authority;
            scope.spawn(move || {
                for number in 0..40 {
                    let host = format!("h{}.test", (number + thread) % 20);
                    let names = leaf_facts(&authority.leaf(&host).unwrap()).names;
                    assert_eq!(names, [format!("dns {host}")]);
                }
            });
        }
    });
}

#[test]
fn tls_01_openssl_verifies_strictly() {
    if !present("openssl") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::load_or_create(dir.path()).unwrap();
    let verify = |host: &str, leaf: &CertifiedKey| {
        let file = dir.path().join("leaf.pem");
        fs::write(&file, roots::pem(&leaf.cert)).unwrap();
        let kind = if host.parse::<std::net::IpAddr>().is_ok() { "-verify_ip" } else { "-verify_hostname" };
        let output = Command::new("openssl")
            .args(["verify", "-x509_strict", "-no-CApath", "-no-CAstore"])
            .args(["-purpose", "sslserver", kind, host, "-CAfile"])
            .arg(certificate_path(dir.path()))
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    };
    let long = format!("{}.{}.example.test", "a".repeat(63), "b".repeat(63));
    for host in ["api.example.test", "127.0.0.1", "2001:db8::1", "xn--xgs754b.test", &long] {
        let (good, text) = verify(host, &authority.leaf(host).unwrap());
        assert!(good, "{host}: {text}");
    }
    let (good, text) = verify("a.test", &authority.leaf_expired("a.test").unwrap());
    assert!(!good && text.contains("certificate has expired"), "{text}");
    let (good, text) = verify("a.test", &authority.leaf_untrusted("a.test").unwrap());
    assert!(!good && text.contains("unable to get local issuer certificate"), "{text}");
}

#[test]
fn bundle_holds_the_other_roots_and_ours_once() {
    let authority = Authority::in_memory().unwrap();
    let bundle = authority.bundle_pem();
    let found: Vec<_> = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect::<Result<_, _>>().unwrap();
    assert_eq!(found.len(), roots::system().len() + 1);
    assert_eq!(found.last(), Some(authority.certificate()));
    assert!(bundle.ends_with(authority.pem()));
}

#[test]
fn tls_05_trust_store_holds_the_other_roots_and_ours() {
    use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};
    let authority = Authority::in_memory().unwrap();
    let written = authority.pkcs12(roots::TRUST_STORE_PASSWORD).unwrap();
    let store =
        KeyStore::from_pkcs12(&written, roots::TRUST_STORE_PASSWORD, Pkcs12ImportPolicy::Strict).unwrap();
    let Some(KeyStoreEntry::Certificate(own)) = store.entry("aconite") else {
        panic!("our own certificate is missing")
    };
    assert_eq!(own.as_der(), authority.certificate().as_ref());
    assert_eq!(store.entries_len(), roots::system().len() + 1);
}

#[test]
fn tls_05_java_reads_the_trust_store() {
    if !present("keytool") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trust.p12");
    let authority = Authority::in_memory().unwrap();
    fs::write(&file, authority.pkcs12("changeit").unwrap()).unwrap();
    let output = Command::new("keytool")
        .args(["-J-Duser.language=en", "-list", "-storetype", "PKCS12"])
        .args(["-storepass", "changeit", "-alias", "aconite", "-keystore"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("trustedCertEntry"), "{text}");
}
