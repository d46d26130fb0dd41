//! Text that people do not see and models do: characters without a shape, turned directions, look-alikes, far blanks.

/// Blanks in a row that push text out of sight.
const FAR: usize = 40;
/// Line ends in a row that do.
const LOW: usize = 8;

/// Letters of other alphabets that look like Latin ones.
const ALIKE: [(char, char); 18] = [
    ('\u{430}', 'a'),
    ('\u{435}', 'e'),
    ('\u{43e}', 'o'),
    ('\u{440}', 'p'),
    ('\u{441}', 'c'),
    ('\u{443}', 'y'),
    ('\u{445}', 'x'),
    ('\u{456}', 'i'),
    ('\u{455}', 's'),
    ('\u{501}', 'd'),
    ('\u{578}', 'n'),
    ('\u{391}', 'A'),
    ('\u{395}', 'E'),
    ('\u{399}', 'I'),
    ('\u{39f}', 'O'),
    ('\u{422}', 'T'),
    ('\u{3bf}', 'o'),
    ('\u{3b9}', 'i'),
];

/// What is hidden in a text, said in words.
pub(super) fn hidden(text: &str) -> Option<String> {
    let mut before = ' ';
    for (place, c) in text.char_indices() {
        if is_hidden(c) && !is_emoji_joint(c, before) {
            return Some(format!("holds {} (U+{:04X}) at byte {place}", kind(c), u32::from(c)));
        }
        before = c;
    }
    if let Some(word) = text.split(|c: char| !c.is_alphabetic()).find(|word| is_mixed(word)) {
        return Some(format!("mixes alphabets in one word: {word:?}"));
    }
    let blanks = longest(text, |c| matches!(c, ' ' | '\t' | '\u{a0}')) >= FAR;
    let lines = longest(text, |c| matches!(c, '\n' | '\r')) >= LOW;
    (blanks || lines).then(|| "pushes text out of sight with blanks".to_owned())
}

/// The text without what has no shape, look-alikes as what they look like.
pub(super) fn visible(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).map(plain).collect()
}

/// Full-width letters and look-alikes as the letters they stand for.
fn plain(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => ALIKE.iter().find(|(other, _)| *other == c).map_or(c, |(_, latin)| *latin),
    }
}

const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}'
        | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// What shapes an emoji is no secret.
const fn is_emoji_joint(c: char, before: char) -> bool {
    let emoji = matches!(before, '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{1f000}'..='\u{1faff}'
        | '\u{fe0f}' | '0'..='9' | '#' | '*' | '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}');
    matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{200d}') && emoji
}

const fn kind(c: char) -> &'static str {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            "a character that turns the direction of text"
        }
        '\u{e0000}'..='\u{e0fff}' => "a tag character",
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => "a control character",
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => "a character for private use",
        _ => "a character without a shape",
    }
}

/// Latin letters together with Cyrillic, Greek or Armenian ones.
fn is_mixed(word: &str) -> bool {
    let count = |wanted: fn(char) -> bool| word.chars().filter(|c| wanted(*c)).count();
    let latin = count(|c| c.is_ascii_alphabetic());
    let other = count(|c| matches!(c, '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}' | '\u{530}'..='\u{58f}'));
    latin > 1 && other > 0
}

/// The longest run of such characters.
fn longest(text: &str, wanted: fn(char) -> bool) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if wanted(c) { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
