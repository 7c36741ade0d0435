use cuda_std::copy::Tile;

fn main() {
    let _: Option<Tile<[[bool; 32]; 4]>> = None;
}
