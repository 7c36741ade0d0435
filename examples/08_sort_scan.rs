//! Ready-made operations: bookings in any order are sorted by time, and a scan gives the balance after each.
//!
//! Every operation takes and returns device buffers and runs asynchronously on a stream; nothing comes back to the host
//! in between.

use ferrowarp::ops::{reduce, scan, sort};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;

    // Times that never repeat (7919 has no factor in common with n), and amounts between -50 and 50.
    let n = 100_000u32;
    let times: Vec<u32> = (0..n).map(|i| (u64::from(i) * 7919 % u64::from(n)) as u32).collect();
    let amounts: Vec<i32> = (0..n as i32).map(|i| (i * 31) % 101 - 50).collect();

    let on_times = DeviceBuffer::from_slice(&gpu, &times)?;
    let on_amounts = DeviceBuffer::from_slice(&gpu, &amounts)?;
    let options = sort::SortOptions::ASCENDING;
    let (on_times, on_amounts) = sort::sort_pairs(&gpu, &on_times, &on_amounts, options)?;
    let balances = scan::inclusive(&gpu, &on_amounts)?;
    let lowest = reduce::min(&gpu, &balances)?;
    let when = reduce::argmin(&gpu, &balances)?.expect("there are bookings");

    // Check on the host: sort the bookings and add up their amounts.
    let mut bookings: Vec<(u32, i32)> = times.into_iter().zip(amounts).collect();
    bookings.sort_by_key(|booking| booking.0);
    assert!(on_times.to_vec()?.into_iter().eq(bookings.iter().map(|booking| booking.0)));
    let mut balance = 0;
    let expected: Vec<i32> = bookings
        .iter()
        .map(|booking| {
            balance += booking.1;
            balance
        })
        .collect();
    assert_eq!(balances.to_vec()?, expected);
    assert_eq!(Some(&lowest), expected.iter().min());
    assert_eq!(expected[when], lowest);

    println!("device: {}", gpu.name());
    println!("{n} bookings: the balance ends at {balance}, and is lowest at time {when}: {lowest}");
    Ok(())
}
