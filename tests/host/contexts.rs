//! Contexts that other code has made: here by the driver's functions.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_driver::sys;
use ferrowarp::{AsStream, DeviceBuffer, Gpu, GpuError, GpuResult, Stream};

use crate::adopted::becomes;
use crate::child::{child, children, lines};
use crate::kernels::{IMAGES, add, churn, churned, fill, gpu};

const LEN: usize = 1000;
const SUCCESS: sys::CUresult = sys::CUresult::CUDA_SUCCESS;

/// How other code ends a context.
#[derive(Clone, Copy)]
enum Ends {
    Destroyed(sys::CUcontext),
    Released,
    Never,
}

/// Ends a context of other code, and notes that.
struct Owner {
    ends: Ends,
    is_ended: Arc<AtomicBool>,
}

// SAFETY: the driver's functions for contexts may be called from any thread.
unsafe impl Send for Owner {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Owner {}

impl Owner {
    /// With what tells whether it was dropped.
    fn new(ends: Ends) -> (Self, Arc<AtomicBool>) {
        let is_ended = Arc::new(AtomicBool::new(false));
        (Self { ends, is_ended: is_ended.clone() }, is_ended)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the context was made, or retained, once for this owner.
        let code = unsafe {
            match self.ends {
                Ends::Destroyed(context) => sys::cuCtxDestroy_v2(context),
                Ends::Released => sys::cuDevicePrimaryCtxRelease_v2(0),
                Ends::Never => SUCCESS,
            }
        };
        assert_eq!(code, SUCCESS);
        assert!(!self.is_ended.swap(true, Ordering::AcqRel), "it is ended once");
    }
}

/// A context of its own, which is not current on this thread.
fn created() -> sys::CUcontext {
    gpu();
    let (mut context, mut popped) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: both places are writable.
    let codes =
        unsafe { [sys::cuCtxCreate_v2(&mut context, 0, 0), sys::cuCtxPopCurrent_v2(&mut popped)] };
    assert_eq!((codes, context), ([SUCCESS; 2], popped));
    context
}

/// A device of the context, with the kernels of these tests, and whether the context has ended.
fn opened(context: sys::CUcontext, ends: Ends) -> GpuResult<(Gpu, Arc<AtomicBool>)> {
    let (owner, is_ended) = Owner::new(ends);
    // SAFETY: the context exists until its owner is dropped.
    let opened = unsafe { Gpu::from_context(context.cast(), owner)? };
    Ok((opened.load_module(IMAGES), is_ended))
}

/// A device of a context of its own.
fn own() -> GpuResult<(Gpu, Arc<AtomicBool>)> {
    let context = created();
    opened(context, Ends::Destroyed(context))
}

#[track_caller]
fn is_of_another_context<T>(result: GpuResult<T>, what: &str) {
    let error = result.err().expect("it is of another context");
    assert!(matches!(error.root(), GpuError::WrongContext { ordinal: 0, .. }), "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

/// One after the other: to make a context, or to end one, a driver may wait for its callbacks, which other tests of this program hold up.
#[test]
fn contexts_of_other_code() {
    let output = children("contexts::alone::");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("9 passed"), "{text}\n{errors}");
}

mod alone {
    use super::*;

    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn a_context_of_other_code_is_a_device_and_ends_with_what_was_made_on_it() -> GpuResult<()> {
        let context = created();
        let (own, is_ended) = opened(context, Ends::Destroyed(context))?;
        assert_eq!((own.info().ordinal, own.name()), (0, gpu().name()));
        assert_eq!(own.as_raw_context(), context.cast());
        let mut words = DeviceBuffer::from_slice(&own, &[3u32; LEN])?;
        churn(&own, &mut words, 4)?;
        let pooled = DeviceBuffer::<u32>::zeroed_async(&own, LEN)?;
        drop(own);
        assert_eq!((words.to_vec()?, pooled.to_vec()?), (vec![churned(3, 4); LEN], vec![0; LEN]));
        drop(pooled);
        assert!(!is_ended.load(Ordering::Acquire), "the words have it");
        drop(words);
        assert!(becomes(&is_ended));
        Ok(())
    }

    /// Its operations have kernels of their own, which are loaded into the context.
    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn operations_run_in_it() -> GpuResult<()> {
        let context = created();
        let (owner, is_ended) = Owner::new(Ends::Destroyed(context));
        // SAFETY: the context exists until its owner is dropped.
        let own = unsafe { Gpu::from_context(context.cast(), owner)? };
        let x = DeviceBuffer::from_slice(&own, &[1.0f32, 2.0, 4.0])?;
        assert_eq!(ferrowarp::ops::reduce::sum(&own, &x)?, 7.0);
        drop((own, x));
        assert!(becomes(&is_ended));
        Ok(())
    }

    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn a_primary_context_of_other_code_is_the_one_that_others_have() -> GpuResult<()> {
        gpu();
        let mut context = ptr::null_mut();
        // SAFETY: the place is writable.
        assert_eq!(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, 0) }, SUCCESS);
        let (theirs, is_ended) = opened(context, Ends::Released)?;
        assert_eq!(theirs.as_raw_context(), gpu().as_raw_context());
        // Memory of one is an argument of the other.
        let mut words = DeviceBuffer::from_slice(gpu(), &[3u32; LEN])?;
        churn(&theirs, &mut words, 2)?;
        assert_eq!(words.to_vec()?, [churned(3, 2); LEN]);
        drop(theirs);
        assert!(becomes(&is_ended));
        churn(gpu(), &mut words, 1)?;
        assert_eq!(words.to_vec()?, [churned(3, 3); LEN]);
        Ok(())
    }

    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn a_borrowed_context_is_left_to_its_owner() -> GpuResult<()> {
        let context = created();
        let (own, is_dropped) = opened(context, Ends::Never)?;
        let words = DeviceBuffer::from_slice(&own, &[7u32; LEN])?;
        assert_eq!(words.to_vec()?, [7; LEN]);
        drop((words, own));
        assert!(becomes(&is_dropped));
        // It still exists, once more as a device too.
        let (again, is_ended) = opened(context, Ends::Destroyed(context))?;
        again.synchronize()?;
        drop(again);
        assert!(becomes(&is_ended));
        Ok(())
    }

