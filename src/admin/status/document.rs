//! The page as one document, and the policy under which only this very document works.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The document.
pub(super) static PAGE: LazyLock<String> =
    LazyLock::new(|| FRAME.replacen("/*style*/", STYLE, 1).replacen("/*script*/", SCRIPT, 1));

/// Its `Content-Security-Policy`: this style and this script, requests to where it came from, and nothing else.
pub(super) static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())));
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    HeaderValue::from_str(&policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

#[cfg(test)]
mod tests {
    use super::{FRAME, PAGE, SCRIPT, STYLE};

    #[test]
    fn the_document_is_whole_and_what_is_hashed_is_what_stands_in_it() {
        assert_eq!((FRAME.matches("/*style*/").count(), FRAME.matches("/*script*/").count()), (1, 1));
        assert!(PAGE.contains(&format!("<style>{STYLE}</style>")));
        assert!(PAGE.contains(&format!("<script>{SCRIPT}</script>")));
        // Otherwise it would end within.
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</"));
    }

    #[test]
    fn the_page_has_no_way_to_take_text_for_markup() {
        for way in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc"]
        {
            assert!(!SCRIPT.contains(way), "{way}");
        }
        for elsewhere in ["http://", "https://", "//cdn", "@import", "url("] {
            let own = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!own.contains(elsewhere), "{elsewhere}");
        }
    }
}
