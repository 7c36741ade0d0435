//! The heap, sizes of shared memory, kinds of pointers, clocks.

use cuda_std::mem;
use cuda_std::misc;
use cuda_std::prelude::*;
use cuda_std::ptr::{self, AddressSpace};

/// Each thread sorts its own numbers in a vector, and prints them into a string.
///
/// # Safety
/// `out: [threads]`.
#[kernel]
pub unsafe fn heap(out: *mut u64) {
    let own = thread::index() as usize;
    let mut numbers: Vec<u32> =
        (0..own as u32 + 1).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    numbers.sort_unstable();
    let text = format!("{:?}", numbers.first());
    let boxed: Box<[u32]> = numbers.into_boxed_slice();
    let shared = Rc::new(boxed);
    let again = Rc::clone(&shared);
    let sum: u64 = again.iter().map(|&x| u64::from(x)).sum();
    // SAFETY: the caller's promise.
    unsafe { out.add(own).write(sum + text.len() as u64) };
}

/// Aligned to more than the heap is.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub struct Line([u32; 32]);

/// # Safety
/// `out: [threads]`.
#[kernel]
pub unsafe fn aligned_heap(out: *mut u64) {
    let own = thread::index();
    let lines: Vec<Box<Line>> = (0..3).map(|i| Box::new(Line([own + i; 32]))).collect();
    let is_aligned = lines.iter().all(|line| (&raw const **line).addr() % 128 == 0);
    let sum: u32 = lines.iter().map(|line| line.0[31]).sum();
    // SAFETY: the caller's promise.
    unsafe { out.add(own as usize).write(u64::from(sum) << 1 | u64::from(is_aligned)) };
}

/// Through the functions themselves.
///
/// # Safety
/// `out: [2]`, one thread.
#[kernel]
pub unsafe fn raw_heap(bytes: usize, out: *mut u64) {
    // SAFETY: memory of its own, if there is any.
    unsafe {
        // Hidden, or the compiler drops the whole allocation.
        let memory = core::hint::black_box(mem::malloc(bytes)).cast::<u64>();
        out.add(1).write(u64::from(memory.is_null()));
        if !memory.is_null() {
            memory.write(7);
            out.write(memory.read());
            mem::free(memory.cast());
        }
    }
}

/// # Safety
/// `out: [16]`, one thread, 48 bytes of dynamic shared memory.
#[kernel]
pub unsafe fn spaces(out: *mut u64) {
    let mut local = [0u32; 4];
    let local_ptr = core::hint::black_box(&raw mut local);
    let shared_ptr = cuda_std::shared::dynamic_shared_mem::<u32>();
    let mut next = out;
    let mut put = |value: u64| {
        // SAFETY: the caller's promise.
        unsafe {
            next.write(value);
            next = next.add(1);
        }
    };
    for pointer in [out.cast::<u8>(), shared_ptr.cast(), local_ptr.cast()] {
        for space in [AddressSpace::Global, AddressSpace::Shared, AddressSpace::Local] {
            // SAFETY: a generic pointer.
            put(u64::from(unsafe { ptr::is_in_address_space(pointer, space) }));
        }
    }
    // SAFETY: the pointers lead to these memories.
    unsafe {
        let inside =
            ptr::convert_generic_to_specific_address_space(shared_ptr, AddressSpace::Shared);
        put(u64::from(inside.addr() < 1 << 18));
        let back = ptr::convert_specific_address_space_to_generic(inside, AddressSpace::Shared);
        put(u64::from(back == shared_ptr));
        put(u64::from(ptr::is_in_address_space(out, AddressSpace::Constant)));
    }
    put(u64::from(mem::dynamic_smem_size()));
    put(u64::from(mem::total_smem_size()));
    misc::profiler_counter(3);
    let start = misc::clock();
    thread::nanosleep(200);
    put(u64::from(misc::clock() > start));
    put(0);
}

#[kernel]
pub fn stop() {
    misc::breakpoint();
}
