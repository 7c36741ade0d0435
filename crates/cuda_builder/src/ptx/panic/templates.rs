//! What the table of a module says of a template.

use ptx_format::panic::template::{Step, steps, values};

/// A template in a module's constants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    /// How many values it has.
    pub values: usize,
    /// Whether some of them are widths or precisions.
    pub has_counts: bool,
    /// Its text, with `{}` for each placeholder.
    pub text: Vec<u8>,
}

/// Reads bytes that are exactly one template.
pub(super) fn read(bytes: &[u8]) -> Option<Template> {
    let (mut steps, mut template) = (steps(bytes), Template::default());
    for step in steps.by_ref() {
        match step.ok()? {
            Step::Text(text) => template.text.extend(text),
            Step::Placeholder(own) => {
                template.has_counts |= own.has_counts();
                template.text.extend(b"{}");
            }
        }
    }
    template.values = values(bytes);
    steps.rest().is_empty().then_some(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_places_for_values() {
        let text = b"the len is {}!".to_vec();
        let expected = Template { values: 1, has_counts: false, text };
        assert_eq!(read(b"\x0bthe len is \xC0\x01!\0"), Some(expected));
        // The precision is the second value.
        let expected = Template { values: 2, has_counts: true, text: b"{}".to_vec() };
        assert_eq!(read(b"\xE4\x01\0\0"), Some(expected));
    }

    #[test]
    fn what_is_cut_or_has_more_behind_it_is_no_template() {
        assert_eq!((read(b"\x04text"), read(b"\x04text\0\0")), (None, None));
    }
}
