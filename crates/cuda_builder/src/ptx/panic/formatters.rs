//! Formatting functions of `core`, known by their symbols.

/// Types, by their letters in symbols, and their sizes in bytes.
const TYPES: [(char, u64); 17] = [
    ('a', 1),
    ('b', 1),
    ('c', 4),
    ('d', 8),
    ('e', 0),
    ('f', 4),
    ('h', 1),
    ('i', 8),
    ('j', 8),
    ('l', 4),
    ('m', 4),
    ('n', 16),
    ('o', 16),
    ('s', 2),
    ('t', 2),
    ('x', 8),
    ('y', 8),
];

/// Traits, in the order of `cuda_std::panic`'s numbers.
const TRAITS: [&str; 7] =
    ["7Display", "5Debug", "8LowerHex", "8UpperHex", "6Binary", "5Octal", "8LowerExp"];

/// What the function of a symbol formats, as `cuda_std::panic` wants to be told: the type's
/// letter, the trait << 8, how many references lie around it << 16, its size << 24.
///
/// `<u32 as Display>::fmt` is `_RNvXs8_NtNtNtCs…_4core3fmt3num3impmNtB9_7Display3fmt`, and
/// `<&u32 as Debug>::fmt` is `_RNvXs1g_NtCs…_4core3fmtRmNtB6_5Debug3fmtB8_`.
pub(super) fn tag(symbol: &str) -> Option<u64> {
    let rest = symbol.strip_prefix("_RNvX")?.split_once("4core3fmt")?.1;
    let place = ["3num3imp", "3num", "5float"].iter().find_map(|own| rest.strip_prefix(own));
    let rest = place.unwrap_or(rest);
    if rest.starts_with("NtB") && rest.contains("_9ArgumentsNtB") && rest.contains("7Display3fmt") {
        return Some(u64::from(b'A'));
    }
    let bare = rest.trim_start_matches('R');
    let references = (rest.len() - bare.len()) as u64;
    if references == 1 && bare.starts_with("DNtB") && bare.contains("_5DebugEL_B") {
        return bare.contains("_3fmt").then_some(u64::from(b'D'));
    }
    let letter = bare.chars().next()?;
    let (_, size) = TYPES.iter().find(|(own, _)| *own == letter)?;
    // A `str` is a pointer and a length; one of the references is these.
    let references = if letter == 'e' { references.checked_sub(1)? } else { references };
    let (_, name) = bare[1..].strip_prefix("NtB")?.split_once('_')?;
    let number = TRAITS
        .iter()
        .position(|own| name.strip_prefix(own).is_some_and(|rest| rest.starts_with("3fmt")))?;
    Some(u64::from(letter as u8) | (number as u64) << 8 | references << 16 | size << 24)
}

/// Whether a symbol is of an `fmt` of some type and trait.
pub(super) fn is_any(symbol: &str) -> bool {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(['B', 'C']);
    symbol.starts_with("_RNvX")
        && symbol.rfind("3fmt").is_some_and(|at| {
            let before = &symbol[..at];
            let named =
                TRAITS.iter().any(|own| before.ends_with(own)) || before.ends_with("7Pointer");
            named && is_end(&symbol[at + 4..])
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(symbol: &str) -> Option<(char, u64, u64, u64)> {
        let tag = tag(symbol)?;
        Some((char::from(tag as u8), tag >> 8 & 255, tag >> 16 & 255, tag >> 24))
    }

    #[test]
    fn types_and_traits_are_read() {
        let usize_display = "_RNvXsi_NtNtNtCsgMd4vzsDXWs_4core3fmt3num3impjNtB9_7Display3fmt";
        assert_eq!(known(usize_display), Some(('j', 0, 0, 8)));
        let u32_hex = "_RNvXsu_NtNtCsgMd4vzsDXWs_4core3fmt3nummNtB7_8LowerHex3fmt";
        assert_eq!(known(u32_hex), Some(('m', 2, 0, 4)));
        let f32_debug = "_RNvXs2_NtNtCsgMd4vzsDXWs_4core3fmt5floatfNtB7_5Debug3fmt";
        assert_eq!(known(f32_debug), Some(('f', 1, 0, 4)));
        let bool_display = "_RNvXsg_NtCsgMd4vzsDXWs_4core3fmtbNtB5_7Display3fmt";
        assert_eq!(known(bool_display), Some(('b', 0, 0, 1)));
    }

    #[test]
    fn references_are_counted() {
        let of =
            "_RNvXs1g_NtCsgMd4vzsDXWs_4core3fmtRaNtB6_5Debug3fmtCsjWOV2OfNyC7_14panics_kernels";
        assert_eq!(known(of), Some(('a', 1, 1, 1)));
        let str_display = "_RNvXs1i_NtCsgMd4vzsDXWs_4core3fmtReNtB6_7Display3fmtB8_";
        assert_eq!(known(str_display), Some(('e', 0, 0, 0)));
        let object = "_RNvXs1g_NtCsgMd4vzsDXWs_4core3fmtRDNtB6_5DebugEL_Bx_3fmtB8_";
        assert_eq!(known(object), Some(('D', 0, 0, 0)));
        let arguments = "_RNvXs8_NtCsgMd4vzsDXWs_4core3fmtNtB5_9ArgumentsNtB5_7Display3fmt";
        assert_eq!(known(arguments), Some(('A', 0, 0, 0)));
    }

    #[test]
    fn others_are_not_known() {
        let error =
            "_RNvXs5_NtNtCsgMd4vzsDXWs_4core3num5errorNtB5_15TryFromIntErrorNtNtB9_3fmt5Debug3fmt";
        assert_eq!(known(error), None);
        assert!(is_any(error));
        let range =
            "_RNvXs_NtNtCsgMd4vzsDXWs_4core3ops5rangeINtB4_5RangejENtNtB8_3fmt5Debug3fmtB8_";
        assert!(known(range).is_none() && is_any(range));
        assert!(!is_any("_RNvMsa_NtCslmCHj3Bj0c1_4core3fmtNtB5_9Formatter7padding"));
    }
}
