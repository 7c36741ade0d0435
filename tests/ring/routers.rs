//! Kernels that send messages to each other by name.

use std::thread;
use std::time::Duration;

use cuda_std::panic::SLOTS;
use ferrowarp::completion::block_on;
use ferrowarp::{Bridge, Caller, Gpu, GpuError, GpuResult, Grid1, Receiver, Ring, Router};
use kernels_gpu::persistent::messages::{Divide, VectorMessage, ring_messages};
use kernels_gpu::persistent::routed::ROUNDS_IN_FLIGHT;
use kernels_gpu::persistent::{route_add, route_parity, route_rounds};

use super::support::{bridges, gpu};

const EVEN: u32 = 1_000_000;
const ODD: u32 = 2_000_000;

/// Host → parity → even and odd → sum → host. The kernels are started in another order.
fn diamond(gpu: &Gpu, slots: usize, bridge: Bridge) -> GpuResult<(Router<u32>, Receiver<u32>)> {
    let names = ["sum", "parity", "even", "odd"];
    let (mut router, receiver) = Router::new(gpu, &names, slots, bridge)?;
    for (name, addend) in [("odd", ODD), ("even", EVEN)] {
        router.start(name, |launcher, mail| {
            route_add::launch(launcher, Grid1::new(1), addend, mail.inbox(), mail.to("sum")?)
        })?;
    }
    router.start("parity", |launcher, mail| {
        let (even, odd) = (mail.to("even")?, mail.to("odd")?);
        route_parity::launch(launcher, Grid1::new(1), mail.from_host(), even, odd)
    })?;
    router.start("sum", |launcher, mail| {
        route_add::launch(launcher, Grid1::new(1), 1, mail.inbox(), mail.to_host())
    })?;
    Ok((router, receiver))
}

fn through_diamond(number: u32) -> u32 {
    number + 1 + if number.is_multiple_of(2) { EVEN } else { ODD }
}

/// All that is received until the end.
fn rest(receiver: &Receiver<u32>) -> GpuResult<Vec<u32>> {
    std::iter::from_fn(|| receiver.recv().transpose()).collect()
}

#[test]
fn messages_pass_several_kernels_and_none_is_lost_at_the_end() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for (bridge, _) in bridges(&gpu) {
        for (slots, count) in [(1, 20), (4, 200), (64, 200)] {
            let (router, receiver) = diamond(&gpu, slots, bridge)?;
            let mut found = thread::scope(|scope| {
                let receiving = scope.spawn(|| rest(&receiver));
                (0..count).try_for_each(|number| router.send("parity", &number))?;
                // While the last messages are on their way.
                router.shut_down()?;
                receiving.join().expect("no panic")
            })?;
            found.sort_unstable();
            let mut expected: Vec<_> = (0..count).map(through_diamond).collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "{bridge:?}, {slots} slots");
        }
    }
    Ok(())
}

/// Every mailbox is full, and all move on when the host receives.
#[test]
fn full_mailboxes_hold_back_and_do_not_deadlock() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (router, receiver) = diamond(&gpu, 2, Bridge::Mapped)?;
    let sender = router.sender("parity")?;
    let (mut sent, mut refused) = (0, 0);
    while refused < 2000 {
        match sender.try_send(&sent)? {
            true => (sent, refused) = (sent + 1, 0),
            false => {
                refused += 1;
                thread::sleep(Duration::from_micros(50));
            }
        }
    }
    // Five rings of two slots, and up to 32 in the lanes of each kernel.
    assert!((4..=10 + 4 * 32).contains(&sent), "{sent}");
    let more = async {
        for number in sent..sent + 50 {
            sender.send_async(number).await?;
        }
        GpuResult::Ok(())
    };
    let count = sent + 50;
    let mut found = thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            (0..count)
                .map(|_| receiver.recv().map(|number| number.expect("a number")))
                .collect::<GpuResult<Vec<_>>>()
        });
        block_on(more)?;
        receiving.join().expect("no panic")
    })?;
    found.sort_unstable();
    let mut expected: Vec<_> = (0..count).map(through_diamond).collect();
    expected.sort_unstable();
    assert!(found == expected, "lost or doubled");
    router.shut_down()?;
    assert_eq!(receiver.recv()?, None);
    Ok(())
}

/// Host → hub → one → two → hub, until a number is a multiple; then hub → host.
fn circle(gpu: &Gpu, slots: usize, modulus: u32) -> GpuResult<(Router<u32>, Receiver<u32>)> {
    let names = ["hub", "one", "two"];
    let (mut router, receiver) = Router::new(gpu, &names, slots, Bridge::Mapped)?;
    router.start("hub", |launcher, mail| {
        let (onward, one) = (mail.to("one")?, Grid1::new(1));
        let (requests, back) = (mail.from_host(), mail.inbox());
        route_rounds::launch(launcher, one, modulus, requests, back, onward, mail.to_host())
    })?;
    router.start("one", |launcher, mail| {
        route_add::launch(launcher, Grid1::new(1), 1, mail.inbox(), mail.to("two")?)
    })?;
    router.start("two", |launcher, mail| {
        let circle = mail.to("hub").expect_err("a circle");
        assert!(circle.to_string().contains("`two` to `hub` would close a circle"), "{circle}");
        let back = mail.feedback_to("hub")?;
        route_add::launch(launcher, Grid1::new(1), 2, mail.inbox(), back)
    })?;
    Ok((router, receiver))
}

