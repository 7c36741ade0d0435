//! The bridge that a ring chooses by itself.

use ferrowarp::{Bridge, GpuResult, Grid1, MemoryVisibility, PersistentKernel, Ring};
use kernels_gpu::persistent::ring_echo;

use crate::support::{exchange, gpu};

#[test]
fn a_ring_chooses_its_bridge_and_loses_nothing() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let chosen = Bridge::for_visibility(MemoryVisibility::of(&gpu));
    println!("{}: {chosen:?}", gpu.name());
    for bridge in [Bridge::default(), chosen] {
        let (sender, requests) = Ring::to_device(&gpu, 8, bridge)?;
        let (replies, receiver) = Ring::to_host(&gpu, 8)?;
        let kernel = PersistentKernel::start(&gpu, |launcher| {
            ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
        })?;
        let back = exchange(&sender, &receiver, 100, |i| [i])?;
        assert!(back.iter().copied().eq((0..100).map(|i| [i])), "{bridge:?}");
        kernel.shut_down()?;
    }
    Ok(())
}
