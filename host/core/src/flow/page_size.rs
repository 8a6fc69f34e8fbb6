//! How many objects one page of a list may have. Users choose how large objects are, so pages are bounded by their bytes:
//! each page decides how many objects the next one is asked for. Pure.

use crate::model::limits::{PAGE_BYTES, PAGE_BYTES_MAX, SINGLE_OBJECT_BYTES};

/// The number of objects that the first page is asked for.
pub const FIRST: u32 = 5;
/// The maximum number of objects in one page.
pub const MOST: u32 = 500;
/// By how much a page that was too large is divided.
const CUT: u32 = 4;

/// The number of objects that the next page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(u32);

impl Default for PageSize {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl PageSize {
    /// Returns the number of objects.
    pub fn objects(self) -> u32 {
        self.0
    }

    /// Returns how many bytes a page of this size may have. A larger one is not read to its end.
    pub fn most_bytes(self) -> usize {
        if self.0 <= 1 { SINGLE_OBJECT_BYTES.bytes() } else { PAGE_BYTES_MAX.bytes() }
    }

    /// Returns the size of the page after one of so many bytes.
    #[must_use]
    pub fn after(self, bytes: usize) -> Self {
        let aim = PAGE_BYTES.bytes();
        match bytes {
            small if small <= aim / 2 => Self(self.0.saturating_mul(2).min(MOST)),
            large if large > aim.saturating_mul(2) => Self((self.0 / 2).max(1)),
            _ => self,
        }
    }

    /// Returns the size with which a page is asked for again that had too many bytes; none if it was of one object.
    pub fn after_too_large(self) -> Option<Self> {
        (self.0 > 1).then(|| Self((self.0 / CUT).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_of_small_objects_grow_to_the_most_and_those_of_large_ones_shrink_to_one() {
        let after = |bytes_of_object: usize| {
            let (mut page, mut sizes) = (PageSize::default(), Vec::new());
            for _ in 0..9 {
                sizes.push(page.objects());
                page = page.after(bytes_of_object * page.objects() as usize);
            }
            sizes
        };
        assert_eq!(after(500), [5, 10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(after(10_000), [5, 10, 20, 40, 80, 80, 80, 80, 80], "about a megabyte");
        assert_eq!(after(900_000), [5, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(after(9_000_000), [5, 2, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_page_that_is_too_large_is_asked_for_again_with_fewer_objects_until_it_has_one() {
        let sizes = std::iter::successors(Some(PageSize(MOST)), |page| page.after_too_large());
        assert_eq!(sizes.map(PageSize::objects).collect::<Vec<_>>(), [500, 125, 31, 7, 1]);
    }

    proptest! {
        /// Whatever sizes the objects have, and in whatever order, no more is read of a page than is allowed.
        #[test]
        fn no_page_is_larger_than_allowed_and_all_objects_are_read(objects in prop::collection::vec(1_usize..1_600_000, 1..400)) {
            let (mut page, mut rest, mut requests) = (PageSize::default(), objects.as_slice(), 0);
            while !rest.is_empty() {
                requests += 1;
                let count = rest.len().min(page.objects() as usize);
                let bytes = rest[..count].iter().sum::<usize>();
                if bytes > page.most_bytes() {
                    page = page.after_too_large().expect("one object fits");
                    continue;
                }
                (page, rest) = (page.after(bytes), &rest[count..]);
            }
            prop_assert!(requests <= 2 * objects.len() + 8, "{requests} requests for {} objects", objects.len());
        }
    }
}
