//! The host crate: memory, streams, launches, errors. With kernels of its own, so that nothing here
//! depends on the ones that ship. Runs on the device that the machine has.

#[path = "host/adopted.rs"]
mod adopted;
#[path = "host/batches.rs"]
mod batches;
#[path = "host/child.rs"]
mod child;
#[path = "host/completion.rs"]
mod completion;
#[path = "host/contexts.rs"]
mod contexts;
#[path = "host/cust_memory.rs"]
mod cust_memory;
#[path = "host/device_vec.rs"]
mod device_vec;
#[path = "host/dlpack.rs"]
mod dlpack;
#[path = "host/faults.rs"]
mod faults;
#[path = "host/futures.rs"]
mod futures;
#[path = "host/gate.rs"]
mod gate;
#[path = "host/globals.rs"]
mod globals;
#[path = "host/gpu_pools.rs"]
mod gpu_pools;
#[path = "host/graphs.rs"]
mod graphs;
#[path = "host/host_funcs.rs"]
mod host_funcs;
#[path = "host/host_memory_faults.rs"]
mod host_memory_faults;
#[path = "host/host_refs.rs"]
mod host_refs;
#[path = "host/host_resources.rs"]
mod host_resources;
#[path = "host/host_scope.rs"]
mod host_scope;
#[path = "host/injection.rs"]
mod injection;
#[path = "host/kernels.rs"]
mod kernels;
#[path = "host/launch_cost.rs"]
mod launch_cost;
#[path = "host/launches.rs"]
mod launches;
#[path = "host/memory.rs"]
mod memory;
#[path = "host/modules.rs"]
mod modules;
#[path = "host/named.rs"]
mod named;
#[path = "host/occupancy.rs"]
mod occupancy;
#[path = "host/operations.rs"]
mod operations;
#[path = "host/pinned.rs"]
mod pinned;
#[path = "host/pipelines.rs"]
mod pipelines;
#[path = "host/pools.rs"]
mod pools;
#[path = "host/processes.rs"]
mod processes;
#[path = "host/random_order.rs"]
mod random_order;
#[path = "host/stream_ordered.rs"]
mod stream_ordered;
#[path = "host/streams.rs"]
mod streams;
#[path = "host/stress.rs"]
mod stress;
#[path = "host/transfers.rs"]
mod transfers;
#[path = "host/unified.rs"]
mod unified;
#[path = "host/uninit.rs"]
mod uninit;
#[path = "host/what_is_printed.rs"]
mod what_is_printed;
