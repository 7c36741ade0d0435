//! Versions of a module: side by side, under load, and at their end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::Duration;

use cuda_std::launch::{Contract, Kernel, LaunchConfig, Linear, Param, ParamKind};
use ferrowarp::graph::GraphBuilder;
use ferrowarp::reload::{ReloadEvent, Watch};
use ferrowarp::{AsStream, Backend, DeviceBuffer, Gpu, GpuError, GpuResult, HotModule};
use kernels_gpu::elementwise::vecadd;

use crate::kernels::{CHURN, IMAGES, churn, churned, image, launch};
use crate::stamps::{STAMP, load, next, one, ptx, stamp, stamped};

/// A hot module that starts with version 1, and keeps `keep`.
fn hot(keep: usize) -> (Gpu, HotModule) {
    let text: &'static str = ptx(1).leak();
    let gpu = Gpu::with_images(&[image(text)]).unwrap();
    let hot = Watch::nothing().keep(keep).start(&gpu).unwrap();
    (gpu, hot)
}

#[test]
fn versions_stand_side_by_side() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    assert_eq!(stamped(&gpu, &hot), 1);
    for number in 2..=4 {
        assert_eq!(load(&hot, ptx(number))?.number(), u64::from(number));
        assert_eq!(stamped(&gpu, &hot), number);
    }
    for number in [3, 1, 4, 2] {
        assert_eq!(stamped(&gpu, &hot.version(number)?), number as u32);
        assert_eq!(stamped(&gpu, &hot.version(number)?.gpu()), number as u32);
        let other = hot.version(number)?.on(&gpu.create_stream()?)?;
        assert_eq!(stamped(&gpu, &other), number as u32);
    }
    // What the program was made with does not change.
    assert_eq!(stamped(&gpu, &gpu), 1);
    assert_eq!(stamped(&gpu, &hot.on(&gpu)?), 4);
    Ok(())
}

