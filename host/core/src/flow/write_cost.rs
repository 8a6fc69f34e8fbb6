//! What a write costs the API server, in tokens of a plugin's rate limit.

use std::num::NonZeroU32;

use crate::model::limits::{BYTES_PER_TOKEN, FIELDS_PER_TOKEN};

/// Returns the cost of a write with this many bytes and [fields](crate::check::fields::count): one token for an
/// ordinary object, more for a large one.
pub fn tokens(bytes: usize, fields: usize) -> NonZeroU32 {
    let more = (bytes / BYTES_PER_TOKEN).saturating_add(fields / FIELDS_PER_TOKEN);
    NonZeroU32::MIN.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_ordinary_object_costs_one_token() {
        assert_eq!(tokens(0, 0).get(), 1);
        // A Deployment of one container has 3 KiB and 60 fields.
        assert_eq!(tokens(3 << 10, 60).get(), 1);
    }

    #[test]
    fn bytes_and_fields_cost_more_tokens() {
        assert_eq!(tokens(3 * BYTES_PER_TOKEN, 0).get(), 4);
        assert_eq!(tokens(0, 3 * FIELDS_PER_TOKEN).get(), 4);
        assert_eq!(tokens(3 * BYTES_PER_TOKEN, 3 * FIELDS_PER_TOKEN).get(), 7);
        assert_eq!(tokens(usize::MAX, usize::MAX).get(), u32::MAX);
    }

    proptest! {
        #[test]
        fn two_halves_cost_about_as_much_as_the_whole(bytes in 0_usize..2_000_000, fields in 0_usize..200_000) {
            let whole = tokens(bytes, fields).get();
            let halves = 2 * tokens(bytes / 2, fields / 2).get();
            prop_assert!(halves <= whole + 1 && whole <= halves + 2);
        }
    }
}
