//! `repeat!`: a template for every combination of lists of words.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::Error;

/// What a name in the template stands for: `$name` becomes the token.
type Binding = (String, TokenTree);

/// Expands `for a in [x y] for (b, c) in [(p, q) (r, s)] { template }`.
pub fn expand(input: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = input.into_iter().collect();
    try_expand(&tokens).unwrap_or_else(Error::into_compile_error)
}

fn try_expand(tokens: &[TokenTree]) -> Result<TokenStream, Error> {
    let (loops, body) = tokens.split_at(tokens.len().saturating_sub(1));
    let template = match body {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Brace => group.stream(),
        _ => return Err(wrong(tokens, "a template in braces stands last")),
    };
    let mut rows: Vec<Vec<Binding>> = vec![Vec::new()];
    for one in loops.chunks(4) {
        let choices = choices(one)?;
        let with = |row: &Vec<Binding>| {
            let row = row.clone();
            choices.iter().map(move |more| [row.clone(), more.clone()].concat()).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(with).collect();
    }
    Ok(rows.iter().flat_map(|row| fill(template.clone(), row)).collect())
}

/// The choices of one `for`: each binds one name, or the names of a tuple.
fn choices(one: &[TokenTree]) -> Result<Vec<Vec<Binding>>, Error> {
    let [_for, names, _in, TokenTree::Group(list)] = one else {
        return Err(wrong(one, "write `for name in [words]` before the template"));
    };
    let names: Vec<String> = parts(names).iter().map(ToString::to_string).collect();
    let bind = |item: TokenTree| {
        let values = if names.len() == 1 { vec![item.clone()] } else { parts(&item) };
        match values.len() == names.len() {
            true => Ok(names.iter().cloned().zip(values).collect()),
            false => Err(wrong(&[item], "as many words as names")),
        }
    };
    list.stream().into_iter().filter(|token| !is_comma(token)).map(bind).collect()
}

/// The words of a tuple; a single word is its own.
fn parts(token: &TokenTree) -> Vec<TokenTree> {
    match token {
        TokenTree::Group(group) => {
            group.stream().into_iter().filter(|token| !is_comma(token)).collect()
        }
        other => vec![other.clone()],
    }
}

/// The template with `$name` replaced, and `$[a $name b]` joined to one name.
fn fill(template: TokenStream, row: &[Binding]) -> TokenStream {
    let mut out = Vec::new();
    let mut tokens = template.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_dollar = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '$');
        let next = if is_dollar { tokens.next() } else { None };
        out.push(match next {
            Some(TokenTree::Group(group)) => joined(&fill(group.stream(), row)),
            Some(name) => value(&name, row),
            None => deep(token, row),
        });
    }
    out.into_iter().collect()
}

fn deep(token: TokenTree, row: &[Binding]) -> TokenTree {
    let TokenTree::Group(group) = token else {
        return token;
    };
    TokenTree::Group(Group::new(group.delimiter(), fill(group.stream(), row)))
}

fn value(name: &TokenTree, row: &[Binding]) -> TokenTree {
    let text = name.to_string();
    let bound = row.iter().find(|(other, _)| *other == text);
    bound.map_or_else(|| name.clone(), |(_, token)| token.clone())
}

fn joined(words: &TokenStream) -> TokenTree {
    let name: String = words.clone().into_iter().map(|word| word.to_string()).collect();
    TokenTree::Ident(Ident::new(&name, Span::call_site()))
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')
}

fn wrong(tokens: &[TokenTree], message: &str) -> Error {
    let span = tokens.first().map_or_else(Span::call_site, TokenTree::span);
    Error::new(span, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        expand(text.parse().unwrap()).to_string().split_whitespace().collect()
    }

    #[test]
    fn every_combination_is_written() {
        let text = "for a in [x y] for (b, c) in [(p, 1) (q, 2)] { fn $[a_ $a _ $b]() { $c } }";
        assert_eq!(expanded(text), "fna_x_p(){1}fna_x_q(){2}fna_y_p(){1}fna_y_q(){2}");
        assert_eq!(expanded("{ fn f() {} }"), "fnf(){}");
    }

    #[test]
    fn a_wrong_list_is_told() {
        assert!(expanded("for a in [x]").contains("atemplateinbraces"));
        assert!(expanded("for (a, b) in [x] { a }").contains("asmanywordsasnames"));
        assert!(expanded("for a [x] { a }").contains("compile_error"));
    }
}
