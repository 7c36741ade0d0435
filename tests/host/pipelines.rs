//! Pipelines of frames.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrowarp::completion::block_on;
use ferrowarp::{
    Buffering, DeviceBuffer, Frame, FrameShape, GpuError, GpuResult, Linear, Pipeline,
};

use crate::child::{child, lines};
use crate::kernels::{MISSING, WILD, add, churn, churned, gpu, launch};

const LEN: usize = 1000;
const SHAPE: FrameShape = FrameShape { input_len: LEN, output_len: LEN };
const WAYS: [Buffering; 3] = [Buffering::Single, Buffering::Double, Buffering::Triple];

/// The frame's number, stepped so often.
fn compute(mut frame: Frame<'_, u32, u32>, rounds: u32) -> GpuResult<()> {
    frame.output.copy_from_device(&frame.input)?;
    churn(frame.stream, &mut frame.output, rounds)
}

#[test]
fn results_are_right_and_come_in_order() -> GpuResult<()> {
    for way in WAYS {
        for frames in [0, 1, 2, 3, 4, 25] {
            let mut pipeline = Pipeline::new(gpu(), SHAPE, way, |frame| compute(frame, 300))?;
            let mut taken = Vec::new();
            let count = pipeline.run(
                |number, input: &mut [u32]| {
                    input.fill(number as u32);
                    number < frames
                },
                |number, output: &[u32]| {
                    assert_eq!(output, [churned(number as u32, 300); LEN], "frame {number}");
                    taken.push(number);
                },
            )?;
            assert_eq!(count, frames);
            assert!(taken.into_iter().eq(0..frames), "{way:?}");
        }
    }
    Ok(())
}

/// Inputs that frames share live on another stream than the frames.
#[test]
fn frames_read_what_they_share() -> GpuResult<()> {
    let one = ferrowarp::DeviceBox::new(gpu(), &1000)?;
    let mut pipeline = Pipeline::new(gpu(), SHAPE, Buffering::Triple, |mut frame| {
        add(frame.stream, &one, &frame.input, &mut frame.output)
    })?;
    pipeline.run(
        |number, input: &mut [u32]| {
            input.fill(number as u32);
            number < 10
        },
        |number, output: &[u32]| assert_eq!(output, [number as u32 + 1000; LEN]),
    )?;
    Ok(())
}

#[test]
fn frames_go_in_and_come_out_one_by_one() -> GpuResult<()> {
    let mut pipeline = Pipeline::new(gpu(), SHAPE, Buffering::Double, |frame| compute(frame, 3))?;
    assert_eq!(pipeline.pop(|_: &[u32]| ())?, None);
    block_on(pipeline.ready())?;
    pipeline.push(|input| input.fill(1))?;
    pipeline.push(|input| input.fill(2))?;
    assert!(pipeline.is_full() && pipeline.in_flight() == 2);
    let error = pipeline.push(|_| panic!("it must not be filled")).unwrap_err();
    assert!(error.to_string().contains("the oldest has to come out first"), "{error}");
    block_on(pipeline.ready())?;
    assert_eq!(pipeline.pop(|output| output[LEN - 1])?, Some(churned(1, 3)));
    assert!(!pipeline.push_if(|_| false)?);
    assert_eq!(pipeline.pop(|output| output[0])?, Some(churned(2, 3)));
    assert_eq!((pipeline.pop(|_| ())?, pipeline.in_flight()), (None, 0));
    Ok(())
}

#[test]
fn frames_in_flight_may_be_dropped() -> GpuResult<()> {
    for way in WAYS {
        let mut pipeline = Pipeline::new(gpu(), SHAPE, way, |frame| compute(frame, 20_000))?;
        while !pipeline.is_full() {
            pipeline.push(|input: &mut [u32]| input.fill(1))?;
        }
    }
    Ok(())
}

#[test]
fn frames_of_nothing_pass() -> GpuResult<()> {
    let shape = FrameShape { input_len: 0, output_len: 0 };
    let mut pipeline = Pipeline::new(gpu(), shape, Buffering::Triple, |_: Frame<u8, f64>| Ok(()))?;
    let count = pipeline.run(|number, _| number < 5, |_, output| assert!(output.is_empty()))?;
    assert_eq!(count, 5);
    Ok(())
}

#[test]
fn an_error_empties_the_pipeline_which_works_on() -> GpuResult<()> {
    let mut pipeline = Pipeline::new(gpu(), SHAPE, Buffering::Triple, |mut frame| {
        if frame.number == 4 && frame.input.len() == LEN {
            launch(frame.stream, &MISSING, Linear::new(1, 1), &mut frame.output, 1)?;
        }
        compute(frame, 2)
    })?;
    let mut taken = 0;
    let mut run = |first: u64, pipeline: &mut Pipeline<u32, u32, _>| {
        taken = 0;
        pipeline.run(
            |number, input: &mut [u32]| {
                input.fill(number as u32);
                number < first + 10
            },
            |number, output: &[u32]| {
                assert_eq!(output, [churned(number as u32, 2); LEN]);
                taken += 1;
            },
        )
    };
    let error = run(0, &mut pipeline).unwrap_err();
    assert!(matches!(error.root(), GpuError::NotFound { .. }), "{error}");
    assert_eq!(pipeline.in_flight(), 0);
    // The frame of that number fails each time.
    assert!(run(4, &mut pipeline).is_err());
    assert_eq!(taken, 0);
    Ok(())
}

#[test]
fn a_panic_in_a_closure_leaves_the_pipeline_usable() -> GpuResult<()> {
    let mut fail = true;
    let mut pipeline = Pipeline::new(gpu(), SHAPE, Buffering::Double, |frame| {
        compute(frame, 1000)?;
        assert!(!std::mem::replace(&mut fail, false), "on purpose");
        Ok(())
    })?;
    let attempt = |value: u32, pipeline: &mut Pipeline<u32, u32, _>| {
        catch_unwind(AssertUnwindSafe(|| pipeline.push(|input| input.fill(value))))
    };
    assert!(attempt(1, &mut pipeline).is_err());
    assert_eq!(pipeline.in_flight(), 0);
    attempt(2, &mut pipeline).expect("no panic")?;
    assert!(catch_unwind(AssertUnwindSafe(|| pipeline.push(|_| panic!("on purpose")))).is_err());
    attempt(3, &mut pipeline).expect("no panic")?;
    for value in [2, 3] {
        assert_eq!(pipeline.pop(<[u32]>::to_vec)?, Some(vec![churned(value, 1000); LEN]));
    }
    Ok(())
}

#[test]
fn a_fault_ends_a_pipeline_once() {
    let told = lines(&child("pipelines::fault_in_a_frame", &[]), "pipeline: ");
    assert_eq!(told, ["lost after 2 frames", "lost"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fault_in_a_frame() {
    let mut pipeline = Pipeline::new(gpu(), SHAPE, Buffering::Single, |mut frame| {
        if frame.number == 2 {
            launch(frame.stream, &WILD, Linear::new(3, 1), &mut frame.output, 1)?;
        }
        compute(frame, 2)
    })
    .unwrap();
    let mut taken = 0;
    let result = pipeline.run(|number, _: &mut [u32]| number < 10, |_, _: &[u32]| taken += 1);
    assert!(matches!(result.unwrap_err().root(), GpuError::DeviceLost { .. }));
    println!("pipeline: lost after {taken} frames");
    assert!(matches!(pipeline.push(|_| ()).unwrap_err().root(), GpuError::DeviceLost { .. }));
    println!("pipeline: lost");
    assert!(DeviceBuffer::<u8>::zeroed(gpu(), 1).is_err());
}
