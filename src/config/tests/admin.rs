//! `[admin]` (design §3, §8).

use super::{config, problem, refuses};

#[test]
fn the_status_page_has_a_token_only_if_one_is_written() {
    assert_eq!(config("").admin.token, None);
    assert_eq!(config("[admin]").admin.token, None);
    let text = "[admin]\ntoken = \"0123456789abcdef\"";
    assert_eq!(config(text).admin.token.unwrap().expose(), "0123456789abcdef");
    assert!(!format!("{:?}", config(text)).contains("0123456789"));
}

#[test]
fn a_token_that_could_be_guessed_or_not_be_sent_is_refused() {
    refuses("[admin]\ntoken = \"0123456789abcde\"", 2, "admin.token", "could be guessed");
    refuses("[admin]\ntoken = \"\"", 2, "admin.token", "is empty");
    refuses("[admin]\ntoken = \"0123456789 abcdef\"", 2, "admin.token", "without spaces");
    refuses("[admin]\ntoken = \"0123456789abcdéf\"", 2, "admin.token", "ASCII");
    refuses("[admin]\ntokens = \"0123456789abcdef\"", 2, "admin.tokens", "`token`");
    // Neither is the value shown (`problems` looks for it).
    problem("[admin]\ntoken = \"${TOKEN}\"");
}
