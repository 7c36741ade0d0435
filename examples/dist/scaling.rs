//! What collectives, a sort and a stencil would take on 8, 64 and 1,024 GPUs: a model on paper, not a measurement. It prints the
//! tables of the book's chapter on many GPUs, and has no other dependency than the standard library:
//!
//! ```text
//! cargo run -p examples --example scaling
//! ```
//!
//! Each transfer takes a latency, and its bytes over the bandwidth of the link (the model of Hockney, 1994). Change [`ASSUMED`]
//! to see what other machines would do.

/// Hosts of eight GPUs with NVLink, and a network with one adapter a GPU. Seconds, and bytes a second in one direction.
struct Machine {
    gpus_of_host: u64,
    /// NVLink 4 has 450 GB/s; the rest is protocol.
    link_bandwidth: f64,
    link_latency: f64,
    /// 400 Gb/s are 50 GB/s; the rest is protocol.
    network_bandwidth: f64,
    network_latency: f64,
    /// What a message of an all-to-all costs the sender beside its bytes.
    message: f64,
    /// From the launch of a kernel or a collective to its begin.
    launch: f64,
    /// What a stencil and a pass over keys reach of the memory's 4.8 TB/s.
    memory: f64,
    /// Keys of 32 bits a second, sorted by one GPU.
    sort_rate: f64,
}

const ASSUMED: Machine = Machine {
    gpus_of_host: 8,
    link_bandwidth: 360e9,
    link_latency: 1.5e-6,
    network_bandwidth: 45e9,
    network_latency: 5e-6,
    message: 0.5e-6,
    launch: 5e-6,
    memory: 3.9e12,
    sort_rate: 60e9,
};

const GPUS: [u64; 3] = [8, 64, 1024];
const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

impl Machine {
    fn hosts(&self, gpus: u64) -> u64 {
        gpus.div_ceil(self.gpus_of_host)
    }

    /// The slower of the links inside hosts and of the network, for what each GPU sends on either; both work at once.
    fn transfer(&self, on_link: f64, on_network: f64) -> f64 {
        (on_link / self.link_bandwidth).max(on_network / self.network_bandwidth)
    }

    /// A ring through all GPUs: the pieces pass every edge twice. Each adapter carries one of as many rings as a host has GPUs.
    fn ring_all_reduce(&self, gpus: u64, bytes: f64) -> f64 {
        let hosts = self.hosts(gpus);
        let between = if hosts > 1 { hosts } else { 0 };
        let inside = (gpus - between.max(1)) as f64;
        let latency = inside * self.link_latency + between as f64 * self.network_latency;
        let sent = 2.0 * (gpus - 1) as f64 / gpus as f64 * bytes;
        self.launch + 2.0 * latency + self.transfer(sent, self.share_of_adapter(hosts, sent))
    }

    /// A chain inside each host and two binary trees between hosts, up and down (Sanders, Speck and Träff, 2009).
    fn tree_all_reduce(&self, gpus: u64, bytes: f64) -> f64 {
        let hosts = self.hosts(gpus);
        let chain = (gpus.min(self.gpus_of_host) - 1) as f64;
        let depth = f64::from(hosts.next_power_of_two().ilog2());
        let latency = chain * self.link_latency + depth * self.network_latency;
        let sent = 2.0 * bytes;
        self.launch + 2.0 * latency + self.transfer(sent, self.share_of_adapter(hosts, sent))
    }

    fn share_of_adapter(&self, hosts: u64, bytes: f64) -> f64 {
        if hosts > 1 { bytes / self.gpus_of_host as f64 } else { 0.0 }
    }

    /// Each GPU has `bytes`, of which each other one gets an equal part, without a detour.
    fn all_to_all(&self, gpus: u64, bytes: f64) -> f64 {
        let near = gpus.min(self.gpus_of_host) - 1;
        let far = gpus - 1 - near;
        let part = bytes / gpus as f64;
        let latency = if far > 0 { self.network_latency } else { self.link_latency };
        let messages = (gpus - 1) as f64 * self.message;
        self.launch + latency + messages + self.transfer(near as f64 * part, far as f64 * part)
    }

    /// The exchange of faces of `bytes` each, of which the busiest GPUs send `near` by links and `far` by the network.
    fn halo(&self, (near, far): (u64, u64), bytes: f64) -> f64 {
        let latency = match (near, far) {
            (0, 0) => return 0.0,
            (_, 0) => self.link_latency,
            _ => self.network_latency,
        };
        self.launch + latency + self.transfer(near as f64 * bytes, far as f64 * bytes)
    }

    /// A pass that reads and writes each value of `bytes` once.
    fn pass(&self, values: f64, bytes: f64) -> f64 {
        self.launch + 2.0 * values * bytes / self.memory
    }
}