#[test]
fn versions_are_listed_with_hash_time_and_size() -> GpuResult<()> {
    let (_, hot) = hot(3);
    let begin = hot.current().info().loaded_at;
    for number in [2, 3, 2] {
        load(&hot, ptx(number))?;
    }
    let infos: Vec<_> = hot.versions().iter().map(|version| version.info().clone()).collect();
    assert_eq!(infos.iter().map(|info| info.number).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(infos.iter().all(|info| info.arch == "sm_70" && info.bytes == ptx(1).len()));
    assert!(infos[0].hash == infos[2].hash && infos[0].hash != infos[1].hash);
    assert!(infos.is_sorted_by_key(|info| info.loaded_at) && infos[0].loaded_at >= begin);
    let error = hot.version(1).unwrap_err();
    assert_eq!(error.to_string(), "there is no version 1 of the module: 2, 3, 4 are kept");
    assert!(matches!(error, GpuError::NoVersion { asked: 1, .. }));
    Ok(())
}

#[test]
fn the_text_in_use_is_not_loaded_again() -> GpuResult<()> {
    let (_, hot) = hot(8);
    assert_eq!(load(&hot, ptx(1))?.number(), 1);
    assert_eq!(load(&hot, ptx(2))?.number(), 2);
    assert_eq!(load(&hot, ptx(2))?.number(), 2);
    assert_eq!(load(&hot, ptx(1))?.number(), 3);
    Ok(())
}

#[test]
fn each_launch_sees_one_version_while_a_hundred_are_swapped() {
    let (gpu, hot) = hot(2);
    let done = AtomicBool::new(false);
    let launches = |own_stream: bool| {
        let stream = gpu.create_stream().unwrap();
        let mut words = DeviceBuffer::zeroed(&stream, 1024).unwrap();
        let (mut last, mut seen) = (0, 0);
        while !done.load(Ordering::Relaxed) {
            match own_stream {
                true => stamp(&hot.on(&stream).unwrap(), &mut words).unwrap(),
                false => stamp(&hot, &mut words).unwrap(),
            }
            let number = one(&words.to_vec().unwrap());
            assert!(number >= last, "version {number} after {last}");
            (last, seen) = (number, seen + u32::from(number != last));
        }
        (last, seen)
    };
    let results = thread::scope(|scope| {
        let threads: Vec<_> =
            [true, false, true].map(|own| scope.spawn(move || launches(own))).into();
        for number in 2..=100 {
            load(&hot, ptx(number)).unwrap();
        }
        assert_eq!(stamped(&gpu, &hot), 100);
        done.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(results.iter().all(|(last, seen)| *last > 1 && *seen > 1), "{results:?}");
}

#[test]
fn what_does_not_load_leaves_the_version_in_use() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    let events = hot.events();
    let body = ptx(9);
    for broken in ["", "nonsense", &body[..body.len() / 2], &body.replace("st.u32", "frob.u32")] {
        let error = load(&hot, broken).unwrap_err();
        assert!(error.contexts().any(|what| what == "loading version 2"), "{error}");
        assert_eq!(stamped(&gpu, &hot), 1);
    }
    let error = load(&hot, body.replace("st.u32", "frob.u32")).unwrap_err();
    let log = error.driver().and_then(|driver| driver.detail()).expect("the driver's log");
    assert!(log.contains("frob"), "{log}");
    let error = load(&hot, body.replace("sm_70", "sm_130a")).unwrap_err();
    let (major, minor) = gpu.compute_capability();
    let line = format!("runs on compute capability {major}.{minor} (embedded: sm_130a)");
    assert!(error.to_string().contains(&line), "{error}");
    assert_eq!(load(&hot, ptx(2))?.number(), 2);
    // What the caller was told is no event.
    assert!(matches!(events.try_recv(), Err(TryRecvError::Empty)));
    Ok(())
}

static WIDER: Kernel = Kernel {
    name: "stamp",
    params: &[Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 }],
    contract: Contract::NONE,
};
static FIXED: Kernel = Kernel { contract: Contract::NONE.with_block([64, 1, 1]), ..STAMP };

#[test]
fn a_kernel_that_no_longer_fits_its_launcher_is_refused_and_named() -> GpuResult<()> {
    let (gpu, hot) = hot(8);
    assert_eq!(stamped(&gpu, &hot), 1);
    let other = |from: &str, to: &str| {
        assert!(ptx(2).contains(from));
        load(&hot, ptx(2).replace(from, to)).unwrap_err()
    };
    let error = other("u64 len)", "u64 len, .param .u32 more)");
    let GpuError::WrongParameters { kernel: "stamp", expected, found } = error.root() else {
        panic!("{error}")
    };
    assert_eq!((&expected[..], &found[..]), (&[8, 8, 4][..], &[8, 8][..]));
    let error = other("entry stamp", "entry stomp");
    let GpuError::NotFound { kernel, candidates, .. } = error.root() else { panic!("{error}") };
    assert_eq!((kernel.as_str(), &candidates[..]), ("stamp", &["stomp".to_owned()][..]));
    let error = other("len)\n", "len)\n.reqntid 32\n");
    assert!(matches!(error.root(), GpuError::ContractChanged { kernel: "stamp", .. }), "{error}");
    assert_eq!(stamped(&gpu, &hot), 1);
    Ok(())
}

#[test]
fn kernels_can_be_required_before_they_are_launched() {
    let start = |kernel| {
        let gpu = Gpu::with_images(&[]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), ptx(1).replace("len)\n", "len)\n.reqntid 64\n")).unwrap();
        // SAFETY: a text of these tests.
        unsafe { Watch::ptx(file.path()) }.require(&[kernel]).start(&gpu).map(drop)
    };
    start(&FIXED).unwrap();
    let error = start(&WIDER).unwrap_err();
    assert!(matches!(error.root(), GpuError::WrongParameters { .. }), "{error}");
    let error = start(&STAMP).unwrap_err();
    assert!(error.to_string().contains("loading the first version: "), "{error}");
    assert!(error.to_string().contains("gives blocks of any shape"), "{error}");
}

/// A while on either device.
fn rounds(gpu: &Gpu) -> u32 {
    if gpu.backend() == Backend::Cuda { 40_000_000 } else { 1_500_000 }
}

#[test]
fn a_version_is_unloaded_after_its_last_launch_has_run() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let hot = Watch::nothing().keep(1).start(&gpu)?;
    let events = hot.events();
    let text = |more: &str| format!("{}\n// {more}\n", IMAGES[0].ptx());
    load(&hot, text("second"))?;
    let rounds = rounds(&gpu);
    let stream = gpu.create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[7])?;
    churn(&hot.on(&stream)?, &mut words, rounds)?;
    let ran = stream.record()?;
    // From here on nobody can launch the second version; what was launched runs.
    load(&hot, text("third"))?;
    let number = next(&events, |event| match event {
        ReloadEvent::Unloaded { number } => Some(number),
        _ => None,
    });
    assert_eq!(number, 2);
    assert!(ran.has_passed()?, "the version went while its kernel ran");
    assert_eq!(words.to_vec()?, [churned(7, rounds)]);
    Ok(())
}

