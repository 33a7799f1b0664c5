//! The kill switch, and its state on disk.
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use aconite_api::model::Switch;
use serde::{Deserialize, Serialize};

use crate::journal;

/// Whether toxics act, by whom and why.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Switched {
    pub(super) enabled: bool,
    pub(super) by: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) since: String,
}

/// The file that remembers that an operator has switched toxics off.
pub(crate) struct SwitchFile(PathBuf);

impl Switched {
    pub(super) fn now(enabled: bool, by: Switch) -> Self {
        Self { enabled, by: by.operator, reason: by.reason, since: journal::now() }
    }
}

impl SwitchFile {
    /// The file in `data_dir` for the server whose admin API is configured to listen on `admin`: servers that share a
    /// directory have a switch each.
    pub(crate) fn new(data_dir: &Path, admin: &str) -> Self {
        let name: String =
            admin.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        Self(data_dir.join(format!("switch-{name}.json")))
    }

    /// The state that an operator left, if it was off. A file that cannot be read counts as off: whoever wrote it wanted
    /// no faults.
    pub(super) fn left_off(&self) -> Option<Switched> {
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(self.unreadable(&error)),
        };
        match serde_json::from_slice::<Switched>(&text) {
            Ok(state) => Some(state).filter(|state| !state.enabled),
            Err(error) => Some(self.unreadable(&error)),
        }
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> Switched {
        let reason = format!("cannot read `{}`: {error}", self.0.display());
        Switched::now(false, Switch { operator: None, reason: Some(reason) })
    }

    /// Remembers the state; it is on disk, whole, when this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&self, state: &Switched) -> io::Result<()> {
        let directory = self.0.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(serde_json::to_string(state)?.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&self.0)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_16_only_a_switch_that_was_left_off_is_restored() {
        let home = tempfile::tempdir().unwrap();
        let file = SwitchFile::new(&home.path().join("data"), "[::1]:8474");
        assert!(file.left_off().is_none());
        let by = Switch { operator: Some("ann".to_owned()), reason: Some("incident".to_owned()) };
        file.write(&Switched::now(false, by.clone())).unwrap();
        let left = file.left_off().unwrap();
        assert_eq!((left.by, left.reason), (by.operator.clone(), by.reason.clone()));
        assert!(SwitchFile::new(&home.path().join("data"), "127.0.0.1:8474").left_off().is_none());
        file.write(&Switched::now(true, by)).unwrap();
        assert!(file.left_off().is_none());
        fs::write(&file.0, "{").unwrap();
        assert!(file.left_off().unwrap().reason.unwrap().contains("cannot read"));
    }
}
