//! Memory of every kind.

use ferrowarp::memory::MemoryLocation::{Device, Host};
use ferrowarp::memory::resource::{LogAdaptor, MemoryPool, PoisonAdaptor, StreamOrderedMemory};
use ferrowarp::memory::{MemoryAdvice, PinnedBuffer};
use ferrowarp::{
    Bridge, DeviceBox, DeviceBuffer, DeviceVec, Gpu, GpuResult, MappedAtomics, MappedBox,
    MappedBuffer, PinnedOptions, PinnedRange, RegisteredVec, Ring, Transfer, UnifiedBuffer,
    UninitBuffer, WriteCombined,
};

use super::{IMAGES, LEN, fill};
use crate::kernels::{add, churn, churned};

pub fn plain(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let one = DeviceBox::new(gpu, &1)?;
    let mut plain = DeviceBuffer::from_slice(gpu, &[5; LEN])?;
    let mut ordered = DeviceBuffer::zeroed_async(&stream, LEN)?;
    add(gpu, &one, &plain, &mut ordered)?;
    churn(&stream, &mut plain, 2)?;
    let event = stream.record_event()?;
    gpu.stream().wait_event(&event)?;
    plain.copy_from_device(&ordered)?;
    drop(ordered);
    event.synchronize()?;
    assert_eq!(plain.to_vec()?, [6; LEN]);
    let ((), _) = stream.time(|| fill(&stream, &mut plain, 1))?;
    let pinned = PinnedBuffer::from_slice(gpu, &[9; LEN])?;
    plain.copy_from_host(&pinned)?;
    stream.synchronize()
}

pub fn pools(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let ordered = StreamOrderedMemory::new(gpu, 1 << 20)?;
    let pool = MemoryPool::with_upstream(gpu, ordered.clone());
    let memory = LogAdaptor::new(PoisonAdaptor::new(pool.clone()));
    for round in 0..2 {
        let mut first = DeviceBuffer::zeroed_in(&memory, gpu, LEN)?;
        fill(&stream, &mut first, round)?;
        drop(first);
        let mut second = DeviceBuffer::from_slice_in(&memory, &stream, &[round; LEN])?;
        fill(gpu, &mut second, 3)?;
        assert_eq!(second.to_vec()?, [3; LEN]);
    }
    let plain = MemoryPool::new(gpu);
    drop(DeviceBuffer::<u8>::zeroed_in(&plain, &stream, 10)?);
    drop(DeviceBuffer::<u8>::zeroed_in(&plain, gpu, 10)?);
    memory.log().replay(&plain, gpu)?;
    ordered.usage().map(drop)
}

pub fn unified(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut shared = UnifiedBuffer::from_slice(gpu, &[4; LEN])?;
    shared.advise(MemoryAdvice::SetReadMostly)?;
    shared.prefetch(Device(0))?;
    churn(&stream, &mut shared, 2)?;
    shared.prefetch(Host)?;
    shared.as_mut_slice()?[0] = 1;
    assert!(shared.attributes()?.read_mostly);
    gpu.memory_info().map(drop)
}

/// Vectors that grow in place and by copies, memory that is written later, and bytes of a pool.
pub fn growing(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut vec = DeviceVec::from_slice(gpu, &[3; LEN])?;
    churn(&stream, &mut vec, 2)?;
    for len in [LEN + 1, (2 << 20) / 4 - LEN, (4 << 20) / 4, (7 << 20) / 4] {
        let before = vec.len();
        if let Err(error) = vec.resize_zeroed(len) {
            assert_eq!(vec.len(), before, "the vector is not as it was");
            return Err(error);
        }
    }
    vec.extend_from_slice(&[4; LEN])?;
    assert_eq!(vec.slice(..LEN).to_vec()?, [churned(3, 2); LEN]);
    assert_eq!(vec.slice(vec.len() - LEN..).to_vec()?, [4; LEN]);
    let pool = MemoryPool::new(gpu);
    let mut words = pool.acquire(&stream, 4 * LEN)?.into_uninit::<u32>()?;
    fill(gpu, &mut words, 1)?;
    // SAFETY: the kernel has written all elements.
    assert_eq!(unsafe { words.assume_init() }.to_vec()?, [1; LEN]);
    UninitBuffer::new(gpu, LEN)?.copy_from_device(vec.slice(..LEN)).map(drop)
}

/// Copies that own their memory on the host.
pub fn page_locked(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut device = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let portable = PinnedOptions::new().portable(true).buffer::<u32>(gpu, LEN)?;
    let back = device.copy_from_pinned_async(&stream, portable)?.wait()?;
    fill(gpu, &mut device, 4)?;
    let back = device.copy_to_pinned_async(&stream, back)?;
    back.event().expect("there is something to copy").synchronize()?;
    assert_eq!(back.wait()?[..], [4; LEN]);
    drop(device.copy_to_pinned_async(&stream, PinnedBuffer::zeroed(gpu, LEN)?)?);
    let part = PinnedRange::of(PinnedBuffer::from_slice(gpu, &[1; LEN])?, 5..9);
    device.slice_mut(..4).copy_from_pinned_async(gpu, part)?.wait()?;
    let frame = device.copy_from_pinned_async(&stream, WriteCombined::zeroed(gpu, LEN)?)?.wait()?;
    let frame = device.pitched_mut(3, 4, 8)?.copy_from_pinned_async(&stream, frame, 3)?.wait()?;
    let registered = RegisteredVec::new(gpu, vec![3; LEN])?;
    let values = device.copy_from_pinned_async(&stream, registered)?.wait()?.into_vec()?;
    assert_eq!((values.len(), frame.len()), (LEN, LEN));
    Ok(())
}

