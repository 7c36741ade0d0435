//! Kernels of the caller's own, from PTX.

use std::path::PathBuf;

use cuda_std::launch::DevicePtr;
use cuda_std::{bf16, f16};
use ferrowarp::module::{Args, ModuleFunction};
use ferrowarp::{DeviceBuffer, GpuResult, LaunchConfig, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use crate::array::Place;
use crate::call::Call;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::to_python;
use crate::input::Input;

/// PTX of any compiler, loaded on a device: a path of a file, or the text itself.
///
/// A text is recognised by its line ends. The code stays loaded as long as the module or a function of it is held.
#[pyclass(frozen, module = "ferrowarp")]
pub struct Module {
    module: ferrowarp::Module,
    ordinal: u32,
}

#[pymethods]
impl Module {
    #[new]
    #[pyo3(signature = (path_or_text, *, device = 0))]
    fn new(py: Python<'_>, path_or_text: &Bound<'_, PyAny>, device: u32) -> PyResult<Self> {
        let text: Option<String> = match path_or_text.cast::<PyString>() {
            Ok(text) if text.to_cow()?.contains('\n') => Some(text.extract()?),
            _ => None,
        };
        let path: PathBuf = if text.is_none() { path_or_text.extract()? } else { PathBuf::new() };
        let module = py.detach(|| {
            let gpu = Device::get(device)?.gpu();
            match text {
                Some(text) => ferrowarp::Module::from_ptx(gpu, text),
                None => ferrowarp::Module::from_file(gpu, path),
            }
        });
        Ok(Self { module: module.map_err(to_python)?, ordinal: device })
    }

    /// The kernel of that name.
    fn function(&self, name: &str) -> PyResult<Function> {
        let function = self.module.function(name).map_err(to_python)?;
        Ok(Function { function, ordinal: self.ordinal })
    }

    /// The names of its kernels.
    fn names(&self) -> PyResult<Vec<String>> {
        self.module.function_names().map_err(to_python)
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<ferrowarp.Module with {}>", self.names()?.join(", ")))
    }
}

/// A kernel of a Module. function(grid, block, *arguments, shared=0) launches it and waits for it.
///
/// grid and block are one to three numbers. An argument is an array, whose address the kernel gets; a number, as the parameter's
/// size in the PTX wants it (an int of 1, 2, 4 or 8 bytes, a float of 4 or 8); a NumPy scalar; or a pair of a type's name and a
/// number, ("float16", 1.5). Their count and sizes are compared with the PTX.
///
/// PTX does not say more than that: whether an int should have been a float, and whether the kernel stays inside its arrays, is the
/// caller's to know. On a GPU a stray store corrupts memory of this process; the emulator reports it.
#[pyclass(frozen, module = "ferrowarp")]
pub struct Function {
    function: ModuleFunction,
    ordinal: u32,
}

#[pymethods]
impl Function {
    /// The kernel's name.
    #[getter]
    fn name(&self) -> &str {
        self.function.name()
    }

    /// The sizes of its parameters in bytes; a pointer has 8.
    #[getter]
    fn parameter_bytes(&self) -> Vec<usize> {
        self.function.parameter_bytes().collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "<ferrowarp.Function {}, parameters of {:?} bytes>",
            self.name(),
            self.parameter_bytes()
        )
    }

    #[pyo3(signature = (grid, block, *arguments, shared = 0))]
    fn __call__(
        &self,
        py: Python<'_>,
        grid: Extents,
        block: Extents,
        arguments: &Bound<'_, PyTuple>,
        shared: u32,
    ) -> PyResult<()> {
        let config = LaunchConfig {
            grid: grid.into_three("grid")?,
            block: block.into_three("block")?,
            shared_mem_bytes: shared,
        };
        let (values, arrays) = self.values(arguments)?;
        let objects: Vec<_> = arrays.iter().map(|array| ("an array", Some(array))).collect();
        let call = Call::on(self.ordinal, "launch", &objects)?;
        self.check_device(&call)?;
        let sources = sources(&call)?;
        call.run(py, |on| {
            let arrays = Arrays::upload(on, call.inputs(), sources)?;
            let mut args = Args::new();
            for value in &values {
                match *value {
                    Value::Number(number) => number.push(&mut args),
                    Value::Array(number) => arrays.push(number, &mut args),
                }
            }
            // SAFETY: number and sizes of the arguments were compared with the PTX; the rest is what this class asks of its
            // caller, who has no other way to know it either.
            unsafe { self.function.launch(on, config, &args)? };
            arrays.download()
        })
    }
}

