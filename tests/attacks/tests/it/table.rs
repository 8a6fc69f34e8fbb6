//! The table itself: complete, and equal to that in docs/src/security.md.

use std::collections::BTreeSet;

use hotshoe_attacks::users::ATTEMPTS;
use hotshoe_attacks::{ATTACKS, How, SERVED, markdown, users};

#[test]
fn every_attack_has_a_name_of_its_own() {
    let names: BTreeSet<_> = ATTACKS.iter().map(|attack| attack.name).collect();
    assert_eq!(names.len(), ATTACKS.len());
    let names: BTreeSet<_> = ATTEMPTS.iter().map(|attempt| attempt.name).collect();
    assert_eq!(names.len(), ATTEMPTS.len());
}

#[test]
fn every_attack_is_stopped_somewhere_and_says_why() {
    for attack in ATTACKS {
        assert!(!attack.stopped.is_empty(), "{}", attack.name);
        let is_word = attack.reason.starts_with(|first: char| first.is_ascii_uppercase());
        let may_be_served = matches!(attack.how, How::Called(_) | How::AtTheEnd(_));
        assert!(is_word || (attack.reason == SERVED && may_be_served), "{}", attack.name);
    }
}

#[test]
fn the_page_on_security_has_both_tables() {
    let security = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/security.md");
    let security = std::fs::read_to_string(security).expect("docs/src/security.md");
    for table in [markdown(), users::markdown()] {
        assert!(
            security.contains(&table),
            "docs/src/security.md has another table than this one; put it there:\n\n{table}"
        );
    }
}