/// Copies and kernels that use memory which the host only lends.
pub fn borrowed(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut device = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    // Never freed: where the end of a registration fails, the driver knows the place for ever.
    let [there, back, used] = [1, 0, 3].map(|word| vec![word; LEN].leak());
    gpu.host_scope(|scope| {
        let there = scope.register(there)?;
        scope.upload(&stream, there, &mut device)?;
        churn(gpu, &mut device, 2)?;
        scope.download(&stream, &device, back)?;
        churn(&stream, &mut scope.host_slice_mut(gpu, used)?, 2)
    })?;
    assert_eq!((&*back, &*used), (&[churned(1, 2); LEN][..], &[churned(3, 2); LEN][..]));
    let mut rows = [0; 12];
    device.pitched_mut(3, 4, 8)?.copy_from_host(&[7; 12], 3)?;
    device.pitched(3, 4, 8)?.copy_to_host(&mut rows, 3)?;
    assert_eq!(rows, [7; 12]);
    Ok(())
}

/// The ways that ask the driver a fixed number of times, and work of the device on its own memory.
pub fn ways(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut device = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let mut back = [0; LEN];
    for way in [Transfer::Synchronous, Transfer::Asynchronous, Transfer::Unified] {
        way.upload(&stream, &[2; LEN], &mut device)?;
        way.download(&stream, &device, &mut back)?;
        assert_eq!(back, [2; LEN]);
    }
    device.fill(8)?;
    device.slice_mut(1..).clear()?;
    let source = DeviceBuffer::from_slice(&stream, &[5; LEN])?;
    device.as_mut_slice().copy_from_device_on(&gpu.create_stream()?, source.as_slice())?;
    device.pitched_mut(3, 4, 8)?.copy_from_device(&source.pitched(3, 4, 9)?)?;
    assert_eq!(device.to_vec()?, [5; LEN]);
    Ok(())
}

/// Mapped memory, and rings of every bridge, before any kernel has them.
pub fn both_sides(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut mapped = MappedBuffer::from_slice(gpu, &[1u32; LEN])?;
    churn(&stream, &mut mapped, 3)?;
    assert_eq!(mapped.as_mut_slice()?[LEN - 1], churned(1, 3));
    let one = MappedBox::new(gpu, &6u32)?;
    let words = MappedAtomics::<u64>::zeroed(gpu, 7)?;
    assert_eq!((*one.get()?, words.len()), (6, 7));
    for bridge in [Bridge::Mapped, Bridge::Copied, Bridge::Unified] {
        let (sender, ring) = Ring::<[u32; 3], _>::to_device(gpu, 4, bridge)?;
        assert!(sender.try_send(&[1, 2, 3])? && ring.capacity() == 4);
        assert_eq!(sender.telemetry()?.sent, 1);
        sender.send_all(&[[4; 3]; 3])?;
        assert!(!sender.try_send(&[5; 3])?, "it is full");
    }
    let (ring, receiver) = Ring::<u64, _>::to_host(gpu, 4)?;
    assert_eq!((receiver.try_recv(), ring.telemetry()?.sent), (None, 0));
    let inside = Ring::<u64>::on_device(gpu, 4)?;
    assert_eq!(inside.telemetry()?.received, 0);
    Ok(())
}

/// Copies between two devices, and kernels that use the other one's memory in place.
pub fn two_devices(near: &Gpu) -> GpuResult<()> {
    let far = Gpu::on_with_images(1, IMAGES)?;
    let stream = far.create_stream()?;
    assert!(near.can_access_peer(&far)?);
    let access = near.enable_peer_access(&far)?;
    let one = DeviceBox::new(near, &1)?;
    let mut ours = DeviceBuffer::<u32>::zeroed(near, LEN)?;
    let mut theirs = DeviceBuffer::<u32>::zeroed_async(&stream, LEN)?;
    fill(near, &mut theirs.peer_slice_mut(&access)?, 4)?;
    add(near, &one, &theirs.peer_slice(&access)?, &mut ours)?;
    near.batch(&mut theirs, |batch, theirs| fill(batch, &mut theirs.peer_slice_mut(&access)?, 6))?;
    assert_eq!(ours.to_vec()?, [5; LEN]);
    ours.copy_from_peer(&theirs)?;
    drop(theirs);
    assert_eq!(ours.to_vec()?, [6; LEN]);
    Ok(())
}
