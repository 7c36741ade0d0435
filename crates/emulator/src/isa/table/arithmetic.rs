//! Forms that compute: integers, floating point, bits, conversions and comparisons.

use crate::exec::ops::{compare, convert, float, half, int, logic, video};
use crate::isa::{Class, Form, Lowering, Order, Properties, Rule, class, rule};

forms! {
    "integer arithmetic" [Integer, Mixes, WEAK, 0] {
        /// Sum, which wraps.
        "add" "@int" "=t t t" [rule Upward] => Pick int::add;
        /// Sum, clamped.
        "add" "sat s32" "=t t t" => Pick int::add_sat;
        /// Sums of pairs.
        "add" "u16x2|s16x2" "=t t t" [rule Halves] => Pick int::add_packed;
        /// Difference, which wraps.
        "sub" "@int" "=t t t" [rule Upward] => Pick int::sub;
        /// Difference, clamped.
        "sub" "sat s32" "=t t t" => Pick int::sub_sat;
        /// Low half of a product.
        "mul" ".lo @int" "=t t t" [rule Upward] => Pick int::mul_lo;
        /// High half of a product.
        "mul" ".hi @int" "=t t t" => Pick int::mul_hi;
        /// Whole product, of twice the width.
        "mul" ".wide u16|s16|u32|s32" "=w t t" => Pick int::mul_wide;
        /// Low half of a product, plus a third operand.
        "mad" ".lo @int" "=t t t t" [rule Upward] => Pick int::mad_lo;
        /// High half of a product, plus a third operand.
        "mad" ".hi @int" "=t t t t" => Pick int::mad_hi;
        /// High half of a product, plus a third operand, clamped.
        "mad" ".hi sat s32" "=t t t t" => Pick int::mad_sat;
        /// Whole product plus a third operand of twice the width.
        "mad" ".wide u16|s16|u32|s32" "=w t t w" => Pick int::mad_wide;
        /// 32 bits of a product of 24-bit numbers.
        "mul24" ".lo|hi u32|s32" "=t t t" => Pick int::mul24;
        /// 32 bits of a product of 24-bit numbers, plus a third operand.
        "mad24" ".lo|hi u32|s32" "=t t t t" => Pick int::mad24;
        /// Upper part of a 24-bit product plus a third operand, which stops at the extremes.
        "mad24" ".hi sat s32" "=t t t t" => Pick int::mad24_hi_sat;
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
        "min" "u16x2|s16x2" "=t t t" [rule Halves] => Pick int::min_packed;
        /// The smaller of each pair, or 0 if that is negative.
        "min" "relu s16x2" "=t t t" [rule Halves] => Pick int::min_packed_relu;
        /// The smaller, or 0 if that is negative.
        "min" "relu s32" "=t t t" => Pick int::min_relu;
        /// The larger.
        "max" "@int" "=t t t" => Pick int::max;
        /// The larger of each pair.
        "max" "u16x2|s16x2" "=t t t" [rule Halves] => Pick int::max_packed;
        /// The larger of each pair, or 0 if that is negative.
        "max" "relu s16x2" "=t t t" [rule Halves] => Pick int::max_packed_relu;
        /// The larger, or 0 if that is negative.
        "max" "relu s32" "=t t t" => Pick int::max_relu;
        /// Sum of a distance and a third operand.
        "sad" "@int" "=t t t t" => Pick int::sad;
        /// Sum of four products of bytes and a third operand.
        "dp4a" "u32|s32 u32|s32" "=b32 b32 b32 b32" => Pick int::dp4a;
        /// Sum of two products of halves and bytes and a third operand.
        "dp2a" ".lo|hi u32|s32 u32|s32" "=b32 b32 b32 b32" => Pick int::dp2a;
        /// Sum; the carry goes to the flag.
        "add" "cc u32|s32|u64|s64" "=t t t" => Emit int::carry;
        /// Sum with the carry flag.
        "addc" "cc? u32|s32|u64|s64" "=t t t" => Emit int::carry;
        /// Difference; the flag is clear if it borrowed.
        "sub" "cc u32|s32|u64|s64" "=t t t" => Emit int::carry;
        /// Difference, less one if the flag is clear.
        "subc" "cc? u32|s32|u64|s64" "=t t t" => Emit int::carry;
        /// Half of a product plus a third operand; the carry goes to the flag.
        "mad" ".lo|hi cc u32|s32|u64|s64" "=t t t t" => Emit int::carry;
        /// Half of a product plus a third operand and the carry flag.
        "madc" ".lo|hi cc? u32|s32|u64|s64" "=t t t t" => Emit int::carry;
    }
    "video" [Integer, Mixes, WEAK, 0] {
        /// Sum of parts of words; a third word is combined with it, or it is put into that word.
        "vadd" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// Difference of parts of words; a third word is combined with it, or it is put into that word.
        "vsub" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// Distance of parts of words; a third word is combined with it, or it is put into that word.
        "vabsdiff" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// The smaller of parts of words; a third word is combined with it, or it is put into that word.
        "vmin" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// The larger of parts of words; a third word is combined with it, or it is put into that word.
        "vmax" "u32|s32 u32|s32 u32|s32 sat? add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// Shift of a part of a word to the left.
        "vshl" "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// Shift of a part of a word to the right.
        "vshr" "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// Comparison of parts of words.
        "vset" "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add|min|max?" "=b32 b32 b32 b32?" => Emit video::scalar;
        /// Product of parts of words and a third operand, scaled.
        "vmad" "u32|s32 u32|s32 u32|s32 po? sat? shr7|shr15?" "=b32 b32 b32 b32" => Emit video::scalar;
        /// Sums of halves side by side, or their sum.
        "vadd2" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Differences of halves side by side, or their sum.
        "vsub2" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Averages of halves side by side, or their sum.
        "vavrg2" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Distances of halves side by side, or their sum.
        "vabsdiff2" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// The smaller of halves side by side, or their sum.
        "vmin2" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// The larger of halves side by side, or their sum.
        "vmax2" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Comparisons of halves side by side, or how many hold.
        "vset2" "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Sums of bytes side by side, or their sum.
        "vadd4" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Differences of bytes side by side, or their sum.
        "vsub4" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Averages of bytes side by side, or their sum.
        "vavrg4" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Distances of bytes side by side, or their sum.
        "vabsdiff4" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// The smaller of bytes side by side, or their sum.
        "vmin4" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// The larger of bytes side by side, or their sum.
        "vmax4" "u32|s32 u32|s32 u32|s32 sat|add?" "=b32 b32 b32 b32?" => Emit video::simd;
        /// Comparisons of bytes side by side, or how many hold.
        "vset4" "u32|s32 u32|s32 eq|ne|lt|le|gt|ge add?" "=b32 b32 b32 b32?" => Emit video::simd;
    }
    "logic and shifts" [Logic, Mixes, WEAK, 0] {
        /// Bitwise and.
        "and" "@bits" "=t t t" [rule And] => Pick logic::and;
        /// And of predicates.
        "and" "pred" "=pred pred pred" [rule And] => Pick logic::and_pred;
        /// Bitwise or.
        "or" "@bits" "=t t t" [rule Or] => Pick logic::or;
        /// Or of predicates.
        "or" "pred" "=pred pred pred" [rule Or] => Pick logic::or_pred;
        /// Bitwise exclusive or.
        "xor" "@bits" "=t t t" [rule Xor] => Pick logic::xor;
        /// Exclusive or of predicates.
        "xor" "pred" "=pred pred pred" [rule Xor] => Pick logic::xor_pred;
        /// Bitwise complement.
        "not" "@bits" "=t t" [rule Not] => Pick logic::not;
        /// Complement of a predicate.
        "not" "pred" "=pred pred" [rule Not] => Pick logic::not_pred;
        /// 1 for zero, else 0.
        "cnot" "@bits" "=t t" => Pick logic::cnot;
        /// Shift to the left; a count past the width gives 0.
        "shl" "@bits" "=t t u32" [rule Left] => Pick logic::shl;
        /// Shift to the right, with the sign where the type has one; a count past the width is the width.
        "shr" "@bits|@int" "=t t u32" [rule (rule::shift_right)] => Pick logic::shr;
        /// Shift of two words as one, to the left (the upper word) or to the right (the lower).
        "shf" ".l|r clamp|wrap b32" "=t t t u32" [rule (rule::funnel_shift)] => Pick logic::shf;
        /// A field of bits.
        "bfe" "u32|s32|u64|s64" "=t t u32 u32" [rule (rule::extract)] => Pick logic::bfe;
        /// A word with a field of bits replaced.
        "bfi" "b32|b64" "=t t t u32 u32" [rule Insert] => Pick logic::bfi;
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
        "lop3" "b32" "=t t t t imm" [rule Lop3] => Pick logic::lop3;
        /// Any function of three bits, and whether any bit is set, combined with a predicate.
        "lop3" "and|or b32" "=t|p t t t imm pred" [rule Lop3] => Pick logic::lop3_pred;
        /// Four bytes out of eight.
        "prmt" "b32 f4e|b4e|rc8|ecl|ecr|rc16?" "=t t t b32" [rule (rule::permute)] => Pick logic::prmt;
        /// Low bits, extended.
        "szext" "clamp|wrap u32|s32" "=t t u32" [class Integer] => Pick logic::szext;
        /// A mask of ones.
        "bmsk" "clamp|wrap b32" "=t t b32" => Pick logic::bmsk;
    }
    "floating point" [(class::by_type), Mixes, WEAK, 1] {
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
        "fma" "@round ftz? sat? f32" "=t t t t" [flops 2] => Pick float::fma;
        /// Product and sum, rounded once.
        "fma" "@round f64" "=t t t t" [flops 2] => Pick float::fma;
        /// Product and sum, rounded once.
        "mad" "@round ftz? sat? f32" "=t t t t" [flops 2] => Pick float::fma;
        /// Product and sum, rounded once.
        "mad" "@round f64" "=t t t t" [flops 2] => Pick float::fma;
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
        "rsqrt" "approx ftz f64" "=t t" => Pick float::rsqrt_approx_ftz_f64;
        /// Reciprocal of the square root, to the last bit or the one before.
        "rsqrt" "approx f64" "=t t" => Pick float::rsqrt_approx_f64;
        /// Magnitude.
        "abs" "ftz? f32" "=t t" [flops 0] => Pick float::abs;
        /// Magnitude.
        "abs" "f64" "=t t" [flops 0] => Pick float::abs;
        /// Negative.
        "neg" "ftz? f32" "=t t" [flops 0] => Pick float::neg;
        /// Negative.
        "neg" "f64" "=t t" [flops 0] => Pick float::neg;
        /// The smaller, or the one that is no NaN.
        "min" "ftz? NaN? f32" "=t t t" [flops 0] => Pick float::min;
        /// The smaller magnitude, with the product of the signs.
        "min" "ftz? NaN? xorsign abs f32" "=t t t" [flops 0] => Pick float::min;
        /// The smaller, or the one that is no NaN.
        "min" "f64" "=t t t" [flops 0] => Pick float::min;
        /// The larger, or the one that is no NaN.
        "max" "ftz? NaN? f32" "=t t t" [flops 0] => Pick float::max;
        /// The larger magnitude, with the product of the signs.
        "max" "ftz? NaN? xorsign abs f32" "=t t t" [flops 0] => Pick float::max;
        /// The larger, or the one that is no NaN.
        "max" "f64" "=t t t" [flops 0] => Pick float::max;
        /// The magnitude of the second operand with the sign of the first.
        "copysign" "f32|f64" "=t t t" [flops 0] => Pick float::copysign;
        /// Whether a number is of a class.
        "testp" "finite|infinite|number|notanumber|normal|subnormal f32|f64" "=pred t" [class Comparison flops 0] => Pick float::testp;
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
    "half precision" [Half, (rule::by_halves), WEAK, 1] {
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
        "fma" "rn ftz? sat? f16|f16x2" "=t t t t" [flops 2] => Pick half::fma;
        /// Product and sum, rounded once; a negative one is 0.
        "fma" "rn ftz? relu f16|f16x2" "=t t t t" [flops 2] => Pick half::fma;
        /// Product and sum, rounded once.
        "fma" "rn relu? bf16|bf16x2" "=t t t t" [flops 2] => Pick half::fma;
        /// Magnitude.
        "abs" "ftz? f16|f16x2" "=t t" [flops 0] => Pick half::abs;
        /// Magnitude.
        "abs" "bf16|bf16x2" "=t t" [flops 0] => Pick half::abs;
        /// Negative.
        "neg" "ftz? f16|f16x2" "=t t" [flops 0] => Pick half::neg;
        /// Negative.
        "neg" "bf16|bf16x2" "=t t" [flops 0] => Pick half::neg;
        /// The smaller, or the one that is no NaN.
        "min" "ftz? NaN? f16|f16x2" "=t t t" [flops 0] => Pick half::min;
        /// The smaller magnitude, with the product of the signs.
        "min" "ftz? NaN? xorsign abs f16|f16x2" "=t t t" [flops 0] => Pick half::min;
        /// The smaller, or the one that is no NaN.
        "min" "NaN? bf16|bf16x2" "=t t t" [flops 0] => Pick half::min;
        /// The smaller magnitude, with the product of the signs.
        "min" "NaN? xorsign abs bf16|bf16x2" "=t t t" [flops 0] => Pick half::min;
        /// The larger, or the one that is no NaN.
        "max" "ftz? NaN? f16|f16x2" "=t t t" [flops 0] => Pick half::max;
        /// The larger magnitude, with the product of the signs.
        "max" "ftz? NaN? xorsign abs f16|f16x2" "=t t t" [flops 0] => Pick half::max;
        /// The larger, or the one that is no NaN.
        "max" "NaN? bf16|bf16x2" "=t t t" [flops 0] => Pick half::max;
        /// The larger magnitude, with the product of the signs.
        "max" "NaN? xorsign abs bf16|bf16x2" "=t t t" [flops 0] => Pick half::max;
        /// Power of two, nearly.
        "ex2" "approx f16|f16x2" "=t t" => Pick half::ex2;
        /// Power of two, nearly.
        "ex2" "approx ftz bf16|bf16x2" "=t t" => Pick half::ex2;
        /// Hyperbolic tangent, nearly.
        "tanh" "approx f16|f16x2|bf16|bf16x2" "=t t" => Pick half::tanh;
    }
    "conversion" [Conversion, Mixes, WEAK, 0] {
        /// Integer to integer; with `sat` clamped.
        "cvt" "sat? @anyint @anyint" "=t~ u~" [rule (rule::convert)] => Pick convert::int_to_int;
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
        /// To 10 bits of mantissa.
        "cvt" "rna satfinite? tf32 f32" "=b32 f32" => Pick convert::tf32;
        /// To 10 bits of mantissa.
        "cvt" "rn|rz relu? tf32 f32" "=b32 f32" => Pick convert::tf32;
        /// Two floats to a pair of bytes, the first to the upper.
        "cvt" "rn satfinite relu? e4m3x2|e5m2x2 f32" "=b16 f32 f32" => Pick convert::to_byte_pair;
        /// Two halves to a pair of bytes.
        "cvt" "rn satfinite relu? e4m3x2|e5m2x2 f16x2" "=b16 b32" => Pick convert::to_byte_pair;
        /// Two numbers, clamped, side by side.
        "cvt" ".pack sat u16|s16 s32" "=b32 s32 s32" => Pick convert::pack_halves;
        /// Two numbers, clamped, side by side below what a third holds.
        "cvt" ".pack sat u8|s8|u4|s4|u2|s2 s32 b32" "=b32 s32 s32 b32" => Pick convert::pack_small;
        /// A pair of bytes to two halves.
        "cvt" "rn relu? f16x2 e4m3x2|e5m2x2" "=b32 b16" => Pick convert::from_byte_pair;
    }
    "comparison and selection" [Comparison, Mixes, WEAK, 0] {
        /// Comparison to a predicate and its complement.
        "setp" "@compare|@unordered ftz? @bits|@int|f16|bf16|f32|f64" "=p|q t t" [rule (rule::compare)] => Pick compare::setp;
        /// Comparison combined with a predicate.
        "setp" "@compare|@unordered @bool ftz? @bits|@int|f16|bf16|f32|f64" "=p|q t t pred" => Pick compare::setp;
        /// Comparisons of pairs to two predicates, the first for the lower halves.
        "setp" "@compare|@unordered ftz? f16x2|bf16x2" "=p|q t t" [rule Halves] => Pick compare::setp_pair;
        /// Comparisons of pairs, each combined with a predicate.
        "setp" "@compare|@unordered @bool ftz? f16x2|bf16x2" "=p|q t t pred" [rule Halves] => Pick compare::setp_pair;
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
        "selp" "@bits|@int|f32|f64" "=t t t pred" [rule Select] => Pick compare::selp;
        /// One of two values, by the sign of a third.
        "slct" "ftz? @bits|@int|f32|f64 s32|f32" "=t t t u" => Pick compare::slct;
    }
}