impl Function {
    /// The arguments, and the arrays among them, compared with the parameters.
    fn values<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<(Vec<Value>, Vec<Bound<'py, PyAny>>)> {
        let sizes = self.parameter_bytes();
        if sizes.len() != arguments.len() {
            return Err(PyValueError::new_err(format!(
                "`{}` takes {} arguments of {sizes:?} bytes, and is launched with {}",
                self.name(),
                sizes.len(),
                arguments.len()
            )));
        }
        let mut arrays = Vec::new();
        let mut value = |(number, (argument, bytes)): (usize, (Bound<'py, PyAny>, usize))| {
            let refused = |reason: String| {
                PyValueError::new_err(format!("`{}`, argument {number}: {reason}", self.name()))
            };
            if !argument.hasattr("__dlpack__")? {
                let number = Number::of(&argument, bytes).map_err(|error| error.raise(refused))?;
                return Ok(Value::Number(number));
            }
            if bytes != size_of::<u64>() {
                let reason =
                    format!("an array is a pointer of 8 bytes, and the parameter has {bytes}");
                return Err(refused(reason));
            }
            arrays.push(argument);
            Ok(Value::Array(arrays.len() - 1))
        };
        let values =
            arguments.iter().zip(sizes).enumerate().map(&mut value).collect::<PyResult<_>>()?;
        Ok((values, arrays))
    }

    /// An error if the arrays are on another GPU than the module.
    fn check_device(&self, call: &Call) -> PyResult<()> {
        let found = call.lease().device().gpu().info().ordinal;
        if found == self.ordinal {
            return Ok(());
        }
        Err(call.wrong(format!(
            "the arrays are on cuda:{found}, and the module is loaded on cuda:{}: load it with device={found}",
            self.ordinal
        )))
    }
}

/// One to three numbers.
#[derive(FromPyObject)]
pub enum Extents {
    /// The first; the others are 1.
    One(u32),
    /// All, or the first two.
    Several(Vec<u32>),
}

impl Extents {
    fn into_three(self, name: &str) -> PyResult<(u32, u32, u32)> {
        let given = match self {
            Self::One(x) => vec![x],
            Self::Several(given) => given,
        };
        match given[..] {
            [x] => Ok((x, 1, 1)),
            [x, y] => Ok((x, y, 1)),
            [x, y, z] => Ok((x, y, z)),
            _ => Err(PyValueError::new_err(format!(
                "{name} is {given:?}, and has to be one to three numbers"
            ))),
        }
    }
}

/// An argument of a launch.
enum Value {
    /// The address of the array with that number.
    Array(usize),
    Number(Number),
}

/// A number as a kernel takes it: its bytes.
#[derive(Clone, Copy)]
enum Number {
    One([u8; 1]),
    Two([u8; 2]),
    Four([u8; 4]),
    Eight([u8; 8]),
}

/// Why an argument is not a number for its parameter.
enum NotANumber {
    /// What is wrong with it.
    Reason(String),
    /// What Python says.
    Raised(PyErr),
}

impl NotANumber {
    fn raise(self, refused: impl FnOnce(String) -> PyErr) -> PyErr {
        match self {
            Self::Reason(reason) => refused(reason),
            Self::Raised(error) => error,
        }
    }
}

impl From<PyErr> for NotANumber {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Number {
    /// The argument for a parameter of `bytes` bytes.
    fn of(argument: &Bound<'_, PyAny>, bytes: usize) -> Result<Self, NotANumber> {
        if let Ok(pair) = argument.cast::<PyTuple>() {
            let (name, value): (String, Bound<'_, PyAny>) = pair.extract()?;
            return Self::typed(&name, &value, bytes);
        }
        if argument.hasattr("dtype")? && argument.hasattr("item")? {
            let name: String = argument.getattr("dtype")?.getattr("name")?.extract()?;
            return Self::typed(&name, &argument.call_method0("item")?, bytes);
        }
        if argument.is_instance_of::<PyBool>() {
            return Self::typed("bool", argument, bytes);
        }
        if argument.is_instance_of::<PyFloat>() {
            let name = match bytes {
                4 => "float32",
                8 => "float64",
                _ => {
                    let reason = format!(
                        "a float has 4 or 8 bytes, and the parameter has {bytes}: pass (\"float16\", x)"
                    );
                    return Err(NotANumber::Reason(reason));
                }
            };
            return Self::typed(name, argument, bytes);
        }
        if argument.is_instance_of::<PyInt>() {
            return Self::integer(argument, bytes);
        }
        Err(NotANumber::Raised(PyTypeError::new_err(format!(
            "an argument of a kernel is an array, a number or a pair of a type's name and a number, and not a {}",
            argument.get_type().name()?
        ))))
    }

    /// An integer that fits the parameter with or without a sign.
    fn integer(value: &Bound<'_, PyAny>, bytes: usize) -> Result<Self, NotANumber> {
        let is_negative = value.lt(0)?;
        let bits = 8 * bytes;
        let name = format!("{}int{bits}", if is_negative { "" } else { "u" });
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return Err(NotANumber::Reason(format!(
                "an int has 1, 2, 4 or 8 bytes, and the parameter has {bytes}"
            )));
        }
        Self::typed(&name, value, bytes)
    }

