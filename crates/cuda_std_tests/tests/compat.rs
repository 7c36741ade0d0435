//! Source written for rust-cuda runs, and what it computes is right.

use compat_kernels::positions;
use cuda_std::launch::{LaunchConfig, Linear};
use cuda_std_tests::{done, download, poisoned};

cuda_std_tests::device!("compat");

#[test]
fn positions_are_vectors() {
    let (grid, block) = ((3u32, 2u32, 2u32), (4u32, 3u32, 2u32));
    let config = LaunchConfig { grid, block, shared_mem_bytes: 0 };
    let threads = grid.0 * grid.1 * grid.2 * block.0 * block.1 * block.2;
    let out = poisoned::<u32>(gpu(), 18 * threads as usize);
    // SAFETY: `out` has 18 words for each thread.
    done(unsafe { positions::positions::launch(gpu(), config, out.as_device_ptr()) });
    let out = download(&out);
    for (number, row) in out.chunks(18).enumerate() {
        let per_block = block.0 * block.1 * block.2;
        let split = |n: u32, d: (u32, u32, u32)| [n % d.0, n / d.0 % d.1, n / d.0 / d.1];
        let (b, t) = (number as u32 / per_block, number as u32 % per_block);
        let (b, t) = (split(b, grid), split(t, block));
        let [x, y, z] = [b[0] * 4 + t[0], b[1] * 3 + t[1], b[2] * 2 + t[2]];
        let expected = [&t[..], &b[..], &[4, 3, 2], &[3, 2, 2], &[x, y, z], &[x, y]].concat();
        assert_eq!((&row[..17], row[17]), (&expected[..], number as u32));
    }
}

#[test]
fn halves_are_shuffled() {
    let out = poisoned::<u16>(gpu(), 64);
    // SAFETY: one warp, and room for 64 results.
    done(unsafe {
        positions::half_shuffles::launch(gpu(), Linear::new(1, 32), out.as_device_ptr())
    });
    let halves = (0..32u16).map(|lane| lane.max(1).wrapping_sub(1) * 7);
    let brains = (0..32u16).map(|lane| (lane ^ 3) | 0x8000);
    assert_eq!(download(&out), halves.chain(brains).collect::<Vec<_>>());
}