    /// Each call makes the context of its device current, whatever was current before.
    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn two_contexts_and_the_primary_one_take_turns_on_a_thread_and_on_others() -> GpuResult<()> {
        let ((first, _), (second, _)) = (own()?, own()?);
        thread::scope(|scope| {
            let threads = [1u32, 2].map(|seed| {
                let gpus = [first.clone(), gpu().clone(), second.clone()];
                scope.spawn(move || -> GpuResult<()> {
                    let mut words: Vec<_> = (0..3)
                        .map(|i| DeviceBuffer::from_slice(&gpus[i], &[seed + i as u32; LEN]))
                        .collect::<GpuResult<_>>()?;
                    for _ in 0..5 {
                        gpus.iter()
                            .zip(&mut words)
                            .try_for_each(|(gpu, own)| churn(gpu, own, 1))?;
                    }
                    for (i, own) in words.iter().enumerate() {
                        assert_eq!(own.to_vec()?, [churned(seed + i as u32, 5); LEN]);
                    }
                    Ok(())
                })
            });
            threads.into_iter().try_for_each(|own| own.join().expect("no panic"))
        })
    }

    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn two_contexts_of_a_device_share_nothing_but_copies() -> GpuResult<()> {
        let ((first, _), (second, _)) = (own()?, own()?);
        let mut words = DeviceBuffer::from_slice(&first, &[5u32; LEN])?;
        is_of_another_context(fill(&second, &mut words, 1), "an argument");
        is_of_another_context(fill(gpu(), &mut words, 1), "an argument");
        let mut there = DeviceBuffer::<u32>::zeroed(&second, LEN)?;
        is_of_another_context(there.copy_from_device(&words), "the source of the copy");
        assert!(!first.can_access_peer(&second)?);
        assert!(first.enable_peer_access(&second).is_err());
        assert!(first.can_access_peer(&first.clone())?);
        there.copy_from_peer(&words)?;
        churn(&second, &mut there, 1)?;
        assert_eq!((words.to_vec()?, there.to_vec()?), (vec![5; LEN], vec![churned(5, 1); LEN]));
        Ok(())
    }

    /// `cust` has allocated it in the primary context.
    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn memory_of_cust_is_of_the_context_in_which_it_was_allocated() -> GpuResult<()> {
        let (own, _) = own()?;
        let _context = cust::quick_init()?;
        let one = cust::memory::DeviceBox::new(&1u32)?;
        let theirs = cust::memory::DeviceBuffer::from_slice(&[1u32; LEN])?;
        // Each call from here on makes the other context current.
        let many = DeviceBuffer::from_slice(&own, &[2u32; LEN])?;
        let mut out = DeviceBuffer::<u32>::zeroed(&own, LEN)?;
        is_of_another_context(add(&own, &one, &many, &mut out), "an argument");
        is_of_another_context(DeviceBuffer::from_cust(&own, theirs), "the buffer of cust");
        assert_eq!(out.to_vec()?, [0; LEN]);
        Ok(())
    }

