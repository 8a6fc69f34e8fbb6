//! What another revision makes of the stored parents where the API server asks it about them: whether they are valid, what
//! is filled into them, and what is left of them after a way through another version. Pure.
//!
//! Here are names of parents and paths of their fields, and neither values nor words of a plugin.

use serde::{Deserialize, Serialize};

use crate::model::sanitize;

/// How many parents are named for each thing that happens to them.
pub const MAX_NAMED: usize = 10;
/// How many fields of one parent are named.
const MAX_FIELDS: usize = 3;
/// The maximum length of a path, in bytes: users choose the keys in it.
const MAX_PATH_BYTES: usize = 100;

/// What happens to objects of which a conversion loses something.
pub const LOSE_FIELDS: &str = "would lose fields on the way to another version and back";

/// What becomes of the stored parents under another revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoredParents {
    /// How many there are.
    pub objects: usize,
    /// About how many the revision was asked.
    pub looked_at: usize,
    /// Why it was asked about no more of them.
    pub stopped: Option<String>,
    /// Those that the active revision accepts as they are, and the new one refuses.
    pub no_longer_valid: Affected,
    /// Those that the active revision refuses as they are, and the new one accepts. Only a shadow run looks for them.
    pub valid_again: Affected,
    /// Those about which the validation of the new revision fails, and that of the active one does not.
    pub not_validated: Affected,
    /// Those into which the two revisions would fill in something different. Only a shadow run looks for them.
    pub filled_in_otherwise: Affected,
    /// Those of which something is lost on the way to another version and back, and nothing by the active revision.
    pub losing_fields: Affected,
    /// Those that the new revision does not convert to another version and back, and the active one does.
    pub not_converted: Affected,
    /// The other versions that are served, where the active revision converts and the new one does not.
    pub versions_given_up: Vec<String>,
}

/// Parents to which the same happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affected {
    /// How many they are.
    pub count: usize,
    /// The first [`MAX_NAMED`] of them.
    pub first: Vec<Named>,
}

/// A parent, and where it is affected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Named {
    /// `NAMESPACE/NAME`, or `NAME`.
    pub object: String,
    /// Paths of fields, or the reason of a failure.
    pub at: Vec<String>,
}

impl Affected {
    /// Counts a parent, and names it if it is one of the first.
    pub fn note(&mut self, object: impl ToString, at: impl IntoIterator<Item = String>) {
        self.count += 1;
        if self.first.len() < MAX_NAMED {
            let mut at: Vec<String> = at.into_iter().collect();
            let more = at.len().saturating_sub(MAX_FIELDS);
            at.truncate(MAX_FIELDS);
            at.iter_mut().for_each(|path| *path = sanitize::clean(std::mem::take(path), MAX_PATH_BYTES));
            at.extend((more > 0).then(|| format!("and {more} more")));
            self.first.push(Named { object: object.to_string(), at });
        }
    }

    /// Returns the first parents and the number of further ones as the end of a sentence.
    fn listed(&self, shown: impl Fn(&Named) -> String) -> String {
        let names: Vec<String> = self.first.iter().map(shown).collect();
        match self.count.saturating_sub(self.first.len()) {
            0 => names.join(", "),
            more => format!("{}; and {more} more", names.join(", ")),
        }
    }

    /// Returns the names of the first parents.
    pub fn names(&self) -> String {
        self.listed(|named| named.object.clone())
    }

    /// Returns the names of the first parents, each with where it is affected.
    pub fn places(&self) -> String {
        self.listed(Named::to_string)
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at.is_empty() {
            true => f.write_str(&self.object),
            false => write!(f, "{} ({})", self.object, self.at.join(", ")),
        }
    }
}

impl StoredParents {
    /// Returns why the revision requires approval: parents would become invalid or lose fields, or could no longer be
    /// read, or it is not known of all of them. What it says of proposed parents matters only if that is `enforced`.
    pub fn objection(&self, enforced: bool) -> Option<String> {
        let given_up = self.given_up().into_iter();
        let validation = [self.refused(), self.failing()].into_iter().filter(|_| enforced);
        let conversion = [self.unconverted(), self.lossy()].into_iter();
        given_up.chain(validation.chain(conversion).flatten()).next().or_else(|| self.unknown())
    }

    /// Returns in words what would be different, a line for each thing, without a word of the plugin: who may read the
    /// status of a `Plugin` may often not read its parents.
    pub fn in_words(&self) -> Vec<String> {
        let others = [
            self.sentence("would be valid again", &self.valid_again, Affected::names),
            self.sentence("would get other defaults", &self.filled_in_otherwise, Affected::names),
        ];
        let lines = [self.given_up(), self.refused(), self.failing(), self.unconverted(), self.lossy()];
        lines.into_iter().chain(others).flatten().collect()
    }

    fn given_up(&self) -> Option<String> {
        let versions = self.versions_given_up.join(", ");
        let why = "it does not convert, as the active revision does: no object could be read or written in";
        (!versions.is_empty()).then(|| format!("{why} {versions}"))
    }

    /// The fields at fault are not named: the plugin chooses these words.
    fn refused(&self) -> Option<String> {
        self.sentence("would no longer be valid", &self.no_longer_valid, Affected::names)
    }

