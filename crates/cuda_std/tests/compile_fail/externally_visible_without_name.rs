use cuda_std::externally_visible;

#[externally_visible]
static mut SCALE: f32 = 1.0;

#[externally_visible]
struct NotInPtx;

fn main() {}