#[test]
fn messages_go_around_a_circle_and_none_is_lost_at_the_end() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for count in [0, 1, 30] {
        let (router, receiver) = circle(&gpu, ROUNDS_IN_FLIGHT as usize, 8)?;
        let mut found = thread::scope(|scope| {
            let receiving = scope.spawn(|| rest(&receiver));
            (0..count).try_for_each(|number| router.send("hub", &number))?;
            router.shut_down()?;
            receiving.join().expect("no panic")
        })?;
        found.sort_unstable();
        // Each round adds 3, at least once.
        let last = |number: u32| (1..).map(|round| number + 3 * round).find(|n| n % 8 == 0);
        let mut expected: Vec<_> = (0..count).filter_map(last).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
    Ok(())
}

#[test]
fn the_panic_of_one_kernel_ends_all_with_its_name() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let names_it = |error: &GpuError, name: &str| {
        let words = error.to_string();
        assert!(words.contains(&format!("kernel `{name}`")), "{words}");
        let panic = error.panic().unwrap_or_else(|| panic!("another error: {error}"));
        assert!(panic.message.contains("room in 32 bits"), "{panic}");
    };
    // In the midst of others, with the host waiting for the last one.
    let (router, receiver) = diamond(&gpu, 4, Bridge::Mapped)?;
    router.send("parity", &8)?;
    assert_eq!(receiver.recv()?, Some(through_diamond(8)));
    router.check()?;
    router.send("parity", &u32::MAX)?;
    names_it(&receiver.recv().unwrap_err(), "odd");
    names_it(&block_on(receiver.recv_async()).unwrap_err(), "odd");
    names_it(&router.check().unwrap_err(), "odd");
    let sending = (0..).find_map(|number| router.send("parity", &number).err()).expect("an end");
    assert!(sending.panic().is_some() || matches!(sending, GpuError::RingClosed { .. }));
    names_it(&router.shut_down().unwrap_err(), "odd");
    // In a circle.
    let (router, receiver) = circle(&gpu, 4, 8)?;
    router.send("hub", &(u32::MAX - 1))?;
    names_it(&receiver.recv().unwrap_err(), "two");
    drop(router);
    // And seen by none but the shutdown, which first waits for "even": another launch of the same kernel.
    for _ in 0..4 {
        let (router, _receiver) = diamond(&gpu, 4, Bridge::Mapped)?;
        router.send("parity", &u32::MAX)?;
        names_it(&router.shut_down().unwrap_err(), "odd");
        // None is left behind.
        gpu.synchronize()?;
    }
    Ok(())
}

#[test]
fn a_panic_of_kernels_that_cannot_be_identified_names_them_all() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let names = ["left", "right"];
    let (mut router, receiver) = Router::<u32>::new(&gpu, &names, 4, Bridge::Mapped)?;
    // The kernels receive from rings that are not the router's, so it does not know their grids.
    let ring = || Ring::to_device(&gpu, 4, Bridge::Mapped);
    let rings = [ring()?, ring()?];
    for (name, (_, numbers)) in names.into_iter().zip(&rings) {
        router.start(name, |launcher, mail| {
            route_add::launch(launcher, Grid1::new(1), 1, numbers, mail.to_host())
        })?;
    }
    let [(left, _), (right, _)] = &rings;
    left.send(&1)?;
    assert_eq!(receiver.recv()?, Some(2));
    right.send(&u32::MAX)?;
    let received = receiver.recv().unwrap_err();
    for error in [received, router.check().unwrap_err(), router.shut_down().unwrap_err()] {
        assert!(error.panic().is_some(), "another error: {error}");
        let words = error.to_string();
        assert!(words.contains("the kernel `left` or `right` of a router"), "{words}");
    }
    gpu.synchronize()
}