    /// The number of that type.
    fn typed(name: &str, value: &Bound<'_, PyAny>, bytes: usize) -> Result<Self, NotANumber> {
        let dtype = DType::from_name(name).ok_or_else(|| {
            NotANumber::Reason(format!("{name:?} is not the name of a type, as \"float32\" is"))
        })?;
        if dtype.bytes() != bytes {
            let own = dtype.bytes();
            return Err(NotANumber::Reason(format!(
                "{name} has {own} bytes, and the parameter has {bytes}"
            )));
        }
        let fits = |error: PyErr| {
            NotANumber::Reason(format!("{value} is not a number of {name} ({error})"))
        };
        macro_rules! bytes_of {
            ($variant:ident $ty:ty) => {
                Self::$variant(value.extract::<$ty>().map_err(fits)?.to_ne_bytes())
            };
        }
        Ok(match dtype {
            DType::Bool => Self::One([value.extract::<bool>().map_err(fits)?.into()]),
            DType::U8 => bytes_of!(One u8),
            DType::I8 => bytes_of!(One i8),
            DType::U16 => bytes_of!(Two u16),
            DType::I16 => bytes_of!(Two i16),
            DType::U32 => bytes_of!(Four u32),
            DType::I32 => bytes_of!(Four i32),
            DType::U64 => bytes_of!(Eight u64),
            DType::I64 => bytes_of!(Eight i64),
            DType::F32 => bytes_of!(Four f32),
            DType::F64 => bytes_of!(Eight f64),
            DType::F16 => Self::Two(f16::from_f64(value.extract().map_err(fits)?).to_ne_bytes()),
            DType::Bf16 => Self::Two(bf16::from_f64(value.extract().map_err(fits)?).to_ne_bytes()),
        })
    }

    fn push(self, args: &mut Args<'_>) {
        match self {
            Self::One(bytes) => args.push_value(u8::from_ne_bytes(bytes)),
            Self::Two(bytes) => args.push_value(u16::from_ne_bytes(bytes)),
            Self::Four(bytes) => args.push_value(u32::from_ne_bytes(bytes)),
            Self::Eight(bytes) => args.push_value(u64::from_ne_bytes(bytes)),
        }
    }
}

/// For each array of a launch, the number of the first one with the same memory; an error where arrays of the host overlap in
/// part, since a kernel gets copies of them.
fn sources(call: &Call) -> PyResult<Vec<usize>> {
    let source = |(number, input): (usize, &Input)| {
        input.check_contiguous("launch")?;
        let mut earlier = call.inputs()[..number].iter().enumerate();
        if input.place() == Place::Host && earlier.clone().any(|(_, other)| input.overlaps(other)) {
            return Err(call.wrong(
                "two arrays of the host overlap in part, and a kernel gets copies of them: pass the larger one alone",
            ));
        }
        Ok(earlier.find(|(_, other)| input.is_at(other)).map_or(number, |(other, _)| other))
    };
    call.inputs().iter().enumerate().map(source).collect()
}

/// The arrays of a launch: those of a GPU where they are, those of the host as copies, one for each memory.
struct Arrays<'a> {
    inputs: &'a [Input],
    sources: Vec<usize>,
    copies: Vec<Option<DeviceBuffer<u8>>>,
}

impl<'a> Arrays<'a> {
    fn upload(on: &Stream, inputs: &'a [Input], sources: Vec<usize>) -> GpuResult<Self> {
        let copy = |(number, input): (usize, &Input)| match input.place() {
            Place::Host if sources[number] == number => {
                DeviceBuffer::from_slice(on, input.host_bytes()).map(Some)
            }
            _ => Ok(None),
        };
        let copies = inputs.iter().enumerate().map(copy).collect::<GpuResult<_>>()?;
        Ok(Self { inputs, sources, copies })
    }

    /// Appends the address of the array with that number.
    fn push(&self, number: usize, args: &mut Args<'_>) {
        let copy = &self.copies[self.sources[number]];
        // The copies are ordered with the launch, which is on the stream that they were made on.
        args.push_pointer(match copy {
            Some(copy) => copy.as_device_ptr(),
            None => DevicePtr::from_raw(self.inputs[number].address() as u64),
        });
    }

    /// Copies what kernels may have written back to the host.
    fn download(self) -> GpuResult<()> {
        for (copy, input) in self.copies.iter().zip(self.inputs) {
            if let Some(copy) = copy.as_ref().filter(|_| !input.is_read_only()) {
                input.write_host(copy)?;
            }
        }
        Ok(())
    }
}
