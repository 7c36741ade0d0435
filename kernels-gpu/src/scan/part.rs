//! What a warp of a [ring](super::ring) has of a tile.

use cuda_std::access::{self, StoreHint};
use cuda_std::warp::Plain;

use super::pack::{Pack, build, each, element, inside, pack_of, per_pack};
use super::ring::part_len;

/// A warp's part of a tile: [`part_len`]`(P)` elements, of which each lane has `P` packs that are 32 packs apart.
pub struct Part<'a, T, const P: usize> {
    pub(super) x: &'a [T],
    /// The place of its first element in `x`, which may be past the end.
    pub start: usize,
    pub(super) lane: usize,
    pub(super) memory: *mut Pack,
    pub(super) beside: *const u8,
    /// Bytes of it for each element: a constant.
    pub(super) beside_bytes: usize,
    pub(super) note: *mut u32,
}

impl<T, const P: usize> Clone for Part<'_, T, P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const P: usize> Copy for Part<'_, T, P> {}

impl<T: Plain, const P: usize> Part<'_, T, P> {
    /// The place in `x` of the first element of this lane's pack `j`.
    #[inline(always)]
    pub fn first(self, j: usize) -> usize {
        self.start + self.place(j)
    }

    /// The place in the part of that element.
    #[inline(always)]
    pub fn place(self, j: usize) -> usize {
        (32 * j + self.lane) * per_pack::<T>()
    }

    /// The part in shared memory: [`part_len`] elements, aligned to 16 bytes, for this warp alone until it has finished.
    #[inline(always)]
    pub fn memory(self) -> *mut T {
        self.memory.cast()
    }

    /// The part's elements: in shared memory, or where they come from if they are not all there.
    #[inline(always)]
    pub fn elements(self) -> *const T {
        if is_whole(self.x.as_ptr(), self.x.len(), self.start, self.room()) {
            self.memory.cast_const().cast()
        } else {
            self.x.as_ptr().wrapping_add(self.start)
        }
    }

    /// The elements of [`Stages::beside`](super::ring::Stages::beside), as `all`, that belong to the part's elements, in shared memory: the first of
    /// them, behind 16 bytes of those before, unless it is the first of all. `None` where not all of the part's are there, or
    /// what is there are elements of another size.
    #[inline(always)]
    pub fn beside<K>(self, all: &[K]) -> Option<*const K> {
        let is_there = self.beside_bytes == size_of::<K>()
            && is_whole(all.as_ptr(), all.len(), self.start, self.room());
        is_there.then_some(self.beside.cast())
    }

    /// [`Stages::NOTE_WORDS`](super::ring::Stages::NOTE_WORDS) words of this lane.
    #[inline(always)]
    pub fn note(self) -> *mut u32 {
        self.note
    }

    /// How many elements it has.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.x.len().saturating_sub(self.start).min(self.room())
    }

    /// How many it has room for.
    #[inline(always)]
    pub fn room(self) -> usize {
        part_len::<T>(P)
    }

    /// Whether there are no elements in it.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.start >= self.x.len()
    }

    /// Whether the last of all elements is in it.
    #[inline(always)]
    pub fn is_last(self) -> bool {
        !self.is_empty() && self.x.len() - self.start <= self.room()
    }

    /// This lane's packs; `filler` past the end.
    #[inline(always)]
    pub fn packs(self, filler: T) -> [Pack; P] {
        if is_whole(self.x.as_ptr(), self.x.len(), self.start, self.room()) {
            let own = self.memory.wrapping_add(self.lane);
            // SAFETY: the stage is full, with all of this part.
            return build(|k| unsafe { own.add(32 * k).read() });
        }
        build(|k| {
            let elements = self.x.as_ptr().wrapping_add(self.first(k));
            let inside = inside::<T>(self.x.len(), self.first(k));
            // SAFETY: so many of the pack's elements are inside the slice.
            pack_of(|e| if e < inside { unsafe { elements.add(e).read() } } else { filler })
        })
    }

    /// Writes this lane's packs to the same places of `out`, as far as there are elements.
    ///
    /// # Safety
    /// `out` is valid for writes of as many elements as there are in `x`, and no other warp has this part.
    #[inline(always)]
    pub unsafe fn store(self, out: *mut T, mut pack: impl FnMut(usize) -> Pack) {
        if is_whole(out, self.x.len(), self.start, self.room()) {
            let own = out.wrapping_add(self.first(0)).cast::<Pack>();
            // SAFETY: inside the memory, at a multiple of 16 bytes. The compiler does not take this store apart to share it
            // with those below.
            return each(P, |k| unsafe {
                access::store(&mut *own.add(32 * k), pack(k), StoreHint::WriteBack);
            });
        }
        each(P, |k| {
            let elements = out.wrapping_add(self.first(k));
            let (inside, pack) = (inside::<T>(self.x.len(), self.first(k)), pack(k));
            each(per_pack::<T>(), |e| {
                if e < inside {
                    // SAFETY: so many of the pack's elements are inside the memory.
                    unsafe { elements.add(e).write(element(&pack, e)) };
                }
            });
        });
    }
}

/// Whether the part of `room` elements from element `start` on is inside `len` elements, and begins at a multiple of 16 bytes.
#[inline(always)]
fn is_whole<T>(elements: *const T, len: usize, start: usize, room: usize) -> bool {
    elements.cast::<Pack>().is_aligned() && start + room <= len
}
