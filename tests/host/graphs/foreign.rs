//! Work of others among the nodes: what they give to a stream through the driver alone.

use std::ffi::c_void;
use std::ptr;

use cuda_driver::sys;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::resource::StreamRef;

use super::*;

fn asked(operation: &'static str, code: sys::CUresult) -> GpuResult<()> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    panic!("{operation} answers {code:?}");
}

fn handle(stream: StreamRef) -> sys::CUstream {
    stream.as_raw().cast()
}

/// A kernel of a module that this crate knows nothing of.
struct Churn(sys::CUfunction);

impl Churn {
    /// For as long as the process lives. The context is this thread's already.
    fn load() -> GpuResult<Self> {
        let ptx = format!("{}\0", include_str!("../kernels.ptx"));
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the text and the name end with 0, and both places are writable.
        unsafe {
            asked(
                "cuModuleLoadData",
                sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast_mut().cast()),
            )?;
            let name = c"churn".as_ptr();
            asked("cuModuleGetFunction", sys::cuModuleGetFunction(&mut function, module, name))?;
        }
        Ok(Self(function))
    }

    /// Steps each word of `words` as [`churn`] does, by the driver alone.
    fn launch(&self, stream: sys::CUstream, words: u64, rounds: u32) -> GpuResult<()> {
        let (len, block) = (LEN as u64, 128);
        let params: [*mut c_void; 3] = [
            (&raw const words).cast_mut().cast(),
            (&raw const len).cast_mut().cast(),
            (&raw const rounds).cast_mut().cast(),
        ];
        let (blocks, params) = (LEN as u32 / block, params.as_ptr().cast());
        let extra = ptr::null();
        // SAFETY: these are the kernel's parameters, and the words are there.
        let code = unsafe {
            sys::cuLaunchKernel(self.0, blocks, 1, 1, block, 1, 1, 0, stream, params, extra)
        };
        asked("cuLaunchKernel", code)
    }
}

#[test]
fn launches_and_copies_of_others_are_replayed_in_order() -> GpuResult<()> {
    let (mut a, mut b, mut c) = (words(1)?, words(0)?, words(4)?);
    let churn_of_others = Churn::load()?;
    let [from, to] = [&a, &b].map(|words| words.as_device_ptr().address());
    let builder = builder();
    let nodes = ["fill", "others", "beside", "churn"].map(|name| builder.node(name));
    fill(&nodes[0], &mut a.slice_mut(..LEN / 2), 9)?;
    let memory = ForeignMemory::new().writes(&mut a).writes(&mut b);
    let others = |stream: StreamRef| {
        let stream = handle(stream);
        churn_of_others.launch(stream, from, 5)?;
        // SAFETY: both have as many bytes.
        asked("the copy", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, 4 * LEN, stream) })
    };
    // SAFETY: `others` uses what `memory` says, and its kernel stays loaded.
    unsafe { nodes[1].foreign(memory, others) }?;
    churn(&nodes[2], &mut c, 1)?;
    churn(&nodes[3], &mut b, 2)?;
    // Nothing has run.
    assert_eq!((a.to_vec()?, b.to_vec()?), (vec![1; LEN], vec![0; LEN]));
    let mut graph = builder.build((a, b, c))?;
    assert_eq!(before(&graph, &nodes[1]), ["fill"]);
    assert_eq!(before(&graph, &nodes[2]), [""; 0]);
    assert_eq!(before(&graph, &nodes[3]), ["others"]);
    assert!(graph.to_dot().contains("others\\n2 nodes of others"), "{}", graph.to_dot());
    for round in 1..4 {
        graph.launch(gpu())?;
        let (a, b, _) = graph.wait()?;
        assert_eq!(
            a.slice(LEN / 2 - 1..=LEN / 2).to_vec()?,
            [churned(9, 5), churned(1, 5 * round)]
        );
        assert_eq!(
            b.slice(LEN / 2 - 1..=LEN / 2).to_vec()?,
            [churned(9, 7), churned(1, 5 * round + 2)]
        );
    }
    Ok(())
}

#[test]
fn work_of_others_goes_with_its_graph_but_not_to_other_memory() -> GpuResult<()> {
    let (mut a, inner) = (words(1)?, builder());
    let churn_of_others = Churn::load()?;
    let address = a.as_device_ptr().address();
    let node = inner.node("others");
    let memory = ForeignMemory::new().writes(&mut a);
    // SAFETY: the launch uses what is said, and its kernel stays loaded.
    unsafe { node.foreign(memory, |stream| churn_of_others.launch(handle(stream), address, 3)) }?;
    let mut inner = inner.build(a)?;
    let outer = builder();
    (0..2).try_for_each(|_| outer.node("child").graph(&mut inner))?;
    let mut outer = outer.build(inner.into_buffers())?;
    outer.launch(gpu())?;
    assert_eq!(outer.wait()?.to_vec()?, [churned(1, 6); LEN]);
    let own = std::mem::replace(outer.buffers_mut(), words(2)?);
    let error = refused(outer.launch(gpu()));
    let node = "child".to_owned();
    assert_eq!(error, GraphError::OtherMemory { node, argument: "memory" });
    *outer.buffers_mut() = own;
    outer.launch(gpu())?;
    assert_eq!(outer.wait()?.to_vec()?, [churned(1, 12); LEN]);
    Ok(())
}