    fn failing(&self) -> Option<String> {
        self.sentence("make its validation fail", &self.not_validated, Affected::places)
    }

    fn unconverted(&self) -> Option<String> {
        self.sentence("would not be converted", &self.not_converted, Affected::places)
    }

    fn lossy(&self) -> Option<String> {
        self.sentence(LOSE_FIELDS, &self.losing_fields, Affected::places)
    }

    fn unknown(&self) -> Option<String> {
        let Self { objects, looked_at, .. } = self;
        self.stopped
            .as_ref()
            .map(|why| format!("only {looked_at} of {objects} stored objects could be looked at: {why}"))
    }

    fn sentence(&self, what: &str, affected: &Affected, listed: fn(&Affected) -> String) -> Option<String> {
        let Affected { count, .. } = affected;
        (*count > 0).then(|| format!("{count} of {} stored objects {what}: {}", self.objects, listed(affected)))
    }

    /// Returns whether anything would be different.
    pub fn differs(&self) -> bool {
        let Self { no_longer_valid, valid_again, filled_in_otherwise, losing_fields, .. } = self;
        let affected = [no_longer_valid, valid_again, filled_in_otherwise, losing_fields];
        affected.iter().any(|affected| affected.count > 0) || self.fails()
    }

    /// Returns whether the new revision fails where the active one does not, or was not asked about all parents.
    pub fn fails(&self) -> bool {
        let affected = self.not_validated.count + self.not_converted.count;
        affected > 0 || !self.versions_given_up.is_empty() || self.stopped.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affected(count: usize, at: &[&str]) -> Affected {
        let mut affected = Affected::default();
        for number in 0..count {
            affected.note(format!("shop/p{number}"), at.iter().map(|&path| path.to_owned()));
        }
        affected
    }

    fn of_200(change: impl FnOnce(&mut StoredParents)) -> StoredParents {
        let mut stored = StoredParents { objects: 200, looked_at: 200, ..StoredParents::default() };
        change(&mut stored);
        stored
    }

    #[test]
    fn a_revision_that_changes_nothing_of_stored_parents_needs_no_approval() {
        let same = of_200(|_| {});
        assert_eq!((same.objection(true), same.differs(), same.fails()), (None, false, false));
        let other = of_200(|stored| {
            stored.valid_again = affected(1, &["spec.size"]);
            stored.filled_in_otherwise = affected(3, &["spec.size"]);
        });
        assert_eq!((other.objection(true), other.differs(), other.fails()), (None, true, false));
        let words = other.in_words();
        assert_eq!(words.first().unwrap(), "1 of 200 stored objects would be valid again: shop/p0");
        assert!(words.len() == 2 && !words.concat().contains("spec.size"), "{words:?}");
    }

    #[test]
    fn parents_that_would_be_invalid_are_counted_and_the_first_ten_named_without_a_word_of_the_plugin() {
        let objection = |count| of_200(|stored| stored.no_longer_valid = affected(count, &["secret"])).objection(true);
        assert_eq!(objection(2).unwrap(), "2 of 200 stored objects would no longer be valid: shop/p0, shop/p1");
        let many = objection(13).unwrap();
        assert!(many.ends_with("shop/p8, shop/p9; and 3 more") && !many.contains("secret"), "{many}");
        let refused = of_200(|stored| stored.no_longer_valid = affected(2, &[]));
        assert_eq!(refused.objection(false), None, "nothing refuses them");
    }

    #[test]
    fn fields_that_would_be_lost_are_named_by_their_paths() {
        let lossy = of_200(|stored| stored.losing_fields = affected(1, &["spec.ports[1]", "spec.size"]));
        assert_eq!(
            lossy.objection(true).unwrap(),
            "1 of 200 stored objects would lose fields on the way to another version and back: shop/p0 (spec.ports[1], \
             spec.size)"
        );
        assert!(affected(1, &["a", "b", "c", "d", "e"]).places().ends_with("(a, b, c, and 2 more)"));
        let hostile = affected(1, &[&format!("spec.\u{1b}[2J{}", "x".repeat(1_000))]).places();
        assert!(hostile.len() < 2 * MAX_PATH_BYTES && !hostile.contains('\u{1b}'), "{hostile}");
    }

    #[test]
    fn a_revision_that_fails_or_was_not_asked_about_all_needs_approval() {
        for (failing, words) in [
            (
                of_200(|stored| stored.not_validated = affected(1, &["Trapped"])),
                "1 of 200 stored objects make its validation fail: shop/p0 (Trapped)",
            ),
            (
                of_200(|stored| stored.not_converted = affected(1, &["v2: Trapped"])),
                "1 of 200 stored objects would not be converted: shop/p0 (v2: Trapped)",
            ),
            (of_200(|stored| stored.versions_given_up = vec!["v1beta1".into()]), "read or written in v1beta1"),
            (of_200(|stored| (stored.looked_at, stored.stopped) = (7, Some("late".into()))), "only 7 of 200"),
        ] {
            let why = failing.objection(true).unwrap();
            assert!(why.contains(words) && failing.fails() && failing.differs(), "{why}");
        }
    }
}
