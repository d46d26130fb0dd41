//! What of a client's file could be a secret. Rather one variable too many than one secret in a file.

/// Parts of names of secrets, wherever they stand in a name.
const SECRETIVE: &[&str] = &[
    "token",
    "secret",
    "passw",
    "passphrase",
    "apikey",
    "accesskey",
    "credential",
    "authorization",
    "bearer",
    "cookie",
    "private",
    "webhook",
    "connectionstring",
    "licen",
];
/// Whole words of such names.
const SECRETIVE_WORDS: &[&str] = &[
    "key",
    "keys",
    "pass",
    "pwd",
    "auth",
    "dsn",
    "jwt",
    "pat",
    "sig",
    "signature",
    "session",
    "cert",
    "code",
    "sas",
];

/// Whether what has this name (of a variable, header, option or query parameter) could be a secret.
pub(super) fn secretive(name: &str) -> bool {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut lower_before = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && lower_before) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        lower_before = c.is_ascii_lowercase();
    }
    words.push(word);
    let whole = words.concat();
    SECRETIVE.iter().any(|part| whole.contains(part))
        || words.iter().any(|word| SECRETIVE_WORDS.contains(&word.as_str()))
}

/// Whether a value is plainly a setting: a switch, a number, a path, an address, a few words.
pub(super) fn harmless(value: &str) -> bool {
    let value = value.trim();
    if random(value) {
        return false;
    }
    if let Some((scheme, rest)) = value.split_once("://") {
        let plain = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        return plain && !rest.contains(['@', '?', '#', ' ']);
    }
    let path =
        value.starts_with(['/', '~', '.']) || value.get(1..3).is_some_and(|at| at == ":\\" || at == ":/");
    if path {
        return !value.contains('@');
    }
    let word = |word: &str| {
        word.len() <= 24
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/@".contains(&byte))
            && word.bytes().filter(u8::is_ascii_digit).count() <= 6
    };
    value.split([',', ' ']).all(word) && value.len() <= 200
}

/// Whether some part of a text looks made at random: long, of letters and digits, with no order in it.
pub(super) fn random(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=');
    text.split(|c| !inside(c)).any(is_random)
}

fn is_random(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let mixed = word.bytes().any(|b| b.is_ascii_lowercase()) && word.bytes().any(|b| b.is_ascii_uppercase());
    word.len() >= 16 && letters >= 2 && (digits >= 3 || (mixed && word.len() >= 24)) && entropy(word) >= 3.0
}

/// Shannon's entropy, in bits a byte.
fn entropy(word: &str) -> f64 {
    let mut counts = [0_u32; 256];
    word.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = word.len() as f64;
    let share = |count: &u32| f64::from(*count) / total;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}
