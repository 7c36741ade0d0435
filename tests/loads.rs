//! What the PTX of the shipped kernels does not do.

use ferrowarp::shipped::IMAGES;

/// The kernels that load 16 bytes of global memory and, from the same address, 8 of them again: what LLVM makes of a plain load of
/// four words that are then joined to elements of eight bytes. It costs an eighth of the L2 cache's answers.
fn loading_twice(ptx: &str) -> Vec<&str> {
    let (mut kernel, mut vectors, mut found) = ("", Vec::new(), Vec::new());
    for line in ptx.lines().map(str::trim_start) {
        if let Some((_, entry)) = line.split_once(".entry ") {
            kernel = entry.trim_end_matches('(');
        } else if line.starts_with("$L__BB") {
            // Another block of instructions, in which the registers may hold something else.
            vectors.clear();
        } else if let Some((load, address)) = line.split_once(", [") {
            if load.starts_with("ld.global") && load.contains(".v4.b32") {
                vectors.push(address);
            } else if load.starts_with("ld.global.b64") && vectors.contains(&address) {
                found.push(kernel);
            }
        }
    }
    found.dedup();
    found
}

#[test]
fn no_vector_is_loaded_twice() {
    for image in IMAGES {
        assert_eq!(loading_twice(image.ptx()), [""; 0], "in the image for {}", image.arch());
    }
}

#[test]
fn a_double_load_is_noticed() {
    let load = "\tld.global.v4.b32 \t{%r1, %r2, %r3, %r4}, [%rd1+16];\n";
    let half = "\tld.global.b64 \t%rd2, [%rd1+16];\n";
    let kernel = |body: &str| format!(".visible .entry sums(\n{load}{body}{half}}}\n");
    assert_eq!(loading_twice(&kernel("")), ["sums"]);
    assert_eq!(loading_twice(&kernel("$L__BB0_1:\n")), [""; 0]);
}

/// The device functions with `wgmma` instructions. In a kernel that calls one the assembler serializes all of them (C7510).
fn multiplying_in_functions(ptx: &str) -> Vec<&str> {
    let (mut function, mut found) = ("", Vec::new());
    for line in ptx.lines().map(str::trim_start) {
        if line.contains(".entry ") {
            function = "";
        } else if let Some((_, name)) = line.split_once(".func ") {
            function = name.trim();
        } else if line.contains("wgmma.mma_async") && !function.is_empty() {
            found.push(function);
        }
    }
    found.dedup();
    found
}

#[test]
fn warpgroups_multiply_in_kernels_alone() {
    for image in IMAGES {
        let found = multiplying_in_functions(image.ptx());
        assert_eq!(found, [""; 0], "in the image for {}", image.arch());
    }
}

#[test]
fn a_product_in_a_function_is_noticed() {
    let body = "\twgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1};\n}\n";
    assert_eq!(multiplying_in_functions(&format!(".visible .entry product(\n{body}")), [""; 0]);
    let function = format!(".visible .entry product(\n}}\n.func add(\n{body}");
    assert_eq!(multiplying_in_functions(&function), ["add("]);
}
