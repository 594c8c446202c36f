//! The table of all settings, for people.

use super::Settings;
use super::table::TABLE;

impl Settings {
    /// All settings with variable, default, range and meaning, as a table in Markdown: for
    /// the `--help` of a program that lets its pools be configured.
    #[must_use]
    pub fn reference() -> String {
        let mut text = String::from("| key | variable | default | value | meaning |\n");
        text += "|---|---|---|---|---|\n";
        for row in TABLE {
            let (key, default, meaning) = (row.key(), row.default(), row.meaning());
            let variable = format!("TIDEGATE_<POOL>_{}", key.to_ascii_uppercase());
            let expected = row.expected();
            text += &format!("| `{key}` | `{variable}` | {default} | {expected} | {meaning} |\n");
        }
        text
    }
}