#[test]
fn memory_of_others_that_the_graph_does_not_have_is_refused() -> GpuResult<()> {
    let mut a = words(1)?;
    let churn_of_others = Churn::load()?;
    let address = a.as_device_ptr().address();
    let nodes = |a: &mut DeviceBuffer<u32>| -> GpuResult<_> {
        let (builder, memory) = (builder(), ForeignMemory::new().writes(a));
        let others = |stream: StreamRef| churn_of_others.launch(handle(stream), address, 3);
        // SAFETY: the launch uses what is said, and its kernel stays loaded.
        unsafe { builder.node("others").foreign(memory, others) }?;
        Ok(builder)
    };
    let (node, argument) = ("others".to_owned(), "memory");
    let error = refused(nodes(&mut a)?.build(()));
    assert_eq!(error, GraphError::NotOwned { node: node.clone(), argument });
    let builder = nodes(&mut a)?;
    assert_eq!(refused(builder.build(&a)), GraphError::WritesShared { node, argument });
    Ok(())
}

/// What waits for a captured stream breaks the capture, whatever it does with the answer.
#[test]
fn a_capture_that_others_break_is_told_with_what_to_do() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(1)?);
    let churn_of_others = Churn::load()?;
    let node = builder.node("others");
    let address = a.as_device_ptr().address();
    let breaking = |stream: StreamRef| {
        churn_of_others.launch(handle(stream), address, 3)?;
        // SAFETY: the stream lives.
        let code = unsafe { sys::cuStreamSynchronize(handle(stream)) };
        assert_eq!(code, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        Ok(())
    };
    // SAFETY: the launch uses what is said, and its kernel stays loaded.
    let error = unsafe { node.foreign(ForeignMemory::new().writes(&mut a), breaking) }.unwrap_err();
    let driver = error.driver().expect("the driver's answer");
    assert_eq!(driver.name(), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    assert!(driver.hint().is_some_and(|hint| hint.contains("before the capture")), "{error}");
    assert!(error.to_string().contains("in node `others` of a graph"), "{error}");
    // The node is as it was, and so is the thread.
    fill(&node, &mut a, 3)?;
    let mut graph = builder.build(a)?;
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.to_vec()?, [3; LEN]);
    Ok(())
}

#[test]
fn others_that_fail_panic_or_do_nothing_make_no_node() -> GpuResult<()> {
    let (builder, a) = (builder(), words(1)?);
    let node = builder.node("others");
    let none = ForeignMemory::new;
    let missing = || GpuError::Unsupported { what: "what they wanted" };
    // SAFETY: nothing is used.
    let failed = unsafe { node.foreign(none(), |_| Err(missing())) }.unwrap_err();
    assert!(matches!(failed.root(), GpuError::Unsupported { .. }), "{failed}");
    // SAFETY: as above.
    let panicked = || unsafe { node.foreign(none(), |_| panic!("others")) };
    assert!(catch_unwind(AssertUnwindSafe(panicked)).is_err());
    // SAFETY: as above.
    let error = refused(unsafe { node.foreign(none().reads(&a), |_| Ok(())) });
    assert_eq!(error, GraphError::NothingCaptured { node: "others".to_owned() });
    assert!(error.to_string().contains("called with"), "{error}");
    node.host(|| {})?;
    builder.build(a)?.launch(gpu())
}

/// A wait for the whole device would break a capture, so it waits for the capture's end.
#[test]
fn device_waits_of_other_threads_break_no_capture() -> GpuResult<()> {
    let (a, over) = (words(1)?, AtomicU32::new(0));
    let address = a.as_device_ptr().address();
    let churn_of_others = Churn::load()?;
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| -> GpuResult<()> {
            while over.load(Ordering::Relaxed) == 0 {
                gpu().synchronize()?;
            }
            Ok(())
        });
        let captured = (0..50).try_for_each(|_| {
            let (builder, memory) = (builder(), ForeignMemory::new().reads(&a));
            let others = |stream: StreamRef| {
                churn_of_others.launch(handle(stream), address, 1)?;
                std::thread::sleep(std::time::Duration::from_micros(200));
                Ok(())
            };
            // SAFETY: the graph is never launched.
            unsafe { builder.node("others").foreign(memory, others) }
        });
        over.store(1, Ordering::Relaxed);
        waits.join().expect("no panic").and(captured)
    })
}

