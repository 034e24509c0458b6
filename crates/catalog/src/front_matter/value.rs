//! A value of a front matter as written: text in its source form, sequences and mappings.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// What a key holds, without any guess at its type: `1.10` is the text `1.10`, and nothing is `""`.
///
/// As JSON it is a string, an array or an object, with the keys in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar, after escapes and folding.
    Text(String),
    /// A list.
    Sequence(Vec<Value>),
    /// Keys and values in the order of the file, no key twice.
    Mapping(Vec<(String, Value)>),
}

impl Value {
    /// Returns the text of a scalar.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns what a mapping holds under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Mapping(entries) => entries.iter().find(|(found, _)| found == key).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Sequence(items) => serializer.collect_seq(items),
            Self::Mapping(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_json_it_is_what_was_written() {
        let text = |text: &str| Value::Text(text.to_owned());
        let value = Value::Mapping(vec![
            ("b".to_owned(), Value::Sequence(vec![text("1.10"), text(""), Value::Mapping(Vec::new())])),
            ("a".to_owned(), text("\"")),
        ]);
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"b":["1.10","",{}],"a":"\""}"#);
        assert_eq!(value.get("a").and_then(Value::as_text), Some("\""));
        assert_eq!((value.get("c"), value.as_text(), text("x").get("x")), (None, None, None));
    }
}
