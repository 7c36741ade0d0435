//! The instructions themselves: one for each order and scope.

/// A match over the four scopes: `$one!(… ".cta")` and so on.
macro_rules! each_scope {
    ($scope:ident, $one:ident!($($before:tt)*)) => {
        match $scope {
            Scope::Block => $one!($($before)* ".cta"),
            Scope::Cluster => $one!($($before)* ".cluster"),
            Scope::Device => $one!($($before)* ".gpu"),
            Scope::System => $one!($($before)* ".sys"),
        }
    };
}

/// A match over the orders of a read-modify-write, and the scopes.
macro_rules! each_order {
    ($order:ident, $scope:ident, $one:ident!($($before:tt)*)) => {
        match $order {
            Ordering::Relaxed => each_scope!($scope, $one!($($before)* ".relaxed",)),
            Ordering::Acquire => each_scope!($scope, $one!($($before)* ".acquire",)),
            Ordering::Release => each_scope!($scope, $one!($($before)* ".release",)),
            Ordering::AcqRel => each_scope!($scope, $one!($($before)* ".acq_rel",)),
            _ => {
                fence(Ordering::SeqCst, $scope);
                each_scope!($scope, $one!($($before)* ".acq_rel",))
            }
        }
    };
}

/// `atom` with the order and scope asked for, of one value. If `$global`, the address is known to
/// lie in global memory.
macro_rules! atom {
    ($op:literal, $class:ident, $ptr:ident, $value:ident, $order:ident, $scope:ident, $global:ident) => {{
        let before;
        macro_rules! generic {
                    ($sem:literal, $in_scope:literal) => {
                        asm!(
                            concat!("atom", $sem, $in_scope, $op, " {before}, [{ptr}], {value};"),
                            before = out($class) before,
                            ptr = in(reg64) $ptr,
                            value = in($class) $value,
                            options(nostack),
                        )
                    };
                }
        macro_rules! global {
                    ($sem:literal, $in_scope:literal) => {
                        asm!(
                            "{{ .reg .b64 global; cvta.to.global.u64 global, {ptr};",
                            concat!("atom", $sem, $in_scope, ".global", $op),
                            "{before}, [global], {value}; }}",
                            before = out($class) before,
                            ptr = in(reg64) $ptr,
                            value = in($class) $value,
                            options(nostack),
                        )
                    };
                }
        if $global {
            each_order!($order, $scope, global!());
        } else {
            each_order!($order, $scope, generic!());
        }
        before
    }};
}

/// `atom.cas`: stores `$new` if the bits are those of `$current`.
macro_rules! cas {
    ($op:literal, $class:ident, $ptr:ident, $current:ident, $new:ident, $order:ident, $scope:ident) => {{
        let before;
        macro_rules! generic {
                                            ($sem:literal, $in_scope:literal) => {
                                                asm!(
                                                    concat!("atom", $sem, $in_scope, ".cas", $op),
                                                    "{before}, [{ptr}], {current}, {new};",
                                                    before = out($class) before,
                                                    ptr = in(reg64) $ptr,
                                                    current = in($class) $current,
                                                    new = in($class) $new,
                                                    options(nostack),
                                                )
                                            };
                                        }
        each_order!($order, $scope, generic!());
        before
    }};
}

/// `ld` and `st` with the order and scope asked for.
macro_rules! load_store {
    (ld, $op:literal, $class:ident, $ptr:ident, $order:ident, $scope:ident) => {{
        let value;
        macro_rules! generic {
                                ($sem:literal, $in_scope:literal) => {
                                    asm!(
                                        concat!("ld", $sem, $in_scope, $op, " {value}, [{ptr}];"),
                                        value = out($class) value,
                                        ptr = in(reg64) $ptr,
                                        options(nostack),
                                    )
                                };
                            }
        match $order {
            Ordering::Relaxed => each_scope!($scope, generic!(".relaxed",)),
            Ordering::Acquire => each_scope!($scope, generic!(".acquire",)),
            Ordering::SeqCst => {
                fence(Ordering::SeqCst, $scope);
                each_scope!($scope, generic!(".acquire",))
            }
            _ => panic!("a load is not a release"),
        }
        value
    }};
    (st, $op:literal, $class:ident, $ptr:ident, $value:ident, $order:ident, $scope:ident) => {{
        macro_rules! generic {
                                ($sem:literal, $in_scope:literal) => {
                                    asm!(
                                        concat!("st", $sem, $in_scope, $op, " [{ptr}], {value};"),
                                        value = in($class) $value,
                                        ptr = in(reg64) $ptr,
                                        options(nostack),
                                    )
                                };
                            }
        match $order {
            Ordering::Relaxed => each_scope!($scope, generic!(".relaxed",)),
            Ordering::Release => each_scope!($scope, generic!(".release",)),
            Ordering::SeqCst => {
                fence(Ordering::SeqCst, $scope);
                each_scope!($scope, generic!(".release",))
            }
            _ => panic!("a store is not an acquire"),
        }
    }};
}

pub(super) use {atom, cas, each_order, each_scope, load_store};
