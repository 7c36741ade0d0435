"""A Rust kernel crate, compiled and launched from Python: where the compiler and this repository are."""

import shutil
from pathlib import Path

import numpy
import pytest

import ferrowarp

ROOT = Path(__file__).resolve().parents[2]
STD = ROOT / "crates/cuda_std"
if not STD.exists() or shutil.which("cargo") is None:
    pytest.skip("there is no Rust compiler, or no repository around the tests", allow_module_level=True)

MANIFEST = f"""
[package]
name = "own_kernels"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
cuda_std = {{ package = "ferrowarp-std", path = "{STD}" }}
"""

SOURCE = """
#![cfg_attr(target_os = "cuda", no_std)]

use cuda_std::prelude::*;

/// # Safety
/// `y` points to `n` elements.
#[kernel]
pub unsafe fn double(y: *mut f32, n: u32) {
    let i = thread::index_1d();
    if i < n {
        unsafe { *y.add(i as usize) *= 2.0 };
    }
}
"""


@pytest.fixture(scope="module")
def crate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(MANIFEST)
    (folder / "src/lib.rs").write_text(SOURCE)
    # The compiler, and the versions, that this repository is tested with.
    shutil.copy(ROOT / "Cargo.lock", folder)
    shutil.copy(ROOT / "rust-toolchain.toml", folder)
    return folder


def test_a_crate_is_built_and_launched(crate):
    ptx = ferrowarp.build(crate, target_dir=crate / "target")
    double = ferrowarp.Module(ptx).function("double")
    y = numpy.arange(1000, dtype="float32")
    double(4, 256, y, 1000)
    assert (y == 2 * numpy.arange(1000)).all()
    # Another architecture has a file of its own.
    other = ferrowarp.build(str(crate), arch="sm_70", target_dir=crate / "target")
    assert Path(other) != Path(ptx) and ".target sm_70" in Path(other).read_text()


def test_what_cannot_be_built(crate, tmp_path):
    with pytest.raises(ValueError, match="sm_12345"):
        ferrowarp.build(crate, arch="sm_12345")
    with pytest.raises(ferrowarp.Error, match="Cargo.toml|manifest"):
        ferrowarp.build(tmp_path, arch="sm_70")
