use cuda_std::matrix::Accumulator;

fn main() {
    let _ = Accumulator::<f32, 100>::zeroed();
}
