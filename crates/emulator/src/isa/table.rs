//! The table of forms.

use super::{Form, Lowering};
use crate::exec::ops::{
    atomic, barrier, bulk, cluster, collective, compare, control, convert, copy, float, half, int,
    logic, matrix, mbarrier, memory, moves, stack, tensor, video,
};
use std::collections::HashMap;
use std::sync::LazyLock;

macro_rules! forms {
    ($($family:literal { $(#[doc = $doc:literal] $opcode:literal $modifiers:literal $operands:literal => $kind:ident $lower:path;)* })*) => {
        pub(super) static FORMS: &[Form] = &[$($(
            Form {
                opcode: $opcode,
                modifiers: $modifiers,
                operands: $operands,
                family: $family,
                doc: $doc.trim_ascii(),
                lowering: Lowering::$kind($lower),
            },
        )*)*];
    };
}

forms! {
    "integer arithmetic" {
        /// Sum, which wraps.
        "add" "@int" "=t t t" => Pick int::add;
        /// Sum, clamped.
        "add" "sat s32" "=t t t" => Pick int::add_sat;
        /// Sums of pairs.
        "add" "u16x2|s16x2" "=t t t" => Pick int::add_packed;
        /// Difference, which wraps.
        "sub" "@int" "=t t t" => Pick int::sub;
        /// Difference, clamped.
        "sub" "sat s32" "=t t t" => Pick int::sub_sat;
        /// Low half of a product.
        "mul" "lo @int" "=t t t" => Pick int::mul_lo;
        /// High half of a product.
        "mul" "hi @int" "=t t t" => Pick int::mul_hi;
        /// Whole product, of twice the width.
        "mul" "wide u16|s16|u32|s32" "=w t t" => Pick int::mul_wide;
        /// Low half of a product, plus a third operand.
        "mad" "lo @int" "=t t t t" => Pick int::mad_lo;
        /// High half of a product, plus a third operand.
        "mad" "hi @int" "=t t t t" => Pick int::mad_hi;
        /// High half of a product, plus a third operand, clamped.
        "mad" "hi sat s32" "=t t t t" => Pick int::mad_sat;
        /// Whole product plus a third operand of twice the width.
        "mad" "wide u16|s16|u32|s32" "=w t t w" => Pick int::mad_wide;
        /// 32 bits of a product of 24-bit numbers.
        "mul24" "lo|hi u32|s32" "=t t t" => Pick int::mul24;
        /// 32 bits of a product of 24-bit numbers, plus a third operand.
        "mad24" "lo|hi u32|s32" "=t t t t" => Pick int::mad24;
        /// Upper part of a 24-bit product plus a third operand, which stops at the extremes.
        "mad24" "hi sat s32" "=t t t t" => Pick int::mad24_hi_sat;
        /// Quotient, towards zero.
        "div" "@int" "=t t t" => Pick int::div;
        /// Remainder, with the sign of the dividend.
        "rem" "@int" "=t t t" => Pick int::rem;
        /// Magnitude.
        "abs" "s16|s32|s64" "=t t" => Pick int::abs;
        /// Negative.
        "neg" "s16|s32|s64" "=t t" => Pick int::neg;
        /// The smaller.
        "min" "@int" "=t t t" => Pick int::min;
        /// The smaller of each pair.
        "min" "u16x2|s16x2" "=t t t" => Pick int::min_packed;
        /// The smaller of each pair, or 0 if that is negative.
        "min" "relu s16x2" "=t t t" => Pick int::min_packed_relu;
        /// The same, spelled as in the CUDA headers.
        "min" "s16x2 relu" "=t t t" => Pick int::min_packed_relu;
        /// The smaller, or 0 if that is negative, spelled as in the CUDA headers.
        "min" "s32 relu" "=t t t" => Pick int::min_relu;
        /// The smaller, or 0 if that is negative.
        "min" "relu s32" "=t t t" => Pick int::min_relu;
        /// The larger.
        "max" "@int" "=t t t" => Pick int::max;
        /// The larger of each pair.
        "max" "u16x2|s16x2" "=t t t" => Pick int::max_packed;
        /// The larger of each pair, or 0 if that is negative.
        "max" "relu s16x2" "=t t t" => Pick int::max_packed_relu;
        /// The same, spelled as in the CUDA headers.
        "max" "s16x2 relu" "=t t t" => Pick int::max_packed_relu;
        /// The larger, or 0 if that is negative, spelled as in the CUDA headers.
        "max" "s32 relu" "=t t t" => Pick int::max_relu;
        /// The larger, or 0 if that is negative.
        "max" "relu s32" "=t t t" => Pick int::max_relu;
        /// Sum of a distance and a third operand.
        "sad" "@int" "=t t t t" => Pick int::sad;
        /// Sum of four products of bytes and a third operand.
        "dp4a" "u32|s32 u32|s32" "=b32 b32 b32 b32" => Pick int::dp4a;
        /// Sum of two products of halves and bytes and a third operand.
        "dp2a" "lo|hi u32|s32 u32|s32" "=b32 b32 b32 b32" => Pick int::dp2a;
        /// Sum; the carry goes to the flag.
        "add" "cc u32|s32|u64|s64" "" => Emit int::carry;
        /// Sum with the carry flag.
        "addc" "cc? u32|s32|u64|s64" "" => Emit int::carry;
        /// Difference; the flag is clear if it borrowed.
        "sub" "cc u32|s32|u64|s64" "" => Emit int::carry;
        /// Difference, less one if the flag is clear.
        "subc" "cc? u32|s32|u64|s64" "" => Emit int::carry;
        /// Half of a product plus a third operand; the carry goes to the flag.
        "mad" "lo|hi cc u32|s32|u64|s64" "" => Emit int::carry;
        /// Half of a product plus a third operand and the carry flag.
        "madc" "lo|hi cc? u32|s32|u64|s64" "" => Emit int::carry;
    }
    "video" {
        /// Sum of parts of words; a third word is combined with it, or it is put into that word.
        "vadd" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "" => Emit video::scalar;
        /// Difference of parts of words; a third word is combined with it, or it is put into that word.
        "vsub" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "" => Emit video::scalar;
        /// Distance of parts of words; a third word is combined with it, or it is put into that word.
        "vabsdiff" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "" => Emit video::scalar;
        /// The smaller of parts of words; a third word is combined with it, or it is put into that word.
        "vmin" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "" => Emit video::scalar;
        /// The larger of parts of words; a third word is combined with it, or it is put into that word.
        "vmax" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "" => Emit video::scalar;
        /// Shift of a part of a word to the left.
        "vshl" "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max?" "" => Emit video::scalar;
        /// Shift of a part of a word to the right.
        "vshr" "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max?" "" => Emit video::scalar;
        /// Comparison of parts of words.
        "vset" "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add|min|max?" "" => Emit video::scalar;
        /// Product of parts of words and a third operand, scaled.
        "vmad" "u32|s32 u32|s32 u32|s32 po? sat? shr7|shr15?" "" => Emit video::scalar;
        /// Sums of halves side by side, or their sum.
        "vadd2" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Differences of halves side by side, or their sum.
        "vsub2" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Averages of halves side by side, or their sum.
        "vavrg2" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Distances of halves side by side, or their sum.
        "vabsdiff2" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// The smaller of halves side by side, or their sum.
        "vmin2" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// The larger of halves side by side, or their sum.
        "vmax2" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Comparisons of halves side by side, or how many hold.
        "vset2" "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?" "" => Emit video::simd;
        /// Sums of bytes side by side, or their sum.
        "vadd4" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Differences of bytes side by side, or their sum.
        "vsub4" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Averages of bytes side by side, or their sum.
        "vavrg4" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Distances of bytes side by side, or their sum.
        "vabsdiff4" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// The smaller of bytes side by side, or their sum.
        "vmin4" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// The larger of bytes side by side, or their sum.
        "vmax4" "u32|s32 u32|s32 u32|s32 sat|add?" "" => Emit video::simd;
        /// Comparisons of bytes side by side, or how many hold.
        "vset4" "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?" "" => Emit video::simd;
    }
    "logic and shifts" {
        /// Bitwise and.
        "and" "@bits" "=t t t" => Pick logic::and;
        /// And of predicates.
        "and" "pred" "=pred pred pred" => Pick logic::and_pred;
        /// Bitwise or.
        "or" "@bits" "=t t t" => Pick logic::or;
        /// Or of predicates.
        "or" "pred" "=pred pred pred" => Pick logic::or_pred;
        /// Bitwise exclusive or.
        "xor" "@bits" "=t t t" => Pick logic::xor;
        /// Exclusive or of predicates.
        "xor" "pred" "=pred pred pred" => Pick logic::xor_pred;
        /// Bitwise complement.
        "not" "@bits" "=t t" => Pick logic::not;
        /// Complement of a predicate.
        "not" "pred" "=pred pred" => Pick logic::not_pred;
        /// 1 for zero, else 0.
        "cnot" "@bits" "=t t" => Pick logic::cnot;
        /// Shift to the left; a count past the width gives 0.
        "shl" "@bits" "=t t u32" => Pick logic::shl;
        /// Shift to the right, with the sign where the type has one; a count past the width is the width.
        "shr" "@bits|@int" "=t t u32" => Pick logic::shr;
        /// Shift of two words as one, to the left (the upper word) or to the right (the lower).
        "shf" "l|r clamp|wrap b32" "=t t t u32" => Pick logic::shf;
        /// A field of bits.
        "bfe" "u32|s32|u64|s64" "=t t u32 u32" => Pick logic::bfe;
        /// A word with a field of bits replaced.
        "bfi" "b32|b64" "=t t t u32 u32" => Pick logic::bfi;
        /// Index of the highest bit that is not like the sign, or its distance from the top.
        "bfind" "shiftamt? u32|s32|u64|s64" "=u32 t" => Pick logic::bfind;
        /// Number of bits set.
        "popc" "b32|b64" "=u32 t" => Pick logic::popc;
        /// Number of leading zeros.
        "clz" "b32|b64" "=u32 t" => Pick logic::clz;
        /// Bits in reverse.
        "brev" "b32|b64" "=t t" => Pick logic::brev;
        /// Index of the n-th bit set.
        "fns" "b32" "=b32 b32 b32 s32" => Pick logic::fns;
        /// Any function of three bits, for each bit.
        "lop3" "b32" "=t t t t imm" => Pick logic::lop3;
        /// Any function of three bits, and whether any bit is set, combined with a predicate.
        "lop3" "and|or b32" "=t|p t t t imm pred" => Pick logic::lop3_pred;
        /// Four bytes out of eight.
        "prmt" "b32 f4e|b4e|rc8|ecl|ecr|rc16?" "=t t t b32" => Pick logic::prmt;
        /// Low bits, extended.
        "szext" "clamp|wrap u32|s32" "=t t u32" => Pick logic::szext;
        /// A mask of ones.
        "bmsk" "clamp|wrap b32" "=t t b32" => Pick logic::bmsk;
    }
    "floating point" {
        /// Sum.
        "add" "@round? ftz? sat? f32" "=t t t" => Pick float::add;
        /// Sum.
        "add" "@round? f64" "=t t t" => Pick float::add;
        /// Difference.
        "sub" "@round? ftz? sat? f32" "=t t t" => Pick float::sub;
        /// Difference.
        "sub" "@round? f64" "=t t t" => Pick float::sub;
        /// Product.
        "mul" "@round? ftz? sat? f32" "=t t t" => Pick float::mul;
        /// Product.
        "mul" "@round? f64" "=t t t" => Pick float::mul;
        /// Product and sum, rounded once.
        "fma" "@round ftz? sat? f32" "=t t t t" => Pick float::fma;
        /// Product and sum, rounded once.
        "fma" "@round f64" "=t t t t" => Pick float::fma;
        /// Product and sum, rounded once.
        "mad" "@round ftz? sat? f32" "=t t t t" => Pick float::fma;
        /// Product and sum, rounded once.
        "mad" "@round f64" "=t t t t" => Pick float::fma;
        /// Quotient.
        "div" "@round ftz? f32" "=t t t" => Pick float::div;
        /// Quotient.
        "div" "@round f64" "=t t t" => Pick float::div;
        /// Quotient, nearly.
        "div" "approx|full ftz? f32" "=t t t" => Pick float::div_approx;
        /// Reciprocal.
        "rcp" "@round ftz? f32" "=t t" => Pick float::rcp;
        /// Reciprocal.
        "rcp" "@round f64" "=t t" => Pick float::rcp;
        /// Reciprocal, nearly.
        "rcp" "approx ftz? f32" "=t t" => Pick float::rcp_approx;
        /// Reciprocal, roughly.
        "rcp" "approx ftz f64" "=t t" => Pick float::rcp_approx_f64;
        /// Square root.
        "sqrt" "@round ftz? f32" "=t t" => Pick float::sqrt;
        /// Square root.
        "sqrt" "@round f64" "=t t" => Pick float::sqrt;
        /// Square root, nearly.
        "sqrt" "approx ftz? f32" "=t t" => Pick float::sqrt_approx;
        /// Reciprocal of the square root, nearly.
        "rsqrt" "approx ftz? f32" "=t t" => Pick float::rsqrt;
        /// Reciprocal of the square root, roughly.
        "rsqrt" "approx ftz f64" "=t t" => Pick float::rsqrt_approx_f64;
        /// Magnitude.
        "abs" "ftz? f32" "=t t" => Pick float::abs;
        /// Magnitude.
        "abs" "f64" "=t t" => Pick float::abs;
        /// Negative.
        "neg" "ftz? f32" "=t t" => Pick float::neg;
        /// Negative.
        "neg" "f64" "=t t" => Pick float::neg;
        /// The smaller, or the one that is no NaN.
        "min" "ftz? NaN? f32" "=t t t" => Pick float::min;
        /// The smaller magnitude, with the product of the signs.
        "min" "ftz? NaN? xorsign abs f32" "=t t t" => Pick float::min;
        /// The smaller, or the one that is no NaN.
        "min" "f64" "=t t t" => Pick float::min;
        /// The larger, or the one that is no NaN.
        "max" "ftz? NaN? f32" "=t t t" => Pick float::max;
        /// The larger magnitude, with the product of the signs.
        "max" "ftz? NaN? xorsign abs f32" "=t t t" => Pick float::max;
        /// The larger, or the one that is no NaN.
        "max" "f64" "=t t t" => Pick float::max;
        /// The magnitude of the second operand with the sign of the first.
        "copysign" "f32|f64" "=t t t" => Pick float::copysign;
        /// Whether a number is of a class.
        "testp" "finite|infinite|number|notanumber|normal|subnormal f32|f64" "=pred t" => Pick float::testp;
        /// Power of two, nearly.
        "ex2" "approx ftz? f32" "=t t" => Pick float::ex2;
        /// Logarithm to base two, nearly.
        "lg2" "approx ftz? f32" "=t t" => Pick float::lg2;
        /// Sine, nearly.
        "sin" "approx ftz? f32" "=t t" => Pick float::sin;
        /// Cosine, nearly.
        "cos" "approx ftz? f32" "=t t" => Pick float::cos;
        /// Hyperbolic tangent, nearly.
        "tanh" "approx f32" "=t t" => Pick float::tanh;
    }
    "half precision" {
        /// Sum.
        "add" "rn? ftz? sat? f16|f16x2" "=t t t" => Pick half::add;
        /// Sum.
        "add" "rn? bf16|bf16x2" "=t t t" => Pick half::add;
        /// Difference.
        "sub" "rn? ftz? sat? f16|f16x2" "=t t t" => Pick half::sub;
        /// Difference.
        "sub" "rn? bf16|bf16x2" "=t t t" => Pick half::sub;
        /// Product.
        "mul" "rn? ftz? sat? f16|f16x2" "=t t t" => Pick half::mul;
        /// Product.
        "mul" "rn? bf16|bf16x2" "=t t t" => Pick half::mul;
        /// Product and sum, rounded once.
        "fma" "rn ftz? sat? f16|f16x2" "=t t t t" => Pick half::fma;
        /// Product and sum, rounded once; a negative one is 0.
        "fma" "rn ftz? relu f16|f16x2" "=t t t t" => Pick half::fma;
        /// Product and sum, rounded once.
        "fma" "rn relu? bf16|bf16x2" "=t t t t" => Pick half::fma;
        /// Magnitude.
        "abs" "ftz? f16|f16x2" "=t t" => Pick half::abs;
        /// Magnitude.
        "abs" "bf16|bf16x2" "=t t" => Pick half::abs;
        /// Negative.
        "neg" "ftz? f16|f16x2" "=t t" => Pick half::neg;
        /// Negative.
        "neg" "bf16|bf16x2" "=t t" => Pick half::neg;
        /// The smaller, or the one that is no NaN.
        "min" "ftz? NaN? f16|f16x2" "=t t t" => Pick half::min;
        /// The smaller magnitude, with the product of the signs.
        "min" "ftz? NaN? xorsign abs f16|f16x2" "=t t t" => Pick half::min;
        /// The smaller, or the one that is no NaN.
        "min" "NaN? bf16|bf16x2" "=t t t" => Pick half::min;
        /// The smaller magnitude, with the product of the signs.
        "min" "NaN? xorsign abs bf16|bf16x2" "=t t t" => Pick half::min;
        /// The larger, or the one that is no NaN.
        "max" "ftz? NaN? f16|f16x2" "=t t t" => Pick half::max;
        /// The larger magnitude, with the product of the signs.
        "max" "ftz? NaN? xorsign abs f16|f16x2" "=t t t" => Pick half::max;
        /// The larger, or the one that is no NaN.
        "max" "NaN? bf16|bf16x2" "=t t t" => Pick half::max;
        /// The larger magnitude, with the product of the signs.
        "max" "NaN? xorsign abs bf16|bf16x2" "=t t t" => Pick half::max;
        /// Power of two, nearly.
        "ex2" "approx f16|f16x2" "=t t" => Pick half::ex2;
        /// Power of two, nearly.
        "ex2" "approx ftz bf16|bf16x2" "=t t" => Pick half::ex2;
        /// Hyperbolic tangent, nearly.
        "tanh" "approx f16|f16x2|bf16|bf16x2" "=t t" => Pick half::tanh;
    }
    "conversion" {
        /// Integer to integer; with `sat` clamped.
        "cvt" "sat? @anyint @anyint" "=t~ u~" => Pick convert::int_to_int;
        /// Integer to floating point.
        "cvt" "@round ftz? sat? f16|f32|f64 @anyint" "=t~ u~" => Pick convert::int_to_float;
        /// Integer to bf16.
        "cvt" "@round bf16 @anyint" "=t~ u~" => Pick convert::int_to_float;
        /// Floating point to integer; what does not fit becomes the nearest that does.
        "cvt" "@roundint ftz? sat? @anyint f16|bf16|f32|f64" "=t~ u~" => Pick convert::float_to_int;
        /// Floating point to an integral value of the same type.
        "cvt" "@roundint ftz? sat? f32 f32" "=t u" => Pick convert::float_to_float;
        /// Floating point to an integral value of the same type.
        "cvt" "@roundint sat? f64 f64" "=t u" => Pick convert::float_to_float;
        /// Floating point to an integral value of the same type.
        "cvt" "@roundint sat? f16 f16" "=t u" => Pick convert::float_to_float;
        /// Floating point to an integral value of the same type.
        "cvt" "@roundint bf16 bf16" "=t u" => Pick convert::float_to_float;
        /// Copy, flushed or clamped.
        "cvt" "ftz? sat? f32 f32" "=t u" => Pick convert::float_to_float;
        /// Copy, clamped.
        "cvt" "sat? f64 f64" "=t u" => Pick convert::float_to_float;
        /// Copy, clamped.
        "cvt" "sat? f16 f16" "=t u" => Pick convert::float_to_float;
        /// To a wider format: exact.
        "cvt" "ftz? sat? f64 f32" "=t u" => Pick convert::float_to_float;
        /// To a wider format: exact.
        "cvt" "ftz? sat? f32 f16|bf16" "=t u" => Pick convert::float_to_float;
        /// To a wider format: exact.
        "cvt" "sat? f64 f16|bf16" "=t u" => Pick convert::float_to_float;
        /// To a narrower format.
        "cvt" "@round ftz? sat? f32 f64" "=t u" => Pick convert::float_to_float;
        /// To a narrower format.
        "cvt" "@round ftz? sat? f16 f32" "=t u" => Pick convert::float_to_float;
        /// To a narrower format.
        "cvt" "@round sat? f16|bf16 f64" "=t u" => Pick convert::float_to_float;
        /// Half to brain half.
        "cvt" "@round bf16 f16" "=t u" => Pick convert::float_to_float;
        /// Brain half to half.
        "cvt" "@round f16 bf16" "=t u" => Pick convert::float_to_float;
        /// To a narrower format.
        "cvt" "rn|rz relu? satfinite? f16|bf16 f32" "=t u" => Pick convert::float_to_float;
        /// Two floats to a pair of halves, the first to the upper.
        "cvt" "rn|rz relu? satfinite? f16x2|bf16x2 f32" "=t f32 f32" => Pick convert::pair;
        /// To a narrower format, finite.
        "cvt" "rn|rz satfinite relu f16|bf16 f32" "=t u" => Pick convert::float_to_float;
        /// Two floats to a pair of halves, finite.
        "cvt" "rn|rz satfinite relu f16x2|bf16x2 f32" "=t f32 f32" => Pick convert::pair;
        /// To 10 bits of mantissa.
        "cvt" "rna satfinite? tf32 f32" "=b32 f32" => Pick convert::tf32;
        /// To 10 bits of mantissa.
        "cvt" "rn|rz relu? tf32 f32" "=b32 f32" => Pick convert::tf32;
        /// Two floats to a pair of bytes, the first to the upper.
        "cvt" "rn satfinite relu? e4m3x2|e5m2x2 f32" "=b16 f32 f32" => Pick convert::to_byte_pair;
        /// Two halves to a pair of bytes.
        "cvt" "rn satfinite relu? e4m3x2|e5m2x2 f16x2" "=b16 b32" => Pick convert::to_byte_pair;
        /// Two numbers, clamped, side by side.
        "cvt" "pack sat u16|s16 s32" "=b32 s32 s32" => Pick convert::pack_halves;
        /// Two numbers, clamped, side by side below what a third holds.
        "cvt" "pack sat u8|s8|u4|s4|u2|s2 s32 b32" "=b32 s32 s32 b32" => Pick convert::pack_small;
        /// A pair of bytes to two halves.
        "cvt" "rn relu? f16x2 e4m3x2|e5m2x2" "=b32 b16" => Pick convert::from_byte_pair;
    }
    "comparison and selection" {
        /// Comparison to a predicate and its complement.
        "setp" "@compare|@unordered ftz? @bits|@int|f16|bf16|f32|f64" "=p|q t t" => Pick compare::setp;
        /// Comparison combined with a predicate.
        "setp" "@compare|@unordered @bool ftz? @bits|@int|f16|bf16|f32|f64" "=p|q t t pred" => Pick compare::setp;
        /// Comparisons of pairs to two predicates, the first for the lower halves.
        "setp" "@compare|@unordered ftz? f16x2|bf16x2" "=p|q t t" => Pick compare::setp_pair;
        /// Comparisons of pairs, each combined with a predicate.
        "setp" "@compare|@unordered @bool ftz? f16x2|bf16x2" "=p|q t t pred" => Pick compare::setp_pair;
        /// Comparison to a number.
        "set" "@compare|@unordered ftz? u32|s32|f32|f16|bf16 @bits|@int|f16|bf16|f32|f64" "=t u u" => Pick compare::set;
        /// Comparison combined with a predicate, to a number.
        "set" "@compare|@unordered @bool ftz? u32|s32|f32|f16|bf16 @bits|@int|f16|bf16|f32|f64" "=t u u pred" => Pick compare::set;
        /// Comparison to a number of 16 bits.
        "set" "@compare|@unordered ftz? u16|s16 f16|bf16" "=t u u" => Pick compare::set;
        /// Comparison combined with a predicate, to a number of 16 bits.
        "set" "@compare|@unordered @bool ftz? u16|s16 f16|bf16" "=t u u pred" => Pick compare::set;
        /// Comparisons of pairs to pairs of numbers.
        "set" "@compare|@unordered ftz? f16x2|bf16x2|u32|s32 f16x2|bf16x2" "=t u u" => Pick compare::set_pair;
        /// Comparisons of pairs, each combined with a predicate, to pairs of numbers.
        "set" "@compare|@unordered @bool ftz? f16x2|bf16x2|u32|s32 f16x2|bf16x2" "=t u u pred" => Pick compare::set_pair;
        /// One of two values, by a predicate.
        "selp" "@bits|@int|f32|f64" "=t t t pred" => Pick compare::selp;
        /// One of two values, by the sign of a third.
        "slct" "ftz? @bits|@int|f32|f64 s32|f32" "=t t t u" => Pick compare::slct;
    }
    "moves and addresses" {
        /// Copy of a register, an immediate, an address, or a special register.
        "mov" "@int|f32|f64" "=t t" => Pick moves::mov;
        /// Copy of a predicate.
        "mov" "pred" "=pred pred" => Pick moves::mov_pred;
        /// Copy of bits; a vector is put together or taken apart.
        "mov" "@bits|b128" "" => Emit moves::mov_bits;
        /// Address of a space to a generic address.
        "cvta" "global|const|shared|shared::cta|shared::cluster|local|param|param::entry u64" "=t t" => Pick moves::cvta;
        /// Generic address to an address of a space.
        "cvta" "to global|const|shared|shared::cta|shared::cluster|local|param|param::entry u64" "=t t" => Pick moves::cvta_to;
        /// Memory on the thread's stack.
        "alloca" "u32|u64" "" => Emit stack::alloca;
        /// The top of the thread's stack.
        "stacksave" "u32|u64" "=t" => Pick stack::save;
        /// Back to a top of the thread's stack.
        "stackrestore" "u32|u64" "t" => Pick stack::restore;
        /// Whether a generic address lies in a space.
        "isspacep" "const|global|shared|shared::cta|shared::cluster|local|param|param::entry" "=pred u64" => Pick moves::isspacep;
    }
    "memory" {
        /// Load. Cache hints change nothing here.
        "ld" "weak? global|const|shared|shared::cta|shared::cluster|local|param|param::entry|param::func? ca|cg|cs|lu|cv? @evict? @hint? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load of data that nobody writes.
        "ld" "global ca|cg|cs? nc @evict? @hint? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load that is never left out.
        "ld" "volatile global|const|shared|shared::cta|shared::cluster|param? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load that other threads may race with; `acquire` orders what follows.
        "ld" "relaxed|acquire @scope global|shared|shared::cta|shared::cluster? @evict? @hint? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load from a device's registers.
        "ld" "mmio relaxed sys global? @mem" "" => Emit memory::ld;
        /// Load of data that is the same for the warp.
        "ldu" "global? v2|v4? @mem" "" => Emit memory::ld;
        /// Store. Cache hints change nothing here.
        "st" "weak? global|shared|shared::cta|shared::cluster|local|param|param::func? wb|cg|cs|wt? @evict? @hint? v2|v4? @mem" "" => Emit memory::st;
        /// Store that is never left out.
        "st" "volatile global|shared|shared::cta|shared::cluster? v2|v4? @mem" "" => Emit memory::st;
        /// Store that other threads may race with; `release` orders what came before.
        "st" "relaxed|release @scope global|shared|shared::cta|shared::cluster? @evict? @hint? v2|v4? @mem" "" => Emit memory::st;
        /// Store to a device's registers.
        "st" "mmio relaxed sys global? @mem" "" => Emit memory::st;
        /// Hint to fetch a cache line.
        "prefetch" "global|local? L1|L2|L2::evict_last|L2::evict_normal" "" => Emit memory::hint;
        /// Hint to fetch a tensor map.
        "prefetch" "const|param? tensormap" "" => Emit memory::hint;
        /// Hint to keep a range in the cache.
        "applypriority" "global? L2::evict_normal" "" => Emit memory::hint;
        /// Hint that a range need not be written back. Its bytes stay as they are.
        "discard" "global? L2" "" => Emit memory::hint;
        /// A policy of the cache, for a part of all accesses.
        "createpolicy" "fractional @policy @policy? b64" "=b64 f32?" => Pick memory::policy;
        /// A policy of the cache, for a range.
        "createpolicy" "range global? @policy @policy? b64" "" => Emit memory::range_policy;
        /// A policy of the cache, from a property.
        "createpolicy" "cvt L2 b64" "=b64 b64" => Pick moves::mov;
        /// Hint to fetch a cache line through the uniform cache.
        "prefetchu" "L1" "" => Emit memory::hint;
        /// Fence.
        "membar" "cta|gl|sys" "" => Pick memory::full_fence;
        /// Fence between ways to the same memory.
        "membar" "proxy alias" "" => Pick memory::full_fence;
        /// Fence.
        "fence" "sc|acq_rel|acquire|release? @scope" "" => Pick memory::full_fence;
        /// Fence between ways to the same memory.
        "fence" "proxy alias|async" "" => Pick memory::full_fence;
        /// Fence between ways to the same memory.
        "fence" "proxy async global|shared::cta|shared::cluster" "" => Pick memory::full_fence;
        /// Fence for the shared memory of a cluster only.
        "fence" "acquire sync_restrict::shared::cluster cluster" "" => Pick memory::full_fence;
        /// Fence for the block's shared memory only.
        "fence" "release sync_restrict::shared::cta cluster" "" => Pick memory::full_fence;
        /// The same between ways to that memory.
        "fence" "proxy async::generic acquire sync_restrict::shared::cluster cluster" "" => Pick memory::full_fence;
        /// The same between ways to that memory.
        "fence" "proxy async::generic release sync_restrict::shared::cta cluster" "" => Pick memory::full_fence;
        /// Fence behind which a tensor map may be used that was written before it.
        "fence" "proxy tensormap::generic release @scope" "" => Pick memory::full_fence;
        /// Fence behind which a tensor map may be used that was written before a release.
        "fence" "proxy tensormap::generic acquire @scope" "" => Emit memory::map_fence;
    }
    "control" {
        /// Jump.
        "bra" "uni?" "" => Emit control::bra;
        /// Jump to an entry of a list.
        "brx" "idx uni?" "" => Emit control::brx;
        /// Call.
        "call" "uni?" "" => Emit control::call;
        /// Return; from a kernel, the end of the thread.
        "ret" "uni?" "" => Emit control::lower_ret;
        /// End of the thread.
        "exit" "" "" => Pick control::exit;
        /// End of the kernel, as an error.
        "trap" "" "" => Pick control::trap;
        /// Breakpoint: as no debugger listens, an error.
        "brkpt" "" "" => Pick control::brkpt;
        /// Pause.
        "nanosleep" "u32" "u32" => Pick control::nanosleep;
        /// Event for a profiler.
        "pmevent" "mask?" "imm" => Pick control::nothing;
    }
    "atomics" {
        /// Read-modify-write. Every one is sequentially consistent here.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? add|min|max|inc|dec @hint? u32|s32|u64|s64|f32|f64" "" => Emit atomic::atom;
        /// Read-modify-write. Every one is sequentially consistent here. The operation stands before the order.
        "atom" "global|shared|shared::cta|shared::cluster? add|min|max|inc|dec @order? @scope? global|shared|shared::cta|shared::cluster? u32|s32|u64|s64|f32|f64" "" => Emit atomic::atom;
        /// Read-modify-write of bits.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? and|or|xor @hint? b32|b64" "" => Emit atomic::atom;
        /// Read-modify-write of bits. The operation stands before the order.
        "atom" "global|shared|shared::cta|shared::cluster? and|or|xor @order? @scope? global|shared|shared::cta|shared::cluster? b32|b64" "" => Emit atomic::atom;
        /// Exchange.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? exch @hint? b32|b64|b128" "" => Emit atomic::atom;
        /// Exchange where what is expected is there.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? cas b16|b32|b64|b128" "" => Emit atomic::atom;
        /// Exchange, perhaps only where what is expected is there. The operation stands before the order.
        "atom" "global|shared|shared::cta|shared::cluster? exch|cas @order? @scope? global|shared|shared::cta|shared::cluster? b16|b32|b64|b128" "" => Emit atomic::atom;
        /// Sum of halves.
        "atom" "@order? @scope? global|shared|shared::cta|shared::cluster? add noftz @hint? f16|f16x2|bf16|bf16x2" "" => Emit atomic::atom;
        /// Sum of halves. The operation stands before the order.
        "atom" "global|shared|shared::cta|shared::cluster? add noftz @order? @scope? global|shared|shared::cta|shared::cluster? f16|f16x2|bf16|bf16x2" "" => Emit atomic::atom;
        /// Sums of floats side by side.
        "atom" "@order? @scope? global? add @hint? v2|v4 f32" "" => Emit atomic::atom;
        /// Sums and the like of halves side by side.
        "atom" "@order? @scope? global? add|min|max noftz @hint? v2|v4|v8 f16|bf16" "" => Emit atomic::atom;
        /// Sums and the like of pairs of halves side by side.
        "atom" "@order? @scope? global? add|min|max noftz @hint? v2|v4 f16x2|bf16x2" "" => Emit atomic::atom;
        /// Update without a result.
        "red" "relaxed|release? @scope? global|shared|shared::cta|shared::cluster? add|min|max|inc|dec @hint? u32|s32|u64|s64|f32|f64" "" => Emit atomic::atom;
        /// Update without a result. The operation stands before the order.
        "red" "global|shared|shared::cta|shared::cluster? add|min|max|inc|dec relaxed|release? @scope? global|shared|shared::cta|shared::cluster? u32|s32|u64|s64|f32|f64" "" => Emit atomic::atom;
        /// Update of bits without a result.
        "red" "relaxed|release? @scope? global|shared|shared::cta|shared::cluster? and|or|xor @hint? b32|b64" "" => Emit atomic::atom;
        /// Update of bits without a result. The operation stands before the order.
        "red" "global|shared|shared::cta|shared::cluster? and|or|xor relaxed|release? @scope? global|shared|shared::cta|shared::cluster? b32|b64" "" => Emit atomic::atom;
        /// Sum of halves without a result.
        "red" "relaxed|release? @scope? global|shared|shared::cta|shared::cluster? add noftz @hint? f16|f16x2|bf16|bf16x2" "" => Emit atomic::atom;
        /// Sum of halves without a result. The operation stands before the order.
        "red" "global|shared|shared::cta|shared::cluster? add noftz relaxed|release? @scope? global|shared|shared::cta|shared::cluster? f16|f16x2|bf16|bf16x2" "" => Emit atomic::atom;
        /// Sums of floats side by side.
        "red" "relaxed|release? @scope? global? add @hint? v2|v4 f32" "" => Emit atomic::atom;
        /// Sums and the like of halves side by side.
        "red" "relaxed|release? @scope? global? add|min|max noftz @hint? v2|v4|v8 f16|bf16" "" => Emit atomic::atom;
        /// Sums and the like of pairs of halves side by side.
        "red" "relaxed|release? @scope? global? add|min|max noftz @hint? v2|v4 f16x2|bf16x2" "" => Emit atomic::atom;
    }
    "warp" {
        /// Value of another lane.
        "shfl" "sync up|down|bfly|idx b32" "" => Emit collective::shfl;
        /// Whether a predicate holds in all lanes, in any, or is the same in all.
        "vote" "sync all|any|uni pred" "" => Emit collective::vote;
        /// The lanes in which a predicate holds.
        "vote" "sync ballot b32" "" => Emit collective::vote;
        /// The lanes with the same value; or whether all have it.
        "match" "any|all sync b32|b64" "" => Emit collective::matches;
        /// Reduction over lanes.
        "redux" "sync add|min|max u32|s32" "" => Emit collective::redux;
        /// Reduction over lanes.
        "redux" "sync and|or|xor b32" "" => Emit collective::redux;
        /// The lanes that execute this together.
        "activemask" "b32" "" => Emit collective::activemask;
        /// Wait for the lanes of a mask.
        "bar" "warp sync" "" => Emit collective::warp_sync;
        /// One lane of a mask.
        "elect" "sync" "" => Emit collective::elect;
    }
    "matrices" {
        /// Load of tiles of eight by eight 16-bit elements, perhaps transposed.
        "ldmatrix" "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16" "" => Emit matrix::move_tile::ldmatrix;
        /// Store of such tiles.
        "stmatrix" "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16" "" => Emit matrix::move_tile::stmatrix;
        /// Transpose of such a tile.
        "movmatrix" "sync aligned m8n8 trans b16" "" => Emit matrix::move_tile::movmatrix;
        /// Four products of `.f16` matrices, by quads of lanes.
        "mma" "sync aligned m8n8k4 row|col row|col f16 f16 f16 f16" "" => Emit matrix::mma::mma;
        /// The same with an `.f32` sum.
        "mma" "sync aligned m8n8k4 row|col row|col f32 f16 f16 f16|f32" "" => Emit matrix::mma::mma;
        /// Product of `.f16` matrices, plus a third.
        "mma" "sync aligned m16n8k8|m16n8k16 row col f16 f16 f16 f16" "" => Emit matrix::mma::mma;
        /// The same with an `.f32` sum.
        "mma" "sync aligned m16n8k8|m16n8k16 row col f32 f16 f16 f32" "" => Emit matrix::mma::mma;
        /// Product of `.bf16` matrices, plus a third.
        "mma" "sync aligned m16n8k8|m16n8k16 row col f32 bf16 bf16 f32" "" => Emit matrix::mma::mma;
        /// Product of `.tf32` matrices, plus a third.
        "mma" "sync aligned m16n8k4|m16n8k8 row col f32 tf32 tf32 f32" "" => Emit matrix::mma::mma;
        /// Product of matrices of 8-bit floats, plus a third.
        "mma" "sync aligned m16n8k16|m16n8k32 row col f32 e4m3|e5m2 e4m3|e5m2 f32" "" => Emit matrix::mma::mma;
        /// The same with an `.f16` sum.
        "mma" "sync aligned m16n8k16|m16n8k32 row col f16 e4m3|e5m2 e4m3|e5m2 f16" "" => Emit matrix::mma::mma;
        /// Product of `.f64` matrices, plus a third.
        "mma" "sync aligned m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col @round? f64 f64 f64 f64" "" => Emit matrix::mma::mma;
        /// Product of matrices of bytes, plus a third.
        "mma" "sync aligned m8n8k16|m16n8k16|m16n8k32 row col satfinite? s32 s8|u8 s8|u8 s32" "" => Emit matrix::mma::mma;
        /// Product of matrices of 4-bit integers, plus a third.
        "mma" "sync aligned m8n8k32|m16n8k32|m16n8k64 row col satfinite? s32 s4|u4 s4|u4 s32" "" => Emit matrix::mma::mma;
        /// Numbers of bits that rows and columns share, or do not, plus a third matrix.
        "mma" "sync aligned m8n8k128|m16n8k128|m16n8k256 row col s32 b1 b1 s32 xor|and popc" "" => Emit matrix::mma::mma;
        /// Product of `.f16` matrices of which the first is half empty.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k16|m16n8k32 row col f16 f16 f16 f16" "" => Emit matrix::mma::sparse;
        /// The same with an `.f32` sum.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k16|m16n8k32 row col f32 f16 f16 f32" "" => Emit matrix::mma::sparse;
        /// The same of `.bf16`.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k16|m16n8k32 row col f32 bf16 bf16 f32" "" => Emit matrix::mma::sparse;
        /// The same of `.tf32`.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k8|m16n8k16 row col f32 tf32 tf32 f32" "" => Emit matrix::mma::sparse;
        /// The same of 8-bit floats.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k64 row col f32 e4m3|e5m2 e4m3|e5m2 f32" "" => Emit matrix::mma::sparse;
        /// The same of bytes.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k32|m16n8k64 row col satfinite? s32 s8|u8 s8|u8 s32" "" => Emit matrix::mma::sparse;
        /// The same of 4-bit integers.
        "mma" "sp|sp::ordered_metadata sync aligned m16n8k64|m16n8k128 row col satfinite? s32 s4|u4 s4|u4 s32" "" => Emit matrix::mma::sparse;
        /// Load of a fragment of A or B.
        "wmma" "load a|b sync aligned row|col m16n16k16|m32n8k16|m8n32k16 global|shared|shared::cta? f16|bf16|s8|u8" "" => Emit matrix::wmma::load;
        /// The same of `.tf32`.
        "wmma" "load a|b sync aligned row|col m16n16k8 global|shared|shared::cta? tf32" "" => Emit matrix::wmma::load;
        /// The same of `.f64`.
        "wmma" "load a|b sync aligned row|col m8n8k4 global|shared|shared::cta? f64" "" => Emit matrix::wmma::load;
        /// The same of elements narrower than a byte, A by rows.
        "wmma" "load a sync aligned row m8n8k32|m8n8k128 global|shared|shared::cta? s4|u4|b1" "" => Emit matrix::wmma::load;
        /// B by columns.
        "wmma" "load b sync aligned col m8n8k32|m8n8k128 global|shared|shared::cta? s4|u4|b1" "" => Emit matrix::wmma::load;
        /// Load of a fragment of C.
        "wmma" "load c sync aligned row|col m16n16k16|m32n8k16|m8n32k16 global|shared|shared::cta? f16|f32|s32" "" => Emit matrix::wmma::load;
        /// The same of other shapes.
        "wmma" "load c sync aligned row|col m16n16k8|m8n8k4|m8n8k32|m8n8k128 global|shared|shared::cta? f32|f64|s32" "" => Emit matrix::wmma::load;
        /// Store of a fragment of D.
        "wmma" "store d sync aligned row|col m16n16k16|m32n8k16|m8n32k16 global|shared|shared::cta? f16|f32|s32" "" => Emit matrix::wmma::store;
        /// The same of other shapes.
        "wmma" "store d sync aligned row|col m16n16k8|m8n8k4|m8n8k32|m8n8k128 global|shared|shared::cta? f32|f64|s32" "" => Emit matrix::wmma::store;
        /// Product of fragments of `.f16`, plus a third.
        "wmma" "mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 f16|f32 f16|f32" "" => Emit matrix::wmma::mma;
        /// The same of `.bf16`.
        "wmma" "mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 f32 bf16 bf16 f32" "" => Emit matrix::wmma::mma;
        /// The same of `.tf32`.
        "wmma" "mma sync aligned row|col row|col m16n16k8 f32 tf32 tf32 f32" "" => Emit matrix::wmma::mma;
        /// The same of `.f64`.
        "wmma" "mma sync aligned row|col row|col m8n8k4 @round? f64 f64 f64 f64" "" => Emit matrix::wmma::mma;
        /// The same of bytes.
        "wmma" "mma sync aligned row|col row|col m16n16k16|m32n8k16|m8n32k16 s32 s8|u8 s8|u8 s32 satfinite?" "" => Emit matrix::wmma::mma;
        /// The same of 4-bit integers.
        "wmma" "mma sync aligned row col m8n8k32 s32 s4|u4 s4|u4 s32 satfinite?" "" => Emit matrix::wmma::mma;
        /// Numbers of bits that rows and columns share, or do not, plus a third fragment.
        "wmma" "mma xor|and popc sync aligned row col m8n8k128 s32 b1 b1 s32" "" => Emit matrix::wmma::mma;
        /// Registers and shared memory that a following `wgmma.mma_async` reads are ready.
        "wgmma" "fence sync aligned" "" => Emit matrix::wgmma::order;
        /// End of a group of multiplications.
        "wgmma" "commit_group sync aligned" "" => Emit matrix::wgmma::order;
        /// Wait until no more than some groups are under way.
        "wgmma" "wait_group sync aligned" "" => Emit matrix::wgmma::wait;
        /// Product of `.f16` matrices by a warpgroup, plus D.
        "wgmma" "mma_async sync aligned @m64k16 f16|f32 f16 f16" "" => Emit matrix::wgmma::mma_async;
        /// The same of `.bf16`.
        "wgmma" "mma_async sync aligned @m64k16 f32 bf16 bf16" "" => Emit matrix::wgmma::mma_async;
        /// The same of `.tf32`.
        "wgmma" "mma_async sync aligned @m64k8 f32 tf32 tf32" "" => Emit matrix::wgmma::mma_async;
        /// The same of 8-bit floats.
        "wgmma" "mma_async sync aligned @m64k32 f16|f32 e4m3|e5m2 e4m3|e5m2" "" => Emit matrix::wgmma::mma_async;
        /// The same of bytes.
        "wgmma" "mma_async sync aligned @m64k32int satfinite? s32 s8|u8 s8|u8 satfinite?" "" => Emit matrix::wgmma::mma_async;
        /// Product of `.f16` matrices of which the first is half empty, plus D.
        "wgmma" "mma_async sp sync aligned @m64k32 f16|f32 f16 f16" "" => Emit matrix::wgmma::mma_async;
        /// The same of `.bf16`.
        "wgmma" "mma_async sp sync aligned @m64k32 f32 bf16 bf16" "" => Emit matrix::wgmma::mma_async;
        /// The same of `.tf32`.
        "wgmma" "mma_async sp sync aligned @m64k16 f32 tf32 tf32" "" => Emit matrix::wgmma::mma_async;
        /// The same of 8-bit floats.
        "wgmma" "mma_async sp sync aligned @m64k64 f16|f32 e4m3|e5m2 e4m3|e5m2" "" => Emit matrix::wgmma::mma_async;
        /// The same of bytes.
        "wgmma" "mma_async sp sync aligned @m64k64int satfinite? s32 s8|u8 s8|u8 satfinite?" "" => Emit matrix::wgmma::mma_async;
        /// Numbers of bits that rows and columns share, plus D.
        "wgmma" "mma_async sync aligned @m64k256 s32 b1 b1 and popc" "" => Emit matrix::wgmma::mma_async;
    }
    "barriers" {
        /// Wait until the threads of the block, or a number of them, have come.
        "bar" "cta? sync|arrive" "" => Emit barrier::bar;
        /// Wait, and learn in how many threads, in all or in any a predicate holds.
        "bar" "cta? red popc u32" "" => Emit barrier::bar;
        /// Wait, and learn whether a predicate holds in all threads or in any.
        "bar" "cta? red and|or pred" "" => Emit barrier::bar;
        /// Wait until the threads of the block, or a number of them, have come.
        "barrier" "cta? sync|arrive aligned?" "" => Emit barrier::bar;
        /// Wait, and learn in how many threads a predicate holds.
        "barrier" "cta? red popc aligned? u32" "" => Emit barrier::bar;
        /// Wait, and learn whether a predicate holds in all threads or in any.
        "barrier" "cta? red and|or aligned? pred" "" => Emit barrier::bar;
    }
    "clusters" {
        /// Arrival at the barrier of the cluster.
        "barrier" "cluster arrive release|relaxed? aligned?" "" => Pick cluster::arrive;
        /// Wait until all threads of the cluster have arrived at its barrier.
        "barrier" "cluster wait acquire? aligned?" "" => Pick cluster::wait;
        /// Address of the same thing in the shared memory of another block of the cluster.
        "mapa" "shared::cluster? u32|u64" "=t t u32" => Pick cluster::mapa;
        /// Rank of the block whose shared memory an address lies in.
        "getctarank" "shared::cluster? u32|u64" "=u32 t" => Pick cluster::getctarank;
        /// Order between launches that depend on each other.
        "griddepcontrol" "launch_dependents|wait" "" => Pick cluster::griddepcontrol;
    }
    "mbarriers" {
        /// An mbarrier for so many arrivals a phase.
        "mbarrier" "init shared|shared::cta? b64" "" => Emit mbarrier::init;
        /// The end of an mbarrier.
        "mbarrier" "inval shared|shared::cta? b64" "" => Emit mbarrier::init;
        /// More bytes that the phase expects.
        "mbarrier" "expect_tx relaxed? @scope? shared|shared::cta|shared::cluster? b64" "" => Emit mbarrier::count_bytes;
        /// Bytes that have come, without a copy.
        "mbarrier" "complete_tx relaxed? @scope? shared|shared::cta|shared::cluster? b64" "" => Emit mbarrier::count_bytes;
        /// Arrivals, perhaps with more bytes that the phase expects.
        "mbarrier" "arrive|arrive_drop expect_tx? release|relaxed? @scope? shared|shared::cta|shared::cluster? b64" "" => Emit mbarrier::arrive;
        /// Arrivals that do not end the phase.
        "mbarrier" "arrive|arrive_drop noComplete release? cta? shared|shared::cta? b64" "" => Emit mbarrier::arrive;
        /// Whether the phase of a state, or the one of a parity, is over.
        "mbarrier" "test_wait|try_wait parity? acquire|relaxed? @scope? shared|shared::cta? b64" "" => Emit mbarrier::test;
        /// The arrivals that a phase lacked when a state was taken.
        "mbarrier" "pending_count b64" "=u32 b64" => Pick mbarrier::pending_count;
    }
    "asynchronous copies" {
        /// Copy from device to shared memory; the rest of the target becomes zero.
        "cp" "async ca|cg shared|shared::cta global L2::cache_hint? @prefetch?" "" => Emit copy::cp_async;
        /// End of a group of copies.
        "cp" "async commit_group" "" => Pick copy::commit;
        /// Wait until at most so many groups are under way.
        "cp" "async wait_group" "imm" => Pick copy::wait_group;
        /// Wait for all copies.
        "cp" "async wait_all" "" => Pick copy::wait_all;
        /// Arrival at an mbarrier once the copies before are done.
        "cp" "async mbarrier arrive noinc? shared|shared::cta? b64" "" => Emit copy::arrive_after;
        /// Bulk copy to shared memory, which an mbarrier learns of.
        "cp" "async bulk shared::cluster global mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?" "" => Emit bulk::cp_bulk;
        /// Bulk copy to the block's own shared memory.
        "cp" "async bulk shared::cta global mbarrier::complete_tx::bytes L2::cache_hint?" "" => Emit bulk::cp_bulk;
        /// Bulk copy to the shared memory of another block.
        "cp" "async bulk shared::cluster shared::cta mbarrier::complete_tx::bytes" "" => Emit bulk::cp_bulk;
        /// Bulk copy to device memory, in a group.
        "cp" "async bulk global shared::cta bulk_group L2::cache_hint?" "" => Emit bulk::cp_bulk;
        /// Hint to fetch device memory.
        "cp" "async bulk prefetch L2 global L2::cache_hint?" "" => Emit bulk::prefetch;
        /// Update of another block's shared memory with a range.
        "cp" "reduce async bulk shared::cluster shared::cta mbarrier::complete_tx::bytes add|min|max|inc|dec|and|or|xor b32|u32|s32|u64" "" => Emit bulk::cp_bulk;
        /// Update of device memory with a range.
        "cp" "reduce async bulk global shared::cta bulk_group L2::cache_hint? add|min|max|inc|dec|and|or|xor noftz? f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64" "" => Emit bulk::cp_bulk;
        /// Copy of a box of a tensor to shared memory, which an mbarrier learns of.
        "cp" "async bulk tensor 1d|2d|3d|4d|5d shared::cluster|shared::cta global tile|im2col? mbarrier::complete_tx::bytes multicast::cluster? L2::cache_hint?" "" => Emit tensor::cp_load;
        /// Copy of a box of a tensor from shared memory, in a group.
        "cp" "async bulk tensor 1d|2d|3d|4d|5d global shared::cta tile|im2col_no_offs? bulk_group L2::cache_hint?" "" => Emit tensor::cp_store;
        /// Update of a box of a tensor.
        "cp" "reduce async bulk tensor 1d|2d|3d|4d|5d global shared::cta add|min|max|inc|dec|and|or|xor tile|im2col_no_offs? bulk_group L2::cache_hint?" "" => Emit tensor::cp_store;
        /// Hint to fetch a box of a tensor.
        "cp" "async bulk prefetch tensor 1d|2d|3d|4d|5d L2 global tile|im2col? L2::cache_hint?" "" => Emit tensor::cp_prefetch;
        /// Change of a field of a tensor map.
        "tensormap" "replace tile global_address|global_stride global|shared::cta? b1024 b64" "" => Emit tensor::tensormap_replace;
        /// Change of a field of a tensor map.
        "tensormap" "replace tile rank|box_dim|global_dim|element_stride|elemtype|interleave_layout|swizzle_mode|fill_mode global|shared::cta? b1024 b32" "" => Emit tensor::tensormap_replace;
        /// Copy of a tensor map from shared to device memory, with a fence.
        "tensormap" "cp_fenceproxy global shared::cta tensormap::generic release @scope sync aligned" "" => Emit tensor::cp_fenceproxy;
        /// Hint to fetch a tensor map.
        "prefetch" "param|const? tensormap" "" => Emit memory::hint;
        /// End of a group of bulk copies.
        "cp" "async bulk commit_group" "" => Pick bulk::commit;
        /// Wait until at most so many groups of bulk copies are under way, or have not read their sources.
        "cp" "async bulk wait_group read?" "imm" => Pick bulk::wait_group;
        /// Store to another block's shared memory, which an mbarrier learns of.
        "st" "async weak? shared::cluster? mbarrier::complete_tx::bytes v2|v4? b32|b64|u32|u64|s32|s64|f32|f64" "" => Emit bulk::store_async;
        /// Update of another block's shared memory, which an mbarrier learns of.
        "red" "async relaxed? cluster? shared::cluster? mbarrier::complete_tx::bytes add|min|max|inc|dec|and|or|xor b32|u32|s32|u64" "" => Emit bulk::store_async;
        /// Number of registers of a warp.
        "setmaxnreg" "inc|dec sync aligned u32" "" => Emit bulk::setmaxnreg;
        /// Fence between ordinary accesses and those of bulk copies.
        "fence" "proxy async global|shared::cta|shared::cluster?" "" => Emit bulk::proxy_fence;
        /// Fence between accesses to the same memory by several addresses.
        "fence" "proxy alias" "" => Emit bulk::proxy_fence;
        /// Fence for tensor maps.
        "fence" "proxy tensormap::generic release|acquire @scope" "" => Emit bulk::proxy_fence;
        /// Fence behind the initialisation of mbarriers.
        "fence" "mbarrier_init release cluster" "" => Emit bulk::proxy_fence;
    }
}

/// All forms that the emulator knows.
pub fn forms() -> &'static [Form] {
    FORMS
}

/// Indices of the forms with that opcode.
pub(super) fn forms_of(opcode: &str) -> &'static [usize] {
    static BY_OPCODE: LazyLock<HashMap<&str, Vec<usize>>> = LazyLock::new(|| {
        let mut map: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, form) in FORMS.iter().enumerate() {
            map.entry(form.opcode).or_default().push(index);
        }
        map
    });
    BY_OPCODE.get(opcode).map_or(&[], Vec::as_slice)
}
