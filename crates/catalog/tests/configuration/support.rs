//! Merging texts.

use skillfreeze_catalog::{ConfigError, ConfigLayers, ConfigText, Configuration, RootPath};

/// The four files: what they are called here, and their paths.
pub(crate) const FILES: [(&str, &str); 4] =
    [("given", "/g.toml"), ("project", "/p/f.toml"), ("user", "/u.toml"), ("system", "/s.toml")];

pub(crate) fn merge_bytes(files: &[(&str, &[u8])]) -> Result<Configuration, ConfigError> {
    let project: RootPath = "/p".parse().unwrap();
    let text = |name: &str| {
        let (_, file) = FILES.iter().find(|(known, _)| *known == name).unwrap();
        let (_, bytes) = files.iter().find(|(given, _)| *given == name)?;
        Some(ConfigText { file: (*file).into(), bytes })
    };
    let layers = ConfigLayers {
        given: text("given"),
        project: text("project"),
        user: text("user"),
        system: text("system"),
    };
    Configuration::merge(&layers, &project)
}

pub(crate) fn merge(files: &[(&str, &str)]) -> Result<Configuration, ConfigError> {
    merge_bytes(&files.iter().map(|(name, text)| (*name, text.as_bytes())).collect::<Vec<_>>())
}

/// The code and the text of the error, with its causes.
pub(crate) fn refused(files: &[(&str, &str)]) -> (&'static str, String) {
    let error = merge(files).unwrap_err();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    (error.code(), text)
}

/// A source with more lines.
pub(crate) fn source(more: &str) -> String {
    format!("[[source]]\nid = \"a\"\n{more}\n")
}
