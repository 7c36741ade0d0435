//! Launches that are queued together.

use cuda_driver::injection;
use ferrowarp::{DeviceBox, DeviceBuffer, Gpu, GpuError, GpuResult, Linear, UnifiedBuffer};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{FILL, LAST_WORD, add, churn, churned, fill, gpu, launch};

const LEN: usize = 300;

#[test]
fn launches_of_a_batch_run_in_their_order() -> GpuResult<()> {
    let (one, many) = (DeviceBox::new(gpu(), &1)?, DeviceBuffer::from_slice(gpu(), &[5; LEN])?);
    let mut out = DeviceBuffer::zeroed(gpu(), LEN)?;
    let count = gpu().batch((&one, &many, &mut out), |batch, (one, many, out)| {
        add(batch, *one, *many, *out)?;
        churn(batch, *out, 3)?;
        churn(batch, *out, 4)?;
        // The first half again.
        add(batch, *one, &many.slice(..LEN / 2), &mut out.slice_mut(..LEN / 2))?;
        Ok(batch.len())
    })?;
    let expected: Vec<_> = [6, churned(6, 7)].iter().flat_map(|word| [*word; LEN / 2]).collect();
    assert_eq!((count, out.to_vec()?), (4, expected));
    Ok(())
}

/// The buffers are at home on another stream, which stands still before the batch; and what is queued at
/// home afterwards comes behind it.
#[test]
fn a_batch_on_another_stream_is_in_order_with_the_homes_of_its_memory() -> GpuResult<()> {
    let (home, other) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&home, &[3u32; LEN])?;
    let mut unified = UnifiedBuffer::from_slice(gpu(), &[4u32; LEN])?;
    churn(&other, &mut words, 1)?;
    churn(&other, &mut unified, 1)?;
    gpu().stream().synchronize()?;
    let gate = Gate::on(&home);
    churn(&home, &mut words, 1)?;
    other.batch((&mut words, &mut unified), |batch, (words, unified)| {
        churn(batch, *words, 2)?;
        churn(batch, *unified, 2)
    })?;
    churn(&home, &mut words, 3)?;
    assert!(!other.is_idle()?);
    gate.open();
    assert_eq!(words.to_vec()?, [churned(3, 7); LEN]);
    assert_eq!(unified.as_slice()?, [churned(4, 3); LEN]);
    Ok(())
}

/// A buffer that is dropped at once is freed behind the launches that use it.
#[test]
fn a_batch_may_own_its_memory() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut sum = DeviceBuffer::zeroed(gpu(), LEN)?;
    for round in 0..20 {
        let many = DeviceBuffer::from_slice(&stream, &[round; LEN])?;
        let memory = (DeviceBox::new(&stream, &1)?, many, &mut sum);
        gpu().batch(memory, |batch, (one, many, sum)| add(batch, one, many, *sum))?;
        assert_eq!(sum.to_vec()?, [round + 1; LEN]);
    }
    Ok(())
}

#[test]
fn nothing_is_queued_if_recording_fails() -> GpuResult<()> {
    let mut words = DeviceBuffer::zeroed(gpu(), 4)?;
    let error = gpu().batch(&mut words, |batch, words| {
        fill(batch, *words, 7)?;
        launch(batch, &FILL, Linear::new(1, 2000), *words, 7)
    });
    let error = error.unwrap_err();
    assert!(matches!(error.root(), GpuError::LaunchTooLarge { kernel: "fill", .. }), "{error}");
    assert_eq!(words.to_vec()?, [0; 4]);
    gpu().batch(&mut words, |batch, words| {
        assert!(batch.is_empty());
        launch(batch, &FILL, Linear::new(0, 32), *words, 7)?;
        assert!(batch.is_empty());
        Ok(())
    })?;
    gpu().batch((), |_, ()| Ok(()))
}

#[track_caller]
fn is_refused(result: GpuResult<()>) {
    let error = result.unwrap_err();
    let GpuError::NotInBatch { kernel: "fill", argument: "p" } = error.root() else {
        panic!("{error}")
    };
    assert!(error.to_string().starts_with("`fill` uses memory as `p` that its batch"), "{error}");
}