/// The phases of a sample sort, one after the other.
struct Sort {
    divide: f64,
    exchange: f64,
    sort: f64,
}

impl Sort {
    /// Keys of four bytes: a pass that orders them by target, the exchange, a sort of what came. Targets differ by 5 % in size.
    fn of(machine: &Machine, gpus: u64, keys: f64) -> Self {
        const UNEVEN: f64 = 1.05;
        let divide = machine.pass(keys, 4.0);
        let exchange = UNEVEN * machine.all_to_all(gpus, keys * 4.0);
        Self { divide, exchange, sort: UNEVEN * keys / machine.sort_rate }
    }

    fn whole(&self) -> f64 {
        self.divide + self.exchange + self.sort
    }
}

/// How a cube of points is divided among GPUs.
#[derive(Clone, Copy)]
enum Division {
    /// Along one axis: each GPU has two neighbours, at most one of them on another host.
    Slabs,
    /// Along three: each host has a cube of 2 × 2 × 2 blocks, so three of a block's six faces are towards other hosts.
    Blocks,
}

impl Division {
    /// The faces that a GPU computes first.
    fn faces(self, gpus: u64) -> u64 {
        match self {
            _ if gpus == 1 => 0,
            Self::Slabs => 2,
            Self::Blocks => 6,
        }
    }

    /// How many faces the busiest GPUs send inside their host and to other hosts.
    fn sent(self, machine: &Machine, gpus: u64) -> (u64, u64) {
        let has_others = machine.hosts(gpus) > 1;
        match self {
            Self::Slabs => (2.min(gpus - 1), u64::from(has_others)),
            Self::Blocks => (3.min(gpus - 1), if has_others { 3 } else { 0 }),
        }
    }
}

/// One step of a seven-point stencil in f32.
struct Step {
    compute: f64,
    halo: f64,
    whole: f64,
}

impl Step {
    /// Of `points` on each GPU, with faces of `face` points. The faces come first; their exchange and the inside overlap.
    fn of(machine: &Machine, gpus: u64, points: f64, face: f64, division: Division) -> Self {
        let outer = (division.faces(gpus) as f64 * face).min(points);
        let first = if outer > 0.0 { machine.pass(outer, 4.0) } else { 0.0 };
        let compute = machine.pass(points - outer, 4.0);
        let halo = machine.halo(division.sent(machine, gpus), face * 4.0);
        Self { compute: first + compute, halo, whole: first + compute.max(halo) }
    }

    /// `side`³ points on all GPUs together.
    fn strong(machine: &Machine, gpus: u64, side: f64, division: Division) -> Self {
        let (points, plane) = (side.powi(3) / gpus as f64, side * side);
        let face = match division {
            Division::Slabs => plane,
            Division::Blocks => points.powf(2.0 / 3.0),
        };
        Self::of(machine, gpus, points, face, division)
    }

    /// `side`³ points on each GPU.
    fn weak(machine: &Machine, gpus: u64, side: f64, division: Division) -> Self {
        Self::of(machine, gpus, side.powi(3), side * side, division)
    }
}

/// Three digits, and a unit.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let decimals = (2 - value.max(1.0).log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$} {unit}")
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// "1,024"
fn count(gpus: u64) -> String {
    if gpus < 1000 { gpus.to_string() } else { format!("{},{:03}", gpus / 1000, gpus % 1000) }
}

fn all_reduce_table(machine: &Machine) -> String {
    let mut table = "| all-reduce of | GPUs | ring | tree |\n|---|---|---|---|\n".to_owned();
    for (name, bytes) in [("1 MiB", MIB), ("1 GiB", GIB)] {
        for gpus in GPUS {
            let ring = time(machine.ring_all_reduce(gpus, bytes));
            let tree = time(machine.tree_all_reduce(gpus, bytes));
            table += &format!("| {name} | {} | {ring} | {tree} |\n", count(gpus));
        }
    }
    table
}

fn sort_table(machine: &Machine) -> String {
    let keys = f64::from(1u32 << 31);
    let head =
        "| GPUs | divide | exchange | sort | whole | keys a second | of one GPU's rate, a GPU |";
    let mut table = format!("{head}\n|---|---|---|---|---|---|---|\n");
    for gpus in GPUS {
        let sort = Sort::of(machine, gpus, keys);
        let rate = keys / sort.whole();
        let times = [sort.divide, sort.exchange, sort.sort, sort.whole()].map(time).join(" | ");
        let (all, of_one) = (gpus as f64 * rate / 1e9, percent(rate / machine.sort_rate));
        table += &format!(
            "| {} | {times} | {} G | {of_one} |\n",
            count(gpus),
            count(all.round() as u64)
        );
    }
    table
}

