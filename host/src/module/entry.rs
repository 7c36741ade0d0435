//! What the entry of a kernel says in its PTX: its parameters, and the blocks that it is compiled for.

use cuda_std::launch::Contract;
use ptx_format::functions::code;

/// Threads or blocks along x, y and z.
pub(crate) type Extents = (u32, u32, u32);

/// A parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryParam {
    pub(super) name: String,
    pub(super) size_bytes: usize,
}

/// What stands between the name of an entry and its body, without comments.
pub(crate) fn header(ptx: &str, name: &str) -> Option<String> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '%');
    let mut at = 0;
    loop {
        let found = at + ptx[at..].find(".entry ")?;
        at = found + ".entry ".len();
        let line = ptx[..found].rfind('\n').map_or(0, |end| end + 1);
        let behind = ptx[at..].trim_start();
        let end = behind.find(|c| !is_name(c)).unwrap_or(behind.len());
        if &behind[..end] == name && !ptx[line..found].contains("//") {
            return Some(before_body(&behind[end..]));
        }
    }
}

/// The lines up to the opening brace, without comments.
fn before_body(text: &str) -> String {
    let mut header = String::new();
    for line in text.lines().map(code) {
        let before = line.split('{').next().unwrap_or_default();
        header.extend([before, "\n"]);
        if before.len() < line.len() {
            break;
        }
    }
    header
}

/// One to three numbers behind a directive.
pub(crate) fn extents(header: &str, directive: &str) -> Option<Extents> {
    let (_, behind) = header.split_once(directive)?;
    let end = behind.find(|c: char| !c.is_ascii_digit() && !matches!(c, ' ' | '\t' | ','));
    let list = &behind[..end.unwrap_or(behind.len())];
    let mut numbers = list.split(',').map(|number| number.trim().parse().ok());
    let first = numbers.next()??;
    let mut next = || numbers.next().flatten().unwrap_or(1);
    Some((first, next(), next()))
}

/// The parameters of an entry in order; `None` if one is of a kind that has no bytes, such as a texture.
pub(super) fn params(header: &str) -> Option<Vec<EntryParam>> {
    let Some(list) = header.trim_start().strip_prefix('(') else { return Some(Vec::new()) };
    let list = list.split(')').next().unwrap_or_default();
    list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(param).collect()
}

/// `.param .align 8 .b8 NAME[24]`, `.param .u64 .ptr .global .align 4 NAME`.
fn param(text: &str) -> Option<EntryParam> {
    let (head, count) = match text.split_once('[') {
        Some((head, count)) => (head, count.trim_end_matches(']').trim().parse().ok()?),
        None => (text, 1usize),
    };
    let name = head.split_whitespace().next_back()?.to_owned();
    let bytes = head.split_whitespace().find_map(scalar_bytes)?;
    Some(EntryParam { name, size_bytes: bytes.checked_mul(count)? })
}

/// The size of `.u64`, `.f32`, `.b8`.
fn scalar_bytes(word: &str) -> Option<usize> {
    let number = word.strip_prefix('.')?.strip_prefix(['b', 'u', 's', 'f'])?;
    match number {
        "8" => Some(1),
        "16" => Some(2),
        "32" | "16x2" => Some(4),
        "64" => Some(8),
        "128" => Some(16),
        _ => None,
    }
}

/// The blocks and clusters that an entry is compiled for.
pub(super) fn contract(header: &str) -> Contract {
    let wide = |(x, y, z): Extents| [x, y, z].map(u64::from);
    let mut contract = Contract::NONE;
    if let Some(block) = extents(header, ".reqntid") {
        contract = contract.with_block(wide(block));
    }
    if let Some(most) = extents(header, ".maxntid") {
        contract = contract.with_max_threads(wide(most).into_iter().product());
    }
    match extents(header, ".reqnctapercluster") {
        Some(cluster) => contract.with_cluster(wide(cluster)),
        None => contract,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
// .entry k(.param .u8 in_a_comment)
.visible .entry k_more(.param .u8 a) { ret; }
.visible .entry k(
\t.param .u64 .ptr .global .align 4 k_param_0, // not this: { .param .u8 x,
\t.param .align 8 .b8 k_param_1[24],
\t.param .f32 k_param_2,
\t.param .b128 k_param_3
)
.maxntid 512
.minnctapersm 2
{
\tret;
}
.entry fixed() .reqntid 32, 8
{
}
.entry cluster(.param .u16 a)
.reqnctapercluster 2, 1, 1
{
}
.entry looks(.param .texref t)
{
}
";

    fn of(name: &str) -> Option<Vec<(String, usize)>> {
        let params = params(&header(PTX, name).expect("an entry"))?;
        Some(params.into_iter().map(|param| (param.name, param.size_bytes)).collect())
    }

    #[test]
    fn parameters_have_their_sizes() {
        let named = |list: &[(&str, usize)]| {
            Some(list.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect())
        };
        assert_eq!(of("k_more"), named(&[("a", 1)]));
        assert_eq!(of("fixed"), named(&[]));
        assert_eq!(of("cluster"), named(&[("a", 2)]));
        assert_eq!(of("looks"), None);
        let params = params(&header(PTX, "k").expect("an entry")).expect("sizes");
        let sizes: Vec<usize> = params.iter().map(|param| param.size_bytes).collect();
        assert_eq!(sizes, [8, 24, 4, 16]);
        assert_eq!(params[1].name, "k_param_1");
    }

    #[test]
    fn bounds_become_a_contract() {
        let contract = |name| contract(&header(PTX, name).expect("an entry"));
        assert_eq!(contract("fixed").block, Some((32, 8, 1)));
        assert_eq!(contract("cluster").cluster, Some((2, 1, 1)));
        assert_eq!(contract("k_more"), Contract::NONE);
        let own = contract("k");
        assert_eq!((own.block, own.max_threads), (None, Some(512)));
    }
}
