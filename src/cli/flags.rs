//! The command lines of Toxiproxy's programs, put into ours.
//!
//! Its server takes Go's flags: one dash or two, `-name value` or `-name=value`, positional words ignored. Its client
//! says the server's address by `-h`, before the command.
use std::{ffi::OsString, io::Write, path::Path, process::ExitCode};

/// The server's flags, and whether each takes a value.
const SERVER: [(&str, bool); 7] = [
    ("host", true),
    ("port", true),
    ("config", true),
    ("seed", true),
    ("proxy-metrics", false),
    ("runtime-metrics", false),
    ("version", false),
];

/// The flag that says that `serve` replaces Toxiproxy.
pub(super) const DROP_IN: &str = "--drop-in";

/// The arguments as our own parser takes them.
pub(super) fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some((program, rest)) = arguments.split_first() else { return arguments };
    let name = called(program);
    let first = rest.first();
    if name == "toxiproxy-server" || name == "toxiproxy" || first.is_some_and(is_single_dashed) {
        [program.clone(), "serve".into(), DROP_IN.into()].into_iter().chain(server(rest)).collect()
    } else if first.is_some_and(|first| first == "serve") && rest.iter().any(is_single_dashed) {
        let doubled =
            rest.iter().skip(1).map(|each| if is_single_dashed(each) { doubled(each) } else { each.clone() });
        [program.clone(), "serve".into(), DROP_IN.into()].into_iter().chain(doubled).collect()
    } else {
        let translated: Vec<_> = [program.clone()].into_iter().chain(client(rest)).collect();
        if is_toxiproxy_cli(&translated) { without_extra_arguments(translated) } else { translated }
    }
}

/// Toxiproxy's client ignores the arguments after a proxy's name. Flags precede the name there.
fn without_extra_arguments(mut arguments: Vec<OsString>) -> Vec<OsString> {
    const VALUED: [&str; 13] = [
        "--host",
        "--url",
        "--token-file",
        "-l",
        "--listen",
        "-n",
        "--toxicName",
        "-t",
        "--type",
        "--toxicity",
        "--tox",
        "-a",
        "--attribute",
    ];
    let is_create = arguments.iter().any(|word| word == "create" || word == "c" || word == "new");
    let is_toxic = arguments.iter().any(|word| word == "toxic" || word == "t");
    // The command, and for `toxic` what to do, precede the name.
    let mut before = if is_toxic { 2 } else { 1 };
    let mut index = 1;
    while let Some(word) = arguments.get(index).and_then(|word| word.to_str()) {
        let takes_value = VALUED.contains(&word) || (is_create && matches!(word, "-u" | "--upstream"));
        if takes_value {
            index += 1;
        } else if !word.starts_with('-') {
            if before == 0 {
                // Our own shorter form has the rest behind the name.
                if !arguments[index..].iter().any(|word| word.to_string_lossy().contains('=')) {
                    arguments.truncate(index + 1);
                }
                break;
            }
            before -= 1;
        }
        index += 1;
    }
    arguments
}

/// The name by which the executable was called.
fn called(program: &OsString) -> &std::ffi::OsStr {
    Path::new(program).file_stem().unwrap_or_default()
}

/// Whether the executable stands in the place of Toxiproxy's client.
pub(super) fn is_toxiproxy_cli(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|program| called(program) == "toxiproxy-cli")
}

/// How Toxiproxy's client exits when it does not understand its arguments.
pub(super) fn toxiproxy_cli_exit(told: &clap::Error) -> u8 {
    match told.kind() {
        clap::error::ErrorKind::InvalidSubcommand => 3,
        _ => u8::from(told.exit_code() != 0),
    }
}

/// The program of Toxiproxy's whose version is asked for, if that is so.
pub(super) fn version_asked(arguments: &[OsString]) -> Option<&'static str> {
    let has = |flag: &str| arguments.iter().any(|each| each == flag);
    if arguments.get(2).is_some_and(|each| each == DROP_IN) && (has("--version") || has("--version=true")) {
        return Some("toxiproxy-server");
    }
    let first = arguments.get(1).and_then(|word| word.to_str());
    (is_toxiproxy_cli(arguments) && matches!(first, Some("-v" | "--version"))).then_some("toxiproxy-cli")
}

/// Prints that version.
pub(super) fn print_version(program: &str) -> ExitCode {
    let ours = env!("CARGO_PKG_VERSION");
    // If the reader has left, nobody needs it.
    let _ = writeln!(std::io::stdout(), "{program} version 2.12.0 (aconite {ours})");
    ExitCode::SUCCESS
}

/// Translates up to the first word that is not a flag, as Go's parser does. Flags that Toxiproxy does not have stay unchanged.
fn server(rest: &[OsString]) -> Vec<OsString> {
    let mut translated = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-help" | "-h" | "--help") => translated.push("--help".into()),
            Some(text) if text.starts_with('-') && text != "-" => {
                translated.push(doubled(word));
                let waits =
                    SERVER.iter().any(|(name, valued)| *valued && text.trim_start_matches('-') == *name);
                if waits {
                    translated.extend(words.next().cloned());
                }
            }
            _ => break,
        }
    }
    translated
}

