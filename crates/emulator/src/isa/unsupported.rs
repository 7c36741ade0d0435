//! Why an instruction that exists is not supported.

use crate::ptx::ast::Instruction;

const TEXTURES: [&str; 8] = ["tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"];
/// Words of `sm_100` and what came with it, which no device before it has.
const NEWER: [&str; 18] = [
    "f32x2",
    "e2m1x2",
    "e2m3x2",
    "e3m2x2",
    "ue8m0x2",
    "e4m3x4",
    "e5m2x4",
    "e2m1x4",
    "e2m3x4",
    "e3m2x4",
    "rs",
    "v8",
    "u8x4",
    "s8x4",
    "kind::f8f6f4",
    "kind::mxf4",
    "kind::mxf8f6f4",
    "kind::mxf4nvf4",
];
/// Instructions whose lanes have to be named by a mask from `sm_70` on.
const WARP: [&str; 2] = ["vote", "shfl"];

/// The reason, where there is one to tell.
pub fn reason(instruction: &Instruction) -> Option<&'static str> {
    let has = |word: &str| instruction.modifiers.iter().any(|own| own == word);
    let opcode = instruction.opcode.as_str();
    Some(match opcode {
        _ if TEXTURES.contains(&opcode) => "textures and surfaces are not emulated",
        "tcgen05" | "clusterlaunchcontrol" => "it needs `sm_100`",
        "multimem" => "multicast memory of several devices is not emulated",
        "atom" | "red" if has("local") => {
            "an atomic has no state space `.local`, a thread's own memory; a plain load and store do there"
        }
        "atom" | "red" if has("const") || has("param") => {
            "an atomic works on global and shared memory only"
        }
        _ if WARP.contains(&opcode) && !has("sync") => {
            "`sm_70` and later have only its `.sync` form"
        }
        "fma" if has("oob") => "the NaN that marks what is out of bounds is not documented",
        "redux" if has("f32") => "it needs `sm_100a`",
        "ld" | "st"
            if ["L2::evict_first", "L2::evict_last", "L2::evict_normal"].into_iter().any(has) =>
        {
            "it needs `sm_100`"
        }
        "ld" | "st" if has("b128") && (has("v2") || has("v4")) => "it needs `sm_100`",
        _ if NEWER.into_iter().any(has) => "it needs `sm_100`",
        _ => return None,
    })
}
