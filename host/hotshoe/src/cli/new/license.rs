//! The licence of a new plugin's sources, with the options of Kubebuilder's `init`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::Offset;

/// The text of the Apache License 2.0, under which this program is as well.
pub(super) const APACHE2: &str = include_str!("../../../../../LICENSE");

/// What the head of a source file says under the Apache License, as Kubebuilder writes it.
const NOTICE: &str = "Licensed under the Apache License, Version 2.0 (the \"License\");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an \"AS IS\" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
";

/// The licence of a new plugin's sources, and who has the copyright.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Licensing {
    /// The licence that heads each source file; with apache2, the project has a LICENSE and manifests name it
    #[arg(long, value_name = "LICENSE", default_value = "none")]
    pub(super) license: License,
    /// Who has the copyright, for the head of each source file
    #[arg(long, value_name = "NAME", value_parser = owner)]
    pub(super) owner: Option<String>,
}

/// A licence that Kubebuilder knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum License {
    Apache2,
    #[default]
    None,
}

impl License {
    /// Returns the text of the licence.
    pub(super) fn text(self) -> Option<&'static str> {
        (self == Self::Apache2).then_some(APACHE2)
    }

    /// Returns its SPDX identifier.
    pub(super) fn identifier(self) -> Option<&'static str> {
        (self == Self::Apache2).then_some("Apache-2.0")
    }
}

impl Licensing {
    /// Returns the comment that heads a file, with an empty line after it; empty where nothing is said or the file is no
    /// source file.
    pub(super) fn head(&self, file: &Path, year: i16) -> String {
        let mark = match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs" | "js") => "//",
            Some("py") => "#",
            _ => return String::new(),
        };
        let copyright = match (&self.owner, self.license) {
            (Some(owner), _) => format!("Copyright {year} {owner}.\n"),
            (None, License::Apache2) => format!("Copyright {year}.\n"),
            (None, License::None) => return String::new(),
        };
        let text = match self.license {
            License::Apache2 => format!("{copyright}\n{NOTICE}"),
            License::None => copyright,
        };
        let comment: String = text.lines().map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n").collect();
        comment + "\n"
    }
}

/// Returns the present year, in UTC.
pub(super) fn year() -> i16 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let now = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_default();
    Offset::UTC.to_datetime(now).year()
}

/// Checks a name that is put into comments.
fn owner(text: &str) -> Result<String, &'static str> {
    let is_valid = !text.trim().is_empty() && text.len() <= 256 && !text.chars().any(char::is_control);
    is_valid
        .then(|| text.trim().to_owned())
        .ok_or("an owner is one line of 1 to 256 bytes, such as \"The Cache Authors\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(license: License, owner: Option<&str>, file: &str) -> String {
        Licensing { license, owner: owner.map(str::to_owned) }.head(Path::new(file), 2026)
    }

    #[test]
    fn source_files_are_headed_by_what_kubebuilder_writes_as_a_comment() {
        let rust = head(License::Apache2, Some("The Authors"), "src/lib.rs");
        assert!(rust.starts_with("// Copyright 2026 The Authors.\n//\n// Licensed under the Apache License"), "{rust}");
        assert!(rust.ends_with("// limitations under the License.\n\n"), "{rust}");
        assert!(head(License::Apache2, None, "a.py").starts_with("# Copyright 2026.\n#\n# Licensed"));
        assert_eq!(head(License::None, Some("The Authors"), "a.js"), "// Copyright 2026 The Authors.\n\n");
        assert_eq!(head(License::None, None, "a.rs"), "");
        assert_eq!(head(License::Apache2, None, "plugin.yaml"), "");
    }

    #[test]
    fn an_owner_is_one_line_of_bounded_length() {
        assert_eq!(owner(" The Authors "), Ok("The Authors".to_owned()));
        for bad in ["", " ", "a\nb", &"a".repeat(257)] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_year_is_the_present_one() {
        assert!(year() >= 2026);
    }
}