#[test]
fn memory_that_a_batch_does_not_have_is_refused() -> GpuResult<()> {
    let (mut own, mut other) = (DeviceBuffer::zeroed(gpu(), 4)?, DeviceBuffer::zeroed(gpu(), 4)?);
    is_refused(gpu().batch(&mut own, |batch, own| {
        fill(batch, *own, 7)?;
        fill(batch, &mut other, 7)
    }));
    // Gone before anything is queued.
    is_refused(
        gpu().batch(&mut own, |batch, _| {
            fill(batch, &mut DeviceBuffer::<u32>::zeroed(gpu(), 4)?, 7)
        }),
    );
    is_refused(gpu().batch(DeviceBuffer::zeroed(gpu(), 4)?, |batch, buffer| {
        fill(batch, buffer, 7)?;
        *buffer = DeviceBuffer::zeroed(gpu(), 1)?;
        Ok(())
    }));
    let shared = std::sync::Arc::new(DeviceBuffer::<u32>::zeroed(gpu(), 4)?);
    let mut part = DeviceBuffer::<u32>::zeroed(gpu(), 8)?;
    is_refused(gpu().batch((shared, part.slice_mut(..4)), |batch, _| fill(batch, &mut own, 7)));
    assert_eq!((own.to_vec()?, other.to_vec()?), (vec![0; 4], vec![0; 4]));
    Ok(())
}

#[test]
fn a_batch_in_a_capture_becomes_nodes() -> GpuResult<()> {
    let mut words = DeviceBuffer::from_slice(gpu(), &[3u32; LEN])?;
    let builder = gpu().stream().capture(|stream| {
        stream.batch(&mut words, |batch, words| {
            churn(batch, *words, 2)?;
            churn(batch, *words, 3)
        })
    })?;
    let mut graph = builder.build(words)?;
    assert_eq!(graph.len(), 2);
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.to_vec()?, [churned(3, 5); LEN]);
    Ok(())
}

#[test]
fn a_batch_asks_the_driver_once_for_what_its_launches_share() {
    let variables = [("FERROWARP_DEVICE", "emulator")];
    let told = lines(&child("batches::print_calls", &variables), "calls: ");
    let launches = ["cuLaunchKernelEx"; 5].join(" ");
    let marked = "cuCtxGetCurrent cuEventRecord cuCtxGetCurrent cuStreamWaitEvent";
    let here = format!("cuCtxGetCurrent {launches}");
    assert_eq!(told, [here.clone(), format!("{marked} {here} {marked}")]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn print_calls() {
    let (here, there) = (gpu(), gpu().create_stream().unwrap());
    let mut words = DeviceBuffer::<u32>::zeroed(here, 4).unwrap();
    fill(&there, &mut words, 1).unwrap();
    for on in [here.stream(), &there] {
        let (queued, calls) = injection::watch(|| {
            on.batch(&mut words, |batch, words| (0..5).try_for_each(|i| fill(batch, *words, i)))
        });
        queued.unwrap();
        let names: Vec<_> = calls.iter().map(|call| call.function).collect();
        println!("calls: {}", names.join(" "));
    }
}

/// The driver refuses one launch: those before it run, in order with what comes later, and no others.
#[test]
fn a_refusal_in_the_middle_names_its_kernel() {
    let variables = [("FERROWARP_DEVICE", "emulator")];
    let told = lines(&child("batches::refuse_one", &variables), "told: ");
    assert_eq!(told, ["launching `last_word` in a batch, 912", "[2, 2, 2, 2]"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn refuse_one() {
    let gpu: &Gpu = gpu();
    let there = gpu.create_stream().unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, 4).unwrap();
    let mut run = || {
        there.batch(&mut words, |batch, words| {
            fill(batch, *words, 1)?;
            fill(batch, *words, 2)?;
            launch(batch, &LAST_WORD, Linear::new(1, 1).shared_mem(64), *words, 64)?;
            fill(batch, *words, 3)
        })
    };
    // The second time nothing is looked up.
    run().unwrap();
    let (queued, calls) = injection::watch(&mut run);
    queued.unwrap();
    let nth = calls.iter().position(|call| call.function == "cuLaunchKernelEx").unwrap() + 2;
    let error = injection::fail(nth, 912, run).0.unwrap_err();
    let code = error.driver().expect("a driver error").code();
    println!("told: {}, {code}", error.contexts().next().expect("what was being done"));
    println!("told: {:?}", words.to_vec().unwrap());
}
