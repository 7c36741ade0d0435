//! Tensors by DLPack: memory that two libraries use in turn, without a copy.
//!
//! The other library is a function here. It may be PyTorch or CuPy behind `dlpark`'s feature `pyo3`, `cudarc`, or C code that takes a
//! `DLManagedTensorVersioned *`.

use std::error::Error;
use std::sync::Arc;

use dlpark::ffi::DLManagedTensorVersioned;
use dlpark::{DlpackFlags, versioned};
use ferrowarp::dlpack::{ConsumerStream, ReadOnly, share};
use ferrowarp::ops::reduce;
use ferrowarp::{DeviceBuffer, Gpu};

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::new()?;

    // A buffer becomes a tensor, which owns the memory. The consumer works on its default stream, which waits for ours.
    let x: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let x = DeviceBuffer::from_slice(&gpu, &x)?;
    let tensor: versioned::Dlpack = x.into_dlpack(&[3, 4], ConsumerStream::OMITTED)?;
    let returned = other_library(tensor.into_raw());

    // SAFETY: the other library has given the tensor up.
    let tensor = unsafe { versioned::Dlpack::from_raw(returned)? };
    let shape = tensor.validate()?.shape().to_vec();
    // SAFETY: no other code has the memory, and no work of other code has written it.
    let x = unsafe { DeviceBuffer::<f32>::from_dlpack(&gpu, tensor)? };
    let sum = reduce::sum(&gpu, &x)?;
    assert_eq!((&shape[..], sum), (&[3, 4][..], 66.0));
    println!("a tensor of shape {shape:?} came back; its sum is {sum}");

    // A part of a buffer that both sides read: the tensor is read-only, and so is what an import makes of it.
    let weights = Arc::new(DeviceBuffer::from_slice(&gpu, &[0.5f32; 256])?);
    let tensor = share(&weights, 64.., &[2, 96], ConsumerStream::OMITTED)?;
    assert!(tensor.flags().contains(DlpackFlags::READ_ONLY));
    // SAFETY: the memory is only read while the tensor exists.
    let part = unsafe { ReadOnly::<f32>::from_dlpack(&gpu, tensor)? };
    let (all, part) = (reduce::sum(&gpu, &*weights)?, reduce::sum(&gpu, &part)?);
    assert_eq!((all, part), (128.0, 96.0));
    println!("the weights' sum is {all}, that of the shared part {part}");
    Ok(())
}

/// Looks at a tensor and gives it back.
fn other_library(tensor: *mut DLManagedTensorVersioned) -> *mut DLManagedTensorVersioned {
    // SAFETY: the caller gave a tensor, which this function owns.
    let description = unsafe { &(*tensor).dl_tensor };
    let device: (u32, i32) = description.device.into();
    println!("the other library has a tensor on DLPack's device {device:?}");
    tensor
}
