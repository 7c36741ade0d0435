use cuda_std::atomic::{BlockAtomicF32, Ordering};

static SUM: BlockAtomicF32 = BlockAtomicF32::new(0.0);

fn main() {
    SUM.fetch_add(1.0, Ordering::Relaxed);
}
