//! How the two directories that skills know are called.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

/// The names of the two directories that skills know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The variable that names the skills, `SKILLS_DIR`.
    pub skills_variable: String,
    /// Where the skills are, `/skills`.
    pub skills_dir: Utf8PathBuf,
    /// The variable that names the writable directory, `SKILL_EXTENSIONS_DIR`.
    pub extensions_variable: String,
    /// Where that is, `/skill-extensions`.
    pub extensions_dir: Utf8PathBuf,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            skills_variable: "SKILLS_DIR".to_owned(),
            skills_dir: "/skills".into(),
            extensions_variable: "SKILL_EXTENSIONS_DIR".to_owned(),
            extensions_dir: "/skill-extensions".into(),
        }
    }
}
