//! Makes untrusted text safe to print.
//!
//! Config files, server names and paths are untrusted. A terminal acts on control characters, and
//! invisible characters can make two different names look alike. Both functions replace such
//! characters with spaces.

/// Replaces every control character and the common invisible formatting characters (bidirectional
/// controls, joiners, byte order mark) with spaces. The result has as many characters as `text`, so
/// columns stay valid.
pub fn replace_control_chars(text: &str) -> String {
    text.chars()
        .map(|c| if is_printable(c) { c } else { ' ' })
        .collect()
}

/// Replaces every character that cannot be seen or that looks like a space with a space, and trims
/// both ends.
///
/// A name is acceptable if this function returns it unchanged.
pub fn sanitize_name(text: &str) -> String {
    let replaced: String = text
        .chars()
        .map(|c| if is_visible(c) { c } else { ' ' })
        .collect();
    replaced.trim().to_owned()
}

/// Returns false for characters that fonts draw as nothing or as a space. The plain space counts as
/// visible.
fn is_visible(c: char) -> bool {
    let is_other_space = c.is_whitespace() && c != ' ';
    let is_drawn_empty = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    is_printable(c) && !is_other_space && !is_drawn_empty
}

/// Returns false for control characters and for the common invisible characters that reorder, join
/// or separate their neighbours.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'))
}
