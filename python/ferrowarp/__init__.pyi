from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, final

__all__ = [
    "Array",
    "Csr",
    "DeviceInfo",
    "Error",
    "Function",
    "Module",
    "__version__",
    "argsort",
    "attention",
    "build",
    "device",
    "histogram",
    "integers",
    "layer_norm",
    "matmul",
    "normal",
    "partition",
    "permute",
    "rms_norm",
    "run_lengths",
    "scan",
    "segmented_argsort",
    "segmented_reduce",
    "segmented_sort",
    "select",
    "softmax",
    "sort",
    "spmv",
    "stencil",
    "top_k",
    "transpose",
    "uniform",
    "unique",
]

__version__: str

class _DLPack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

# Results have the type of the first argument.
_A = TypeVar("_A", bound=_DLPack)

class Error(RuntimeError): ...

@final
class Array:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

@final
class DeviceInfo:
    @property
    def ordinal(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def compute_capability(self) -> tuple[int, int]: ...
    @property
    def total_memory(self) -> int: ...
    @property
    def free_memory(self) -> int: ...

@final
class Module:
    def __new__(cls, path_or_text: str | PathLike[str], *, device: int = 0) -> Module: ...
    def function(self, name: str) -> Function: ...
    def names(self) -> list[str]: ...

@final
class Function:
    @property
    def name(self) -> str: ...
    @property
    def parameter_bytes(self) -> list[int]: ...
    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *arguments: _DLPack | int | float | tuple[str, int | float],
        shared: int = 0,
    ) -> None: ...

@final
class Csr:
    def __new__(cls, offsets: _DLPack, columns: _DLPack, values: _DLPack, width: int) -> Csr: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def entries(self) -> int: ...
    @property
    def dtype(self) -> str: ...

def build(
    path: str | PathLike[str],
    *,
    arch: str | None = None,
    target_dir: str | PathLike[str] | None = None,
    device: int = 0,
) -> Path: ...
def device(ordinal: int = 0) -> DeviceInfo: ...
def sort(x: _A, *, descending: bool = False) -> _A: ...
def argsort(x: _A, *, descending: bool = False) -> _A: ...
def top_k(x: _A, k: int, *, largest: bool = True) -> tuple[_A, _A]: ...
def scan(x: _A, op: Literal["sum", "max", "min"] = "sum", *, exclusive: bool = False) -> _A: ...
def select(x: _A, flags: _DLPack) -> _A: ...
def partition(x: _A, flags: _DLPack) -> tuple[_A, int]: ...
def unique(x: _A) -> _A: ...
def run_lengths(x: _A) -> tuple[_A, _A]: ...
def histogram(
    x: _A,
    bins: int | Sequence[int] | Sequence[float],
    range: tuple[float, float] | tuple[int, int] | None = None,
) -> _A: ...
def segmented_reduce(x: _A, offsets: _DLPack, op: Literal["sum", "min", "max"] = "sum") -> _A: ...
def segmented_sort(x: _A, offsets: _DLPack, *, descending: bool = False) -> _A: ...
def segmented_argsort(x: _A, offsets: _DLPack, *, descending: bool = False) -> _A: ...
def spmv(matrix: Csr, x: _A) -> _A: ...
def stencil(
    x: _A,
    centre: float,
    neighbours: Sequence[float],
    *,
    steps: int = 1,
    boundary: Literal["fixed", "periodic", "insulated"] = "fixed",
) -> _A: ...
def softmax(x: _A, *, log: bool = False) -> _A: ...
def layer_norm(
    x: _A,
    weight: _DLPack | None = None,
    bias: _DLPack | None = None,
    *,
    residual: _DLPack | None = None,
    epsilon: float = 1e-5,
) -> _A: ...
def rms_norm(
    x: _A,
    weight: _DLPack | None = None,
    *,
    residual: _DLPack | None = None,
    epsilon: float = 1e-5,
) -> _A: ...
def attention(
    q: _A,
    k: _DLPack,
    v: _DLPack,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> _A: ...
def matmul(
    a: _A,
    b: _DLPack,
    *,
    precision: Literal["float32", "tf32", "3xtf32"] | None = None,
) -> _A: ...
def uniform(
    shape: int | Sequence[int],
    *,
    seed: int,
    offset: int = 0,
    dtype: Literal["float32", "float64"] = "float32",
    like: Any = None,
) -> Any: ...
def normal(
    shape: int | Sequence[int],
    *,
    seed: int,
    offset: int = 0,
    mean: float = 0.0,
    deviation: float = 1.0,
    like: Any = None,
) -> Any: ...
def integers(
    shape: int | Sequence[int],
    low: int,
    high: int,
    *,
    seed: int,
    offset: int = 0,
    dtype: Literal["uint32", "uint64"] = "uint32",
    like: Any = None,
) -> Any: ...
def transpose(x: _A) -> _A: ...
def permute(x: _A, axes: Sequence[int]) -> _A: ...