/// Whether a word is a flag of Toxiproxy's server in the form that only it uses.
fn is_single_dashed(word: &OsString) -> bool {
    let Some(text) = word.to_str().and_then(|text| text.strip_prefix('-')) else { return false };
    let name = text.split('=').next().unwrap_or_default();
    SERVER.iter().any(|(known, _)| *known == name)
}

fn doubled(word: &OsString) -> OsString {
    match word.to_str() {
        Some(text) if !text.starts_with("--") => format!("-{text}").into(),
        _ => word.clone(),
    }
}

/// `-h URL` before the command is the server's address; `-h` alone asks for help.
fn client(rest: &[OsString]) -> Vec<OsString> {
    let mut translated = rest.to_vec();
    let is_address =
        |word: &OsString| word.to_str().is_some_and(|text| text.contains([':', '.']) || text == "localhost");
    if rest.first().is_some_and(|first| first == "-h") && rest.get(1).is_some_and(is_address) {
        translated[0] = "--host".into();
    } else if let Some(address) = rest.first().and_then(|first| first.to_str()?.strip_prefix("-h=")) {
        translated[0] = format!("--host={address}").into();
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = translate(line.split_whitespace().map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn toxiproxy_s_server_flags_become_ours() {
        for (line, ours) in [
            ("toxiproxy-server", "toxiproxy-server serve --drop-in"),
            ("/toxiproxy -host=0.0.0.0", "/toxiproxy serve --drop-in --host=0.0.0.0"),
            (
                "toxiproxy-server -host 0.0.0.0 -port 8474 --config=/x.json -seed=1 -proxy-metrics -runtime-metrics=true",
                "toxiproxy-server serve --drop-in --host 0.0.0.0 --port 8474 --config=/x.json --seed=1 --proxy-metrics --runtime-metrics=true",
            ),
            ("toxiproxy-server -port 1 extra -host x", "toxiproxy-server serve --drop-in --port 1"),
            ("toxiproxy-server -help", "toxiproxy-server serve --drop-in --help"),
            ("aconite -host=0.0.0.0 -config=/x", "aconite serve --drop-in --host=0.0.0.0 --config=/x"),
            ("aconite serve -config=/x --token-file t", "aconite serve --drop-in --config=/x --token-file t"),
            ("aconite serve -config /x -c y", "aconite serve --drop-in --config /x -c y"),
        ] {
            assert_eq!(translated(line), ours, "{line}");
        }
    }

    #[test]
    fn our_own_command_lines_stay() {
        for line in [
            "aconite",
            "aconite serve -c x.yaml",
            "aconite serve --config x",
            "aconite -h",
            "aconite --version",
            "aconite run -- x -host=1",
        ] {
            assert_eq!(translated(line), line);
        }
    }

    #[test]
    fn toxiproxy_s_client_names_the_server_by_h() {
        assert_eq!(translated("toxiproxy-cli -h http://a:1 list"), "toxiproxy-cli --host http://a:1 list");
        assert_eq!(translated("aconite -h=localhost:8474 list"), "aconite --host=localhost:8474 list");
        assert_eq!(translated("aconite -h list"), "aconite -h list");
    }

    #[test]
    fn the_version_of_toxiproxy_s_programs_is_asked_for_in_their_way_only() {
        let asked =
            |line: &str| version_asked(&translate(line.split_whitespace().map(OsString::from).collect()));
        assert_eq!(asked("toxiproxy-server -version"), Some("toxiproxy-server"));
        assert_eq!(asked("toxiproxy-server --version"), Some("toxiproxy-server"));
        assert_eq!(asked("toxiproxy-cli -v"), Some("toxiproxy-cli"));
        assert_eq!(asked("toxiproxy-cli --version"), Some("toxiproxy-cli"));
        assert_eq!(asked("aconite --version"), None);
        assert_eq!(asked("aconite serve --version"), None);
    }

    #[test]
    fn r2_29_toxiproxy_s_client_ignores_extra_arguments() {
        for (line, kept) in [
            ("toxiproxy-cli inspect p extra words", "toxiproxy-cli inspect p"),
            ("toxiproxy-cli -h http://a:1 delete p q", "toxiproxy-cli --host http://a:1 delete p"),
            ("toxiproxy-cli create -l :1 -u :2 p extra", "toxiproxy-cli create -l :1 -u :2 p"),
            (
                "toxiproxy-cli t a -t latency -u -a latency=5 p extra",
                "toxiproxy-cli t a -t latency -u -a latency=5 p",
            ),
            ("toxiproxy-cli toxic remove -n x p extra", "toxiproxy-cli toxic remove -n x p"),
            ("toxiproxy-cli toxic add p latency latency=5", "toxiproxy-cli toxic add p latency latency=5"),
            ("aconite inspect p extra", "aconite inspect p extra"),
        ] {
            assert_eq!(translated(line), kept, "{line}");
        }
    }
}