fn stencil_table(machine: &Machine) -> String {
    use Division::{Blocks, Slabs};
    let head = "| points | divided into | GPUs | compute | halo | step | efficiency |";
    let mut table = format!("{head}\n|---|---|---|---|---|---|---|\n");
    let mut row = |points: &str, division, gpus: u64, step: Step, ideal: f64| {
        let name = if matches!(division, Slabs) { "slabs" } else { "blocks" };
        let times = [step.compute, step.halo, step.whole].map(time).join(" | ");
        let efficiency = percent(ideal / step.whole);
        table += &format!("| {points} | {name} | {} | {times} | {efficiency} |\n", count(gpus));
    };
    for division in [Slabs, Blocks] {
        let one = Step::strong(machine, 1, 1024.0, division).whole;
        for gpus in GPUS {
            let step = Step::strong(machine, gpus, 1024.0, division);
            row("1024³ on all", division, gpus, step, one / gpus as f64);
        }
    }
    let one = Step::weak(machine, 1, 512.0, Slabs).whole;
    for gpus in GPUS {
        row("512³ on each", Slabs, gpus, Step::weak(machine, gpus, 512.0, Slabs), one);
    }
    table
}

fn main() {
    for table in [all_reduce_table, sort_table, stencil_table] {
        println!("{}", table(&ASSUMED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that can be checked in the head: a second for a byte on a link, ten on the network, and no other cost.
    const ROUND: Machine = Machine {
        gpus_of_host: 8,
        link_bandwidth: 1.0,
        link_latency: 0.0,
        network_bandwidth: 0.1,
        network_latency: 0.0,
        message: 0.0,
        launch: 0.0,
        memory: 1.0,
        sort_rate: 1.0,
    };

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} and not {expected}");
    }

    #[test]
    fn bytes_go_over_the_slower_of_links_and_network() {
        assert_near(ROUND.ring_all_reduce(8, 8.0), 14.0);
        assert_near(ROUND.tree_all_reduce(8, 8.0), 16.0);
        // An eighth of what each GPU sends, at a tenth of the rate.
        assert_near(ROUND.ring_all_reduce(64, 64.0), 126.0 / 8.0 * 10.0);
        assert_near(ROUND.all_to_all(8, 8.0), 7.0);
        assert_near(ROUND.all_to_all(64, 64.0), 560.0);
        assert_near(ROUND.halo((2, 0), 3.0), 6.0);
        assert_near(ROUND.halo((3, 3), 1.0), 30.0);
    }

    #[test]
    fn latencies_add_up_along_the_way() {
        let slow = Machine { link_latency: 1.0, network_latency: 100.0, ..ROUND };
        assert_near(slow.ring_all_reduce(8, 0.0), 14.0);
        assert_near(slow.tree_all_reduce(8, 0.0), 14.0);
        // Eight of the 64 edges of the ring are between hosts; the tree of eight hosts is three deep.
        assert_near(slow.ring_all_reduce(64, 0.0), 2.0 * (56.0 + 800.0));
        assert_near(slow.tree_all_reduce(64, 0.0), 2.0 * (7.0 + 300.0));
    }

    #[test]
    fn one_gpu_exchanges_nothing() {
        let one = Step::strong(&ROUND, 1, 4.0, Division::Slabs);
        assert_near(one.whole, 2.0 * 64.0 * 4.0);
        assert_near(one.halo, 0.0);
        let sort = Sort::of(&ROUND, 1, 100.0);
        assert_near(sort.exchange, 0.0);
    }

    #[test]
    fn a_step_takes_its_faces_and_the_longer_of_inside_and_halo() {
        // Four planes of sixteen points on each of two GPUs: two planes first, then two while one goes to the neighbour.
        let step = Step::of(&ROUND, 2, 64.0, 16.0, Division::Slabs);
        assert_near(step.whole, 256.0 + 256.0);
        assert_near(step.halo, 64.0);
        // Over the network the halo is the longer one.
        let step = Step::of(&ROUND, 16, 64.0, 16.0, Division::Slabs);
        assert_near(step.whole, 256.0 + 640.0);
    }

    #[test]
    fn numbers_have_three_digits() {
        let times = [12.34e-6, 999.4e-6, 1.5e-3, 0.12345, 2.0].map(time);
        assert_eq!(times, ["12.3 µs", "999 µs", "1.50 ms", "123 ms", "2.00 s"]);
        assert_eq!([8, 1024].map(count), ["8", "1,024"]);
    }

    #[test]
    fn the_book_has_these_tables() {
        let book = include_str!("../../book/src/many-gpus.md");
        for table in [all_reduce_table, sort_table, stencil_table].map(|table| table(&ASSUMED)) {
            assert!(book.contains(&table), "the book has another table than:\n{table}");
        }
    }
}
