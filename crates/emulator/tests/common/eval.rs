//! One instruction at a time: operands in, result out.

use super::{Buffer, HEAD, device, launch};

/// Executes `body` once for each row of operands and returns what it left in its result.
///
/// The operands are `a64, b64, c64`, their low halves `a32 …` and quarters `a16 …`, and the
/// predicates `pa …`, which are their lowest bits. The result is whichever of `d64, d32, d16, pd`
/// the body names.
pub fn eval(body: &str, rows: &[[u64; 3]]) -> Vec<u64> {
    let device = device();
    let input: Vec<u64> = rows.iter().flatten().copied().collect();
    let (input, output) = (Buffer::of_u64(&device, &input), Buffer::new(&device, 8 * rows.len()));
    let widen = if body.contains("d64") {
        ""
    } else if body.contains("d32") {
        "cvt.u64.u32 d64, d32;"
    } else if body.contains("d16") {
        "cvt.u64.u16 d64, d16;"
    } else {
        "selp.b64 d64, 1, 0, pd;"
    };
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 n) {{
            .reg .pred p, pa, pb, pc, pd, pe;
            .reg .b16 a16, b16, c16, d16, e16;
            .reg .b32 i, a32, b32, c32, d32, e32;
            .reg .b64 i64, in, out, n, a64, b64, c64, d64, e64, from, to;
            ld.param.b64 in, [in]; ld.param.b64 out, [out]; ld.param.b64 n, [n];
            mov.u32 i, %tid.x;
            cvt.u64.u32 i64, i;
            setp.ge.u64 p, i64, n;
            @p bra END;
            mad.wide.u32 from, i, 24, in;
            mad.wide.u32 to, i, 8, out;
            ld.global.b64 a64, [from]; ld.global.b64 b64, [from+8]; ld.global.b64 c64, [from+16];
            cvt.u32.u64 a32, a64; cvt.u32.u64 b32, b64; cvt.u32.u64 c32, c64;
            cvt.u16.u64 a16, a64; cvt.u16.u64 b16, b64; cvt.u16.u64 c16, c64;
            and.b32 e32, a32, 1; setp.ne.s32 pa, e32, 0;
            and.b32 e32, b32, 1; setp.ne.s32 pb, e32, 0;
            and.b32 e32, c32, 1; setp.ne.s32 pc, e32, 0;
            {body}
            {widen}
            st.global.b64 [to], d64;
        END: ret; }}"
    );
    // Names of registers may not be those of parameters.
    let text = text
        .replace(".param .u64 in", ".param .u64 k_in")
        .replace(".param .u64 out", ".param .u64 k_out");
    let text = text.replace(".param .u64 n)", ".param .u64 k_n)");
    let text = text.replace("[in]", "[k_in]").replace("[out]", "[k_out]").replace("[n]", "[k_n]");
    let params = [input.address, output.address, rows.len() as u64];
    let block = [(rows.len() as u32).next_multiple_of(32), 1, 1];
    launch(&device, &text, "k", [1, 1, 1], block, &params)
        .unwrap_or_else(|trap| panic!("{body}: {trap}"));
    output.u64s()
}

/// Checks one instruction on rows of two operands and a result.
#[track_caller]
pub fn check2(body: &str, rows: &[(u64, u64, u64)]) {
    let operands: Vec<[u64; 3]> = rows.iter().map(|(a, b, _)| [*a, *b, 0]).collect();
    compare(body, &operands, &rows.iter().map(|row| row.2).collect::<Vec<_>>());
}

/// Checks one instruction on rows of one operand and a result.
#[track_caller]
pub fn check1(body: &str, rows: &[(u64, u64)]) {
    let operands: Vec<[u64; 3]> = rows.iter().map(|(a, _)| [*a, 0, 0]).collect();
    compare(body, &operands, &rows.iter().map(|row| row.1).collect::<Vec<_>>());
}

/// Checks one instruction on rows of three operands and a result.
#[track_caller]
pub fn check3(body: &str, rows: &[(u64, u64, u64, u64)]) {
    let operands: Vec<[u64; 3]> = rows.iter().map(|(a, b, c, _)| [*a, *b, *c]).collect();
    compare(body, &operands, &rows.iter().map(|row| row.3).collect::<Vec<_>>());
}

#[track_caller]
fn compare(body: &str, operands: &[[u64; 3]], expected: &[u64]) {
    let found = eval(body, operands);
    for ((found, expected), operands) in found.iter().zip(expected).zip(operands) {
        assert_eq!(found, expected, "{body} of {operands:x?}: {found:#x}, not {expected:#x}");
    }
}

/// The bits of a float.
pub fn f(value: f32) -> u64 {
    value.to_bits().into()
}

/// The bits of a double.
pub fn d(value: f64) -> u64 {
    value.to_bits()
}
