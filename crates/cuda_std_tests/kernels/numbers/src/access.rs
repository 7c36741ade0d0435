//! Loads and stores with hints, of each size.

use cuda_std::access::{self, Access, CacheLevel, LoadHint, Policy, ReadOnlyHint, StoreHint};
use cuda_std::prelude::*;
use cuda_std::vector;

/// Copies each value by loads and stores of a hint each, 14 times over: `y[k * n + i] = x[i]`.
fn copies<T: Access>(index: ThreadIndex, x: &[T], mut y: DisjointSlice<T>) {
    let Some(x) = x.get(index.get()) else { return };
    access::prefetch(x, CacheLevel::L1);
    access::prefetch(x, CacheLevel::L2);
    access::prefetch(x, CacheLevel::L2EvictLast);
    let mut next = index;
    let mut put = |value: T, hint: StoreHint| {
        access::store(y.get_mut(next).expect("room"), value, hint);
        next = next.stride(1);
    };
    // SAFETY: an input of the kernels here, which nobody writes.
    let read_only = |hint| unsafe { access::load_read_only(x, hint) };
    put(read_only(ReadOnlyHint::AllLevels), StoreHint::WriteBack);
    put(read_only(ReadOnlyHint::NoAllocate), StoreHint::L2);
    put(read_only(ReadOnlyHint::Prefetch128), StoreHint::Streaming);
    put(read_only(ReadOnlyHint::Prefetch256), StoreHint::WriteThrough);
    put(read_only(ReadOnlyHint::NoAllocatePrefetch256), StoreHint::NoAllocate);
    put(access::load(x, LoadHint::AllLevels), StoreHint::EvictFirst);
    put(access::load(x, LoadHint::L2), StoreHint::EvictLast);
    put(access::load(x, LoadHint::Streaming), StoreHint::WriteBack);
    put(access::load(x, LoadHint::LastUse), StoreHint::WriteBack);
    put(access::load(x, LoadHint::NoAllocate), StoreHint::WriteBack);
    put(access::load(x, LoadHint::EvictFirst), StoreHint::WriteBack);
    put(access::load(x, LoadHint::EvictLast), StoreHint::WriteBack);
    policies(x, y.get_mut(index.stride(12)).expect("room"));
    // SAFETY: elements of the thread's own.
    unsafe {
        let value = access::load_volatile(x);
        access::store_volatile(y.get_mut(index.stride(13)).expect("room"), value);
    }
}

/// Copies a value three times to the same place, by a policy each.
fn policies<T: Access>(x: &T, y: &mut T) {
    access::store_by(y, access::load_by(x, Policy::evict_first(1.0)), Policy::evict_last(0.5));
    let unchanged = Policy::evict_unchanged(1.0);
    access::store_by(y, access::load_by(x, unchanged), unchanged);
}

/// The copies that [`copies`] makes.
pub const COPIES: usize = 14;

/// One kernel for each type.
macro_rules! copies {
    ($($name:ident: $ty:ty;)*) => {$(
        #[kernel]
        pub fn $name(index: ThreadIndex, x: &[$ty], y: DisjointSlice<$ty>) {
            copies(index, x, y);
        }
    )*};
}

copies! {
    copies_of_u8: u8;
    copies_of_f16: f16;
    copies_of_f32: f32;
    copies_of_f64: f64;
    copies_of_vec2: Vec2<f64>;
    copies_of_vec4: Vec4<f32>;
    copies_of_vec8: Vec8<f16>;
}

/// One load and one store, for reading in the PTX.
#[kernel]
pub fn streaming_copy(index: ThreadIndex, x: &[Vec4<f32>], mut y: DisjointSlice<Vec4<f32>>) {
    if let Some(y) = y.get_mut(index) {
        // SAFETY: an input of the kernel, which nobody writes.
        let value = unsafe { access::load_read_only(&x[index.get()], ReadOnlyHint::AllLevels) };
        access::store(y, value, StoreHint::Streaming);
    }
}

/// Loads and stores that are told to a reference into shared memory.
#[kernel]
pub fn through_shared(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
    let tile = shared_array![u32; 64];
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: each thread has an element of its own.
    unsafe {
        access::store(
            &mut *tile.as_mut_ptr().add(thread % 64),
            access::load(&x[index.get()], LoadHint::L2),
            StoreHint::Streaming,
        );
        access::prefetch(&*tile.as_mut_ptr().add(thread % 64), CacheLevel::L1);
    }
    if let Some(y) = y.get_mut(index) {
        // SAFETY: the thread's own element, just written.
        let element = unsafe { &*tile.as_mut_ptr().add(thread % 64) };
        // SAFETY: it does not lie in global memory.
        *y = unsafe { access::load_read_only(element, ReadOnlyHint::AllLevels) };
    }
}

/// Sums of eight bytes each, by whole vectors; `sums` is as long as `x` has vectors.
#[kernel]
pub fn vector_sums(index: ThreadIndex, x: &[u8], mut sums: DisjointSlice<u32>) {
    let vectors = vector::whole::<Vec8<u8>>(x).expect("whole vectors");
    if let Some(sum) = sums.get_mut(index) {
        *sum = vectors[index.get()].to_array().into_iter().map(u32::from).sum();
    }
}
