//! Comparisons: `setp`, `set`, `slct`.

/// An operator of `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Equal, and ordered.
    Eq,
    /// Not equal, and ordered.
    Ne,
    /// Below, and ordered. Of unsigned integers also `lo`.
    Lt,
    /// Below or equal, and ordered. Of unsigned integers also `ls`.
    Le,
    /// Above, and ordered. Of unsigned integers also `hi`.
    Gt,
    /// Above or equal, and ordered. Of unsigned integers also `hs`.
    Ge,
    /// Equal, or unordered.
    Equ,
    /// Not equal, or unordered.
    Neu,
    /// Below, or unordered.
    Ltu,
    /// Below or equal, or unordered.
    Leu,
    /// Above, or unordered.
    Gtu,
    /// Above or equal, or unordered.
    Geu,
    /// Neither operand is NaN.
    Num,
    /// An operand is NaN.
    Nan,
}

impl Compare {
    /// The operator that a word without its dot names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "lt" | "lo" => Self::Lt,
            "le" | "ls" => Self::Le,
            "gt" | "hi" => Self::Gt,
            "ge" | "hs" => Self::Ge,
            "equ" => Self::Equ,
            "neu" => Self::Neu,
            "ltu" => Self::Ltu,
            "leu" => Self::Leu,
            "gtu" => Self::Gtu,
            "geu" => Self::Geu,
            "num" => Self::Num,
            "nan" => Self::Nan,
            _ => return None,
        })
    }

    /// Whether the operator holds. Integers, whose signedness their type says, are always ordered;
    /// operands of which one is NaN are not.
    #[inline(always)]
    #[expect(clippy::double_comparisons, reason = "with a NaN, `!=` holds and `<` and `>` do not")]
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        // Of unordered operands `<`, `==` and `>` are all false.
        match self {
            Self::Eq => a == b,
            Self::Ne => a < b || a > b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
            Self::Equ => !Self::Ne.holds(a, b),
            Self::Neu => !Self::Eq.holds(a, b),
            Self::Ltu => !Self::Ge.holds(a, b),
            Self::Leu => !Self::Gt.holds(a, b),
            Self::Gtu => !Self::Le.holds(a, b),
            Self::Geu => !Self::Lt.holds(a, b),
            Self::Num => a.partial_cmp(&b).is_some(),
            Self::Nan => a.partial_cmp(&b).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Compare::*;

    const ALL: [Compare; 14] = [Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan];

    #[test]
    fn the_truth_table_by_name() {
        let holds = |a: f32, b: f32| ALL.into_iter().filter(move |op| op.holds(a, b));
        assert_eq!(holds(1., 2.).collect::<Vec<_>>(), [Ne, Lt, Le, Neu, Ltu, Leu, Num]);
        assert_eq!(holds(2., 1.).collect::<Vec<_>>(), [Ne, Gt, Ge, Neu, Gtu, Geu, Num]);
        assert_eq!(holds(1., 1.).collect::<Vec<_>>(), [Eq, Le, Ge, Equ, Leu, Geu, Num]);
        assert_eq!(holds(-0., 0.).collect::<Vec<_>>(), [Eq, Le, Ge, Equ, Leu, Geu, Num]);
        let unordered = [Equ, Neu, Ltu, Leu, Gtu, Geu, Nan];
        for (a, b) in [(f32::NAN, 1.), (1., f32::NAN), (f32::NAN, f32::NAN)] {
            assert_eq!(holds(a, b).collect::<Vec<_>>(), unordered);
        }
    }

    #[test]
    fn integers_compare_by_their_sign() {
        assert!(Lt.holds(-1i32, 1) && Gt.holds(-1i32 as u32, 1));
        assert!(Ne.holds(u64::MAX, 0) && Eq.holds(i64::MIN, i64::MIN));
    }

    #[test]
    fn unsigned_names_are_the_same_operators() {
        assert_eq!(["lo", "ls", "hi", "hs"].map(Compare::parse), [Lt, Le, Gt, Ge].map(Some));
        assert_eq!(Compare::parse("equ"), Some(Equ));
        assert_eq!(Compare::parse("lx"), None);
    }
}
