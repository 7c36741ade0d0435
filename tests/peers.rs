//! Several devices: copies between them, and kernels that use another device's memory in place.
//!
//! Each test runs in a process of its own: on the machine's GPUs where it has two or more, else on an
//! emulator with four devices.

#[allow(dead_code, reason = "these tests need some of the kernels")]
#[path = "host/gate.rs"]
mod gate;
#[allow(dead_code, reason = "as above")]
#[path = "host/kernels.rs"]
mod kernels;

use std::env;
use std::process::Command;

use ferrowarp::memory::resource::{MemoryPool, StreamOrderedMemory};
use ferrowarp::{DeviceBox, DeviceBuffer, Gpu, GpuError, GpuResult};

use gate::Gate;
use kernels::{IMAGES, add, churn, churned, fill};

const LEN: usize = 1000;
/// Enough that a kernel still runs when the host queues the next ones.
const ROUNDS: u32 = 20_000;
const IN_CHILD: &str = "FERROWARP_PEERS_CHILD";

/// Runs `body` with all devices in a process of its own; `name` is the test's.
#[track_caller]
fn with_devices(name: &str, body: impl FnOnce(&[Gpu]) -> GpuResult<()>) {
    if env::var_os(IN_CHILD).is_some() {
        let all = 0..ferrowarp::devices().unwrap().len() as u32;
        let gpus: Vec<Gpu> = all.map(|at| Gpu::on_with_images(at, IMAGES).unwrap()).collect();
        assert!(gpus.len() >= 2, "{} device", gpus.len());
        return body(&gpus).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(IN_CHILD, "1");
    if ferrowarp::devices().unwrap().len() < 2 {
        command.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_EMULATOR_DEVICES", "4");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// Whether kernels of `user` can use memory of `owner`; a machine's GPUs need not.
fn reach(user: &Gpu, owner: &Gpu) -> GpuResult<bool> {
    let can = user.can_access_peer(owner)?;
    if !can {
        println!("does not apply: {} does not reach {}", user.name(), owner.name());
        let error = user.enable_peer_access(owner).unwrap_err();
        assert!(matches!(error, GpuError::Unsupported { .. }), "{error}");
    }
    Ok(can)
}

#[test]
fn copies_are_ordered_on_both_streams() {
    with_devices("copies_are_ordered_on_both_streams", |gpus| {
        let (a, b) = (gpus[0].create_stream()?, gpus[1].create_stream()?);
        for i in 0..6 {
            let mut source = DeviceBuffer::from_slice(&a, &[i; LEN])?;
            let mut target = DeviceBuffer::from_slice(&b, &[1000; LEN])?;
            churn(&a, &mut source, ROUNDS)?;
            churn(&b, &mut target, ROUNDS)?;
            target.copy_from_peer(&source)?;
            // Neither may overtake the copy.
            fill(&a, &mut source, 0)?;
            churn(&b, &mut target, 1)?;
            assert_eq!(target.to_vec()?, [churned(i, ROUNDS + 1); LEN]);
            assert_eq!(source.to_vec()?, [0; LEN]);
        }
        Ok(())
    });
}

#[test]
fn a_copy_waits_for_its_source_and_the_host_does_not() {
    with_devices("a_copy_waits_for_its_source_and_the_host_does_not", |gpus| {
        let (a, b) = (gpus[0].create_stream()?, gpus[1].create_stream()?);
        let mut source = DeviceBuffer::<u32>::zeroed(&a, LEN)?;
        let mut target = DeviceBuffer::<u32>::zeroed_in(&MemoryPool::new(&b), &b, LEN)?;
        fill(&a, &mut source, 1)?;
        target.copy_from_peer(&source)?;
        assert_eq!(target.to_vec()?, [1; LEN]);
        let gate = Gate::on(&a);
        fill(&a, &mut source, 2)?;
        target.copy_from_peer(&source)?;
        assert!(!b.is_idle()?, "the copy has not waited for the gate");
        gate.open();
        assert_eq!(target.to_vec()?, [2; LEN]);
        Ok(())
    });
}

#[test]
fn copies_go_round_all_devices() {
    with_devices("copies_go_round_all_devices", |gpus| {
        let values: Vec<u32> = (0..100_000).collect();
        let mut at = DeviceBuffer::from_slice(&gpus[0], &values)?;
        for gpu in gpus.iter().cycle().skip(1).take(2 * gpus.len()) {
            let mut next = DeviceBuffer::zeroed_async(gpu, values.len())?;
            next.copy_from_peer(&at)?;
            at = next;
        }
        assert_eq!(at.to_vec()?, values);
        // On one device, in part, and of nothing.
        let mut part = DeviceBuffer::<u32>::zeroed(&gpus[1], 10)?;
        let source = DeviceBuffer::from_slice(&gpus[1], &[7; 4])?;
        part.slice_mut(3..7).copy_from_peer(source.as_slice())?;
        part.slice_mut(..0).copy_from_peer(source.slice(4..))?;
        assert_eq!(part.to_vec()?, [0, 0, 0, 7, 7, 7, 7, 0, 0, 0]);
        let error = part.copy_from_peer(&source).unwrap_err();
        assert!(matches!(error, GpuError::SizeMismatch { expected: 10, found: 4, .. }), "{error}");
        Ok(())
    });
}

#[test]
fn kernels_read_and_write_another_devices_memory() {
    with_devices("kernels_read_and_write_another_devices_memory", |gpus| {
        let [near, far] = [&gpus[0], &gpus[1]];
        if !reach(near, far)? {
            return Ok(());
        }
        let access = near.enable_peer_access(far)?;
        let again = near.enable_peer_access(far)?;
        let one = DeviceBox::new(near, &1)?;
        let mut out = DeviceBuffer::zeroed(near, LEN)?;
        let stream = far.create_stream()?;
        let mut theirs = DeviceBuffer::from_slice(&stream, &[5; LEN])?;
        for round in 1..6 {
            churn(&stream, &mut theirs, ROUNDS)?;
            add(near, &one, &theirs.peer_slice(&access)?, &mut out)?;
            // The reader on the other device comes first.
            fill(&stream, &mut theirs, round)?;
            let before = if round == 1 { 5 } else { 10 * (round - 1) };
            assert_eq!(out.to_vec()?, [churned(before, ROUNDS).wrapping_add(1); LEN]);
            fill(near, &mut theirs.peer_slice_mut(&again)?, 10 * round)?;
            assert_eq!(theirs.to_vec()?, [10 * round; LEN]);
        }
        let mut part = theirs.peer_slice_mut(&access)?;
        fill(near, &mut part.slice_mut(1..3), 1)?;
        assert_eq!((part.len(), part.is_empty()), (LEN, false));
        assert_eq!(theirs.slice(..4).to_vec()?, [50, 1, 1, 50]);
        let mut two = DeviceBuffer::zeroed(near, 2)?;
        add(near, &one, &theirs.peer_slice(&access)?.slice(2..4), &mut two)?;
        assert_eq!(two.to_vec()?, [2, 51]);
        Ok(())
    });
}

#[test]
fn memory_of_every_source_is_lent_out() {
    with_devices("memory_of_every_source_is_lent_out", |gpus| {
        let [near, far] = [&gpus[0], &gpus[1]];
        if !reach(near, far)? {
            return Ok(());
        }
        let access = near.enable_peer_access(far)?;
        let ordered = StreamOrderedMemory::new(far, u64::MAX)?;
        let (plain, pool) = (MemoryPool::new(far), MemoryPool::with_upstream(far, ordered.clone()));
        let buffers = [
            DeviceBuffer::from_slice(far, &[4; LEN])?,
            DeviceBuffer::zeroed_async(far, LEN)?,
            DeviceBuffer::from_slice_in(&ordered, far, &[4; LEN])?,
            DeviceBuffer::from_slice_in(&plain, far, &[4; LEN])?,
            DeviceBuffer::from_slice_in(&pool, far, &[4; LEN])?,
        ];
        let one = DeviceBox::new(near, &1)?;
        let mut out = DeviceBuffer::zeroed(near, LEN)?;
        for mut theirs in buffers {
            fill(near, &mut theirs.peer_slice_mut(&access)?, 6)?;
            add(near, &one, &theirs.peer_slice(&access)?, &mut out)?;
            drop(theirs);
            assert_eq!(out.to_vec()?, [7; LEN]);
        }
        Ok(())
    });
}

#[test]
fn a_drop_waits_for_the_other_devices_kernel() {
    with_devices("a_drop_waits_for_the_other_devices_kernel", |gpus| {
        let [near, far] = [&gpus[0], &gpus[1]];
        if !reach(near, far)? {
            return Ok(());
        }
        let access = near.enable_peer_access(far)?;
        let (user, home) = (near.create_stream()?, far.create_stream()?);
        let mut theirs = DeviceBuffer::zeroed_async(&home, LEN)?;
        fill(&user, &mut theirs.peer_slice_mut(&access)?, 1)?;
        user.synchronize()?;
        let gate = Gate::on(&user);
        fill(&user, &mut theirs.peer_slice_mut(&access)?, 2)?;
        drop(theirs);
        assert!(!home.is_idle()?, "the home does not wait for the other device");
        gate.open();
        home.synchronize()
    });
}

/// Neither does a batch begin before what the owner has queued, nor does the memory end under it.
#[test]
fn a_batch_is_in_order_with_the_other_devices_memory() {
    with_devices("a_batch_is_in_order_with_the_other_devices_memory", |gpus| {
        let [near, far] = [&gpus[0], &gpus[1]];
        if !reach(near, far)? {
            return Ok(());
        }
        let access = near.enable_peer_access(far)?;
        let (user, home) = (near.create_stream()?, far.create_stream()?);
        let mut theirs = DeviceBuffer::<u32>::zeroed_async(&home, LEN)?;
        let batch = |theirs: &mut DeviceBuffer<u32>| {
            user.batch(theirs, |batch, theirs| {
                fill(batch, &mut theirs.peer_slice_mut(&access)?, 1)?;
                churn(batch, &mut theirs.peer_slice_mut(&access)?, 2)
            })
        };
        batch(&mut theirs)?;
        assert_eq!(theirs.to_vec()?, [churned(1, 2); LEN]);
        let gate = Gate::on(&home);
        batch(&mut theirs)?;
        assert!(!user.is_idle()?, "the batch does not wait for the memory's home");
        gate.open();
        user.synchronize()?;
        let gate = Gate::on(&user);
        batch(&mut theirs)?;
        drop(theirs);
        assert!(!home.is_idle()?, "the home does not wait for the batch");
        gate.open();
        home.synchronize()
    });
}

/// The example of the book's chapter.
#[test]
fn the_chapters_two_ways() {
    with_devices("the_chapters_two_ways", |gpus| {
        let [near, far] = [&gpus[0], &gpus[1]];
        let one = DeviceBox::new(near, &1)?;
        let theirs = DeviceBuffer::from_slice(far, &[6; LEN])?;
        let mut ours = DeviceBuffer::zeroed(near, LEN)?;
        ours.copy_from_peer(&theirs)?;
        assert_eq!(ours.to_vec()?, [6; LEN]);
        if near.can_access_peer(far)? {
            let access = near.enable_peer_access(far)?;
            add(near, &one, &theirs.peer_slice(&access)?, &mut ours)?;
            assert_eq!(ours.to_vec()?, [7; LEN]);
        }
        Ok(())
    });
}

fn is_wrong_device<T>(result: GpuResult<T>) {
    let error = result.err().expect("it is another device's");
    assert!(matches!(error.root(), GpuError::WrongDevice { .. }), "{error}");
}

#[test]
fn without_access_memory_stays_on_its_device() {
    with_devices("without_access_memory_stays_on_its_device", |gpus| {
        let [near, far] = [&gpus[0], &gpus[1]];
        let mut theirs = DeviceBuffer::from_slice(far, &[5; LEN])?;
        let mut ours = DeviceBuffer::from_slice(near, &[1; LEN])?;
        is_wrong_device(fill(near, &mut theirs, 1));
        is_wrong_device(ours.copy_from_device(&theirs));
        is_wrong_device(DeviceBuffer::<u8>::zeroed_in(&MemoryPool::new(far), near, 1));
        let ordered = StreamOrderedMemory::new(far, 0)?;
        is_wrong_device(DeviceBuffer::<u8>::zeroed_in(&ordered, near, 1));
        // To itself every device has access.
        let own = near.enable_peer_access(near)?;
        fill(near, &mut ours.peer_slice_mut(&own)?, 9)?;
        assert_eq!(ours.to_vec()?, [9; LEN]);
        if reach(near, far)? {
            let access = near.enable_peer_access(far)?;
            is_wrong_device(ours.peer_slice(&access));
            // To the owner it is plain memory; to a third device it is nothing.
            fill(far, &mut theirs.peer_slice_mut(&access)?, 5)?;
            if let Some(third) = gpus.get(2) {
                is_wrong_device(fill(third, &mut theirs.peer_slice_mut(&access)?, 1));
            }
        }
        assert_eq!(theirs.to_vec()?, [5; LEN]);
        Ok(())
    });
}
