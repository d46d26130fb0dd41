//! Others' text as it may be shown: one line, bounded, nothing in it that is not seen.

/// Text of a server or a client for people to look at: at most `most` characters, and what would move, hide or turn
/// other text (controls, directions, joiners, tags) written out.
pub fn plain(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most * 4));
    for (count, character) in text.chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        match character {
            '\n' | '\r' | '\t' => shown.push(' '),
            unseen if is_unseen(unseen) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(unseen))),
            seen => shown.push(seen),
        }
    }
    shown
}

/// Controls, and characters that have no shape of their own.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(u32::from(character),
            0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
            | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
            | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_is_seen_stays_and_what_is_not_is_written_out() {
        assert_eq!(plain("<b>é 漢\"'&", 99), "<b>é 漢\"'&");
        assert_eq!(plain("a\u{202e}b\u{200b}c\u{0}d", 99), "a\\u{202e}b\\u{200b}c\\u{0}d");
        assert_eq!(plain("a\r\n\tb", 99), "a   b");
        assert_eq!(plain("\u{e0041}\u{2066}\u{feff}", 99), "\\u{e0041}\\u{2066}\\u{feff}");
    }

    #[test]
    fn it_is_no_longer_than_wanted() {
        assert_eq!(plain("abcdef", 6), "abcdef");
        assert_eq!(plain("abcdefg", 6), "abcdef…");
        assert_eq!(plain(&"é".repeat(9_000_000), 3), "ééé…");
        assert_eq!(plain("\u{202e}\u{202e}\u{202e}", 2), "\\u{202e}\\u{202e}…");
    }
}