#[test]
fn kernels_end_whose_panics_find_no_record() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let names: Vec<_> = (0..SLOTS + 2).map(|index| format!("kernel {index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (mut router, _receiver) = Router::<u32>::new(&gpu, &names, 4, Bridge::Mapped)?;
    for name in &names {
        router.start(name, |launcher, mail| {
            route_add::launch(launcher, Grid1::new(1), 1, mail.from_host(), mail.to_host())
        })?;
    }
    names.iter().try_for_each(|name| router.send(name, &u32::MAX))?;
    // All have taken their message before the host looks at a record, and frees one.
    for name in &names {
        while router.sender(name)?.telemetry()?.received == 0 {
            thread::yield_now();
        }
    }
    let error = router.shut_down().unwrap_err();
    assert!(error.panic().is_some(), "another error: {error}");
    assert!(error.to_string().contains("the kernel `kernel "), "{error}");
    // Of the other panics the first one is returned here; a kernel that still runs would be another error.
    let end = gpu.synchronize();
    assert!(end.as_ref().err().is_none_or(|error| error.panic().is_some()), "{end:?}");
    gpu.synchronize()
}

#[test]
fn names_and_links_that_cannot_be_are_errors() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let twice = Router::<u32>::new(&gpu, &["a", "b", "a"], 4, Bridge::Mapped).unwrap_err();
    assert!(twice.to_string().contains("`a` is given twice"), "{twice}");
    let names = ["first", "last"];
    let (mut router, receiver) = Router::<u32>::new(&gpu, &names, 4, Bridge::Mapped)?;
    let unknown = |error: GpuError| {
        assert!(matches!(error, GpuError::NotRouted { .. }), "{error}");
        let words = error.to_string();
        assert!(words.contains("`other`") && words.contains("first"), "{words}");
    };
    unknown(router.start("other", |_, _| Ok(())).unwrap_err());
    unknown(router.start("first", |_, mail| mail.to("other").map(drop)).unwrap_err());
    unknown(router.send("other", &1).unwrap_err());
    unknown(router.sender("other").unwrap_err());
    let says = |error: GpuError, words: &str| {
        assert!(matches!(error, GpuError::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let itself = router.start("first", |_, mail| mail.to("first").map(drop)).unwrap_err();
    says(itself, "close a circle");
    router.start("last", |launcher, mail| {
        route_add::launch(launcher, Grid1::new(1), 1, mail.inbox(), mail.to_host())
    })?;
    says(router.start("last", |_, _| Ok(())).unwrap_err(), "was started before");
    says(router.send("last", &1).unwrap_err(), "`first` has not been started");
    router.start("first", |launcher, mail| {
        route_add::launch(launcher, Grid1::new(1), 1, mail.from_host(), mail.to("last")?)
    })?;
    says(router.send("last", &1).unwrap_err(), "`last` does not take `from_host`");
    router.send("first", &1)?;
    assert_eq!(receiver.recv()?, Some(3));
    router.shut_down()?;
    // A link to a kernel that does not receive from others, whichever is started first.
    for receiver_first in [true, false] {
        let (mut router, _receiver) = Router::<u32>::new(&gpu, &names, 4, Bridge::Mapped)?;
        let last = |router: &mut Router<u32>| {
            router.start("last", |launcher, mail| {
                route_add::launch(launcher, Grid1::new(1), 1, mail.from_host(), mail.to_host())
            })
        };
        let first = |router: &mut Router<u32>| {
            router.start("first", |launcher, mail| {
                route_add::launch(launcher, Grid1::new(1), 1, mail.from_host(), mail.to("last")?)
            })
        };
        let error = match receiver_first {
            true => last(&mut router).and_then(|()| first(&mut router)),
            false => first(&mut router).and_then(|()| last(&mut router)),
        };
        says(error.unwrap_err(), "`first` sends to `last`, which does not take `inbox`");
    }
    gpu.synchronize()
}

#[test]
fn a_router_is_dropped_with_messages_on_their_way() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for receiver_first in [true, false] {
        let (mut router, receiver) = diamond(&gpu, 4, Bridge::Mapped)?;
        router.set_shutdown_timeout(Duration::from_millis(200));
        let sender = router.sender("parity")?;
        for number in 0..8 {
            sender.try_send(&number)?;
        }
        match receiver_first {
            true => drop((receiver, router)),
            false => drop((router, receiver)),
        }
        let refused = sender.send(&1).unwrap_err();
        assert!(matches!(refused, GpuError::RingClosed { .. }), "{refused}");
        gpu.synchronize()?;
    }
    Ok(())
}

#[test]
fn a_caller_calls_a_kernel_of_a_router() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let names = ["vectors"];
    let (mut router, receiver) = Router::<VectorMessage>::new(&gpu, &names, 8, Bridge::Mapped)?;
    router.start("vectors", |launcher, mail| {
        ring_messages::launch(launcher, Grid1::new(1), mail.from_host(), mail.to_host())
    })?;
    let caller = Caller::new(router.sender("vectors")?, receiver);
    let quotient = caller.call(&Divide { dividend: 100, divisor: 7 }).wait()?;
    assert_eq!((quotient.quotient, quotient.remainder), (14, 2));
    let error = caller.call(&Divide { dividend: 1, divisor: 0 }).wait().unwrap_err();
    let end = router.shut_down().unwrap_err();
    assert!(error.panic().is_some() && end.panic().is_some(), "{error}; {end}");
    let is_named = |error: &GpuError| error.to_string().contains("kernel `vectors`");
    assert!(is_named(&error) && is_named(&end), "{error}; {end}");
    Ok(())
}