#[test]
fn the_crate_itself_is_refused_among_others() -> GpuResult<()> {
    let (builder, a) = (builder(), words(1)?);
    let node = builder.node("others");
    type Ask = fn(&DeviceBuffer<u32>) -> GpuResult<()>;
    let asks: [Ask; 4] = [
        |_| gpu().synchronize(),
        |_| DeviceBuffer::<u32>::zeroed(gpu(), 4).map(drop),
        |a| a.to_vec().map(drop),
        |_| builder_in_use(),
    ];
    for ask in asks {
        // SAFETY: nothing is used.
        let error = refused(unsafe { node.foreign(ForeignMemory::new(), |_| ask(&a)) });
        assert!(matches!(error, GraphError::NotCapturable { .. }), "{error}");
    }
    // And is not any more behind it.
    gpu().synchronize()
}

fn builder_in_use() -> GpuResult<()> {
    // SAFETY: nothing is used.
    unsafe { builder().node("inner").foreign(ForeignMemory::new(), |_| Ok(())) }
}

/// Fills the words with this byte, by the driver alone.
fn fill_bytes(stream: StreamRef, address: u64, byte: u8) -> GpuResult<()> {
    // SAFETY: the words are there, and the stream lives.
    asked("cuMemsetD8Async", unsafe {
        sys::cuMemsetD8Async(address, byte, 4 * LEN, handle(stream))
    })
}

#[test]
fn work_of_others_on_a_stream_is_in_order_with_uses_on_other_streams() -> GpuResult<()> {
    let (mut a, stream) = (words(1)?, gpu().create_stream()?);
    let churn_of_others = Churn::load()?;
    let address = a.as_device_ptr().address();
    for round in 1..=3 {
        // Takes its time, on the buffer's own stream.
        churn(gpu(), &mut a, 2000)?;
        let memory = ForeignMemory::new().writes(&mut a);
        // SAFETY: the launch uses what is said, and its kernel stays loaded.
        unsafe {
            stream.foreign("others", memory, |stream| {
                churn_of_others.launch(handle(stream), address, 5)
            })?;
        }
        churn(gpu(), &mut a, 1)?;
        assert_eq!(a.to_vec()?, [churned(1, 2006 * round); LEN]);
    }
    Ok(())
}

#[test]
fn work_of_others_that_fails_is_in_order_all_the_same() -> GpuResult<()> {
    let (mut a, stream) = (words(1)?, gpu().create_stream()?);
    let address = a.as_device_ptr().address();
    churn(gpu(), &mut a, 2000)?;
    let memory = ForeignMemory::new().writes(&mut a);
    let half_done = |stream: StreamRef| {
        fill_bytes(stream, address, 1)?;
        Err(GpuError::Unsupported { what: "the second half" })
    };
    // SAFETY: the fill writes what is said.
    let error = unsafe { stream.foreign("halves", memory, half_done) }.unwrap_err();
    assert!(error.to_string().contains("`halves`"), "{error}");
    churn(gpu(), &mut a, 3)?;
    assert_eq!(a.to_vec()?, [churned(0x0101_0101, 3); LEN]);
    Ok(())
}

#[test]
fn work_of_others_on_a_captured_stream_is_a_node() -> GpuResult<()> {
    let mut a = words(1)?;
    let address = a.as_device_ptr().address();
    let builder = builder();
    builder.capture(|| {
        let memory = ForeignMemory::new().writes(&mut a);
        // SAFETY: the fill writes what is said.
        unsafe { gpu().stream().foreign("bytes", memory, |own| fill_bytes(own, address, 2)) }?;
        churn(gpu(), &mut a, 3)
    })?;
    let mut graph = builder.build(a)?;
    assert_eq!(graph.predecessors(&graph.node("churn")?)?, ["bytes"]);
    assert_eq!(graph.buffers().to_vec()?, [1; LEN]);
    for _ in 0..2 {
        graph.launch(gpu())?;
        assert_eq!(graph.wait()?.to_vec()?, [churned(0x0202_0202, 3); LEN]);
    }
    Ok(())
}

#[test]
fn memory_that_is_lent_to_a_peer_is_not_for_others_on_a_stream() -> GpuResult<()> {
    let (mut a, access) = (words(1)?, gpu().enable_peer_access(gpu())?);
    let memory = ForeignMemory::new().writes(&mut a.peer_slice_mut(&access)?);
    // SAFETY: nothing is used.
    let error = unsafe { gpu().stream().foreign("others", memory, |_| Ok(())) }.unwrap_err();
    assert!(matches!(error.root(), GpuError::Unsupported { .. }), "{error}");
    Ok(())
}
