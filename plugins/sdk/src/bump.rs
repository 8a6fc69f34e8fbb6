//! The allocator for the memory of one call.
//!
//! Every call runs in a fresh instance that is dropped as a whole, so a bump allocator is enough:
//! it hands out blocks one after the other, and freeing them would be wasted work. Two things keep
//! memory use low: the block handed out last can grow in place, which is how strings and vectors
//! are built, and it can be freed.

#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use core::{
    alloc::{GlobalAlloc, Layout},
    arch::wasm32,
    cell::Cell,
    ptr,
};

#[global_allocator]
static MEMORY: Bump = Bump { next: Cell::new(0), end: Cell::new(0) };

/// One page of linear memory.
const PAGE: usize = 64 * 1024;

/// The number of pages by which memory grows: an ordinary decision takes one such step at most, since
/// growing costs far more than allocating.
const GROWTH_PAGES: usize = 2;

unsafe extern "C" {
    /// Where the linker's data ends and free memory begins.
    static __heap_base: u8;
}

struct Bump {
    /// The first free byte; 0 before the first allocation.
    next: Cell<usize>,
    /// The first byte that the instance does not have.
    end: Cell<usize>,
}

/// A guest has one thread.
unsafe impl Sync for Bump {}

impl Bump {
    /// Allocates `size` bytes from `start` on; returns 0 where the host grants no more memory.
    fn take(&self, start: usize, size: usize) -> usize {
        let Some(next) = start.checked_add(size) else {
            return 0;
        };
        if next > self.end.get() && !self.grow(next) {
            return 0;
        }
        self.next.set(next);
        start
    }

    #[cold]
    fn grow(&self, next: usize) -> bool {
        let end = wasm32::memory_size(0) * PAGE;
        if next > end {
            let pages = (next - end).div_ceil(PAGE).next_multiple_of(GROWTH_PAGES);
            if wasm32::memory_grow(0, pages) == usize::MAX {
                return false;
            }
        }
        self.end.set(wasm32::memory_size(0) * PAGE);
        true
    }

    fn free(&self) -> usize {
        match self.next.get() {
            0 => &raw const __heap_base as usize,
            next => next,
        }
    }

    fn is_last(&self, block: *mut u8, size: usize) -> bool {
        block as usize + size == self.next.get()
    }
}

// SAFETY: blocks never overlap, since each begins at or after the end of the one before it, and
// only the last one is ever resized or freed. Memory that the host adds is contiguous.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mask = layout.align() - 1;
        match self.free().checked_add(mask) {
            Some(end) => self.take(end & !mask, layout.size()) as *mut u8,
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.is_last(block, layout.size()) {
            self.next.set(block as usize);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.is_last(block, layout.size()) {
            return self.take(block as usize, size) as *mut u8;
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller vouches for `layout` with another size, and both blocks hold at
        // least the smaller number of bytes without overlapping.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size());
            }
            moved
        }
    }
}