#[test]
fn a_stream_that_is_gone_still_holds_its_version() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let hot = Watch::nothing().keep(1).start(&gpu)?;
    let events = hot.events();
    let text = |more: &str| format!("{}\n// {more}\n", IMAGES[0].ptx());
    load(&hot, text("second"))?;
    let mut words = DeviceBuffer::from_slice(&gpu, &[7])?;
    let ran = {
        let version = hot.current().gpu();
        let stream = version.create_stream()?;
        launch(&stream, &CHURN, Linear::new(1, 1), &mut words, rounds(&gpu))?;
        stream.record()?
    };
    load(&hot, text("third"))?;
    next(&events, |event| matches!(event, ReloadEvent::Unloaded { number: 2 }).then_some(()));
    assert!(ran.has_passed()?, "the version went while its kernel ran");
    assert_eq!(words.to_vec()?, [churned(7, rounds(&gpu))]);
    Ok(())
}

#[test]
fn a_version_that_is_held_stays_loaded() -> GpuResult<()> {
    let (gpu, hot) = hot(1);
    let events = hot.events();
    load(&hot, ptx(2))?;
    let held = hot.current().on(&gpu.create_stream()?)?;
    load(&hot, ptx(3))?;
    load(&hot, ptx(4))?;
    let unloaded = |event| match event {
        ReloadEvent::Unloaded { number } => Some(number),
        _ => None,
    };
    // The third goes, and the second stays for its holder.
    assert_eq!(next(&events, unloaded), 3);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(stamped(&gpu, &held), 2);
    assert!(hot.version(2).is_err());
    drop(held);
    assert_eq!(next(&events, unloaded), 2);
    Ok(())
}

#[test]
fn a_version_outlives_its_hot_module() -> GpuResult<()> {
    let (gpu, hot) = hot(4);
    let second = load(&hot, ptx(2))?;
    let stream = second.on(&gpu)?;
    drop((hot, second));
    assert_eq!(stamped(&gpu, &stream), 2);
    Ok(())
}

#[test]
fn a_graph_stays_with_its_version_and_keeps_it() -> GpuResult<()> {
    let (gpu, hot) = hot(1);
    let events = hot.events();
    load(&hot, ptx(2))?;
    let mut words = DeviceBuffer::zeroed(&gpu, 300)?;
    let builder = GraphBuilder::new(&gpu);
    builder.capture(|| stamp(&hot, &mut words))?;
    let mut graph = builder.build(words)?;
    load(&hot, ptx(3))?;
    load(&hot, ptx(4))?;
    let unloaded = |event| match event {
        ReloadEvent::Unloaded { number } => Some(number),
        _ => None,
    };
    assert_eq!(next(&events, unloaded), 3);
    graph.launch(&gpu)?;
    assert_eq!(one(&graph.wait()?.to_vec()?), 2);
    drop(graph);
    assert_eq!(next(&events, unloaded), 2);
    Ok(())
}

#[test]
fn a_panic_is_told_though_its_version_is_gone() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let hot = Watch::nothing().keep(1).start(&gpu)?;
    let events = hot.events();
    let (major, minor) = gpu.compute_capability();
    let image = ferrowarp::module::best_image(ferrowarp::shipped::IMAGES, (major, minor));
    let text = image.expect("an image for this device").ptx();
    load(&hot, format!("{text}\n// second\n"))?;
    let x = DeviceBuffer::from_slice(&gpu, &[1.0f32; 64])?;
    let mut out = DeviceBuffer::zeroed(&gpu, 65)?;
    vecadd::launch(&hot, LaunchConfig::for_num_elems(65), &x, &x, &mut out)?;
    load(&hot, format!("{text}\n// third\n"))?;
    next(&events, |event| matches!(event, ReloadEvent::Unloaded { number: 2 }).then_some(()));
    let error = gpu.as_stream().synchronize().unwrap_err();
    assert!(error.panic().is_some_and(|panic| panic.kernel == "vecadd"), "{error}");
    Ok(())
}

#[test]
fn a_hot_module_needs_a_first_version() {
    let error = Watch::nothing().start(&Gpu::with_images(&[]).unwrap()).unwrap_err();
    assert!(matches!(error.root(), GpuError::NoKernels { .. }), "{error}");
}