    /// Memory and a stream that other code has made in its context.
    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn memory_and_streams_of_the_context_are_used_where_they_are() -> GpuResult<()> {
        let (own, _) = own()?;
        // The calls below are made in this context.
        own.synchronize()?;
        let (mut address, mut raw) = (0, ptr::null_mut());
        // SAFETY: both places are writable, and the memory is as long as what is written.
        let codes = unsafe {
            [
                sys::cuMemAlloc_v2(&mut address, 4 * LEN),
                sys::cuStreamCreate(&mut raw, 1),
                sys::cuMemsetD32Async(address, 9, LEN, raw),
            ]
        };
        assert_eq!(codes, [SUCCESS; 3]);
        // SAFETY: the stream exists until it is destroyed below, after the last use.
        is_of_another_context(unsafe { Stream::from_raw(gpu(), raw.cast(), ()) }, "the stream");
        // SAFETY: as above.
        let stream = unsafe { Stream::from_raw(&own, raw.cast(), ())? };
        // SAFETY: the words are there until they are freed below, and written in the stream's order.
        let mut words = unsafe { DeviceBuffer::<u32>::from_raw_parts(&stream, address, LEN, ())? };
        churn(&stream, &mut words, 3)?;
        assert_eq!(words.to_vec()?, [churned(9, 3); LEN]);
        drop(words);
        stream.as_stream().synchronize()?;
        drop(stream);
        // SAFETY: nothing uses them any more.
        let codes = unsafe { [sys::cuStreamDestroy_v2(raw), sys::cuMemFree_v2(address)] };
        assert_eq!(codes, [SUCCESS; 2]);
        Ok(())
    }

    #[test]
    #[ignore = "run in a process of its own by the test above"]
    fn a_null_handle_is_refused_and_its_owner_dropped() {
        let (owner, is_dropped) = Owner::new(Ends::Never);
        // SAFETY: a null handle is refused.
        let error = unsafe { Gpu::from_context(ptr::null_mut(), owner) }.unwrap_err();
        assert!(matches!(error.root(), GpuError::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains("no context is current"), "{error}");
        assert!(is_dropped.load(Ordering::Acquire));
    }
}

/// The emulator tells contexts that do not exist from those that do; an NVIDIA driver may crash.
#[test]
fn the_emulator_names_a_context_that_it_does_not_have() {
    let output = child("contexts::contexts_that_do_not_exist", &[("FERROWARP_DEVICE", "emulator")]);
    let found = lines(&output, "error: ");
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[0].contains("on the emulator, which has no context of an NVIDIA driver"));
    assert!(found[1..].iter().all(|error| error.contains("the device is lost")), "{found:?}");
}

#[test]
#[ignore = "run on the emulator by the test above"]
fn contexts_that_do_not_exist() {
    fn report<T>(result: GpuResult<T>) {
        println!("error: {}", result.err().expect("an error"));
    }
    let (owner, is_dropped) = Owner::new(Ends::Never);
    let theirs = Box::into_raw(Box::new(0u64));
    // SAFETY: the emulator looks its handles up, and this is none.
    report(unsafe { Gpu::from_context(theirs.cast(), owner) });
    // SAFETY: it was made above.
    drop(unsafe { Box::from_raw(theirs) });
    assert!(is_dropped.load(Ordering::Acquire));

    let context = created();
    let (own, _) = opened(context, Ends::Never).expect("it exists");
    let mut words = DeviceBuffer::from_slice(&own, &[1u32; LEN]).expect("it exists");
    let event = own.stream().record_event().expect("it exists");
    // SAFETY: on the emulator, what is left of the context returns errors from now on.
    assert_eq!(unsafe { sys::cuCtxDestroy_v2(context) }, SUCCESS);
    report(fill(&own, &mut words, 2));
    report(words.to_vec());
    report(own.create_stream());
    let elsewhere = own.clone();
    report(thread::spawn(move || elsewhere.synchronize()).join().expect("no panic"));
    assert!(own.is_lost());
    // Drops must neither panic nor hang, and the primary context works.
    drop((event, words, own));
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), LEN).expect("the device works");
    fill(gpu(), &mut words, 4).expect("the device works");
    assert_eq!(words.to_vec().expect("the device works"), [4; LEN]);
}
