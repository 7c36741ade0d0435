//! Device memory and a launcher that only record.
#![allow(dead_code)]

use cuda_std::launch::{
    Args, DeviceRead, DeviceReadOne, DeviceWrite, DeviceWriteGrid, Home, Kernel, Launch,
    LaunchConfig, RawSlice,
};
use std::any::Any;
use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

/// Device memory that is only an address.
pub struct Buffer<T> {
    address: u64,
    len: usize,
    home: Option<Arc<dyn Any + Send + Sync>>,
    element: PhantomData<T>,
}

impl<T> Buffer<T> {
    pub fn new(address: u64, len: usize) -> Self {
        Self { address, len, home: None, element: PhantomData }
    }

    pub fn at_home(self, home: &'static str) -> Self {
        Self { home: Some(Arc::new(home)), ..self }
    }

    fn describe(&self) -> RawSlice<'_> {
        RawSlice { address: self.address, len: self.len, home: self.home.as_ref().map(Home::from) }
    }
}

// SAFETY: the mock launcher follows no address.
unsafe impl<T> DeviceRead<T> for Buffer<T> {
    fn raw(&self) -> RawSlice<'_> {
        self.describe()
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the mock launcher follows no address.
unsafe impl<T> DeviceReadOne<T> for Buffer<T> {
    fn raw_one(&self) -> RawSlice<'_> {
        self.describe()
    }
}

// SAFETY: the mock launcher follows no address.
unsafe impl<T> DeviceWrite<T> for Buffer<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.describe()
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the mock launcher follows no address.
unsafe impl<T> DeviceWriteGrid<T> for Buffer<T> {
    fn raw_grid(&mut self) -> (RawSlice<'_>, usize, usize) {
        (self.describe(), self.len / 2, 2)
    }
}

/// What one launch was handed.
#[derive(Debug, PartialEq)]
pub struct Launched {
    pub name: &'static str,
    pub config: LaunchConfig,
    pub values: Vec<Vec<u8>>,
    pub homes: Vec<&'static str>,
}

#[derive(Default)]
pub struct Recorder(RefCell<Vec<Launched>>);

impl Recorder {
    pub fn only(self) -> Launched {
        let mut launched = self.0.into_inner();
        assert_eq!(launched.len(), 1);
        launched.remove(0)
    }
}

impl Launch for Recorder {
    type Error = Infallible;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> Result<(), Infallible> {
        let pointers = args.pointers();
        assert_eq!(pointers.len(), kernel.params.len());
        let expected: Vec<_> = kernel.params.iter().map(|param| param.size_bytes).collect();
        assert_eq!(args.sizes_bytes().collect::<Vec<_>>(), expected);
        let bytes = |(&pointer, &len): (&*mut c_void, &usize)| {
            // SAFETY: each pointer leads to a value of the size that `Args` states.
            unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), len) }.to_vec()
        };
        self.0.borrow_mut().push(Launched {
            name: kernel.name,
            config,
            values: pointers.iter().zip(&expected).map(bytes).collect(),
            homes: args.homes().map(|home| *home.downcast_ref().unwrap()).collect(),
        });
        Ok(())
    }
}
