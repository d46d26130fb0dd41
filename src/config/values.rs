//! Readers of single values: what each kind of value must look like.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ipnet::IpNet;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use url::Url;

use super::Globs;
use super::problem::Place;
use super::read::{Text, suggestion};
use super::secret::{Secret, SecretBytes};
use super::tree::Node;
use super::units::{self, SIZE_HELP, Wrong};

/// Keys for sealing are at least this long.
const MIN_KEY_BYTES: usize = 32;

/// `true` or `false`.
pub(super) fn boolean(node: &Node<'_>) -> Option<bool> {
    node.boolean()
}

/// A duration, zero allowed.
pub(super) fn duration(node: &Node<'_>) -> Option<Duration> {
    if !node.is_string() {
        return node.mistyped("a duration in quotes", units::DURATION_HELP);
    }
    node.parsed(units::duration)
}

/// A duration above zero.
pub(super) fn time(node: &Node<'_>) -> Option<Duration> {
    let duration = duration(node)?;
    if duration.is_zero() { node.fail("must not be zero", "") } else { Some(duration) }
}

/// A point in time.
pub(super) fn instant(node: &Node<'_>) -> Option<SystemTime> {
    let text = node.datetime()?.to_string();
    match OffsetDateTime::parse(&text, &Rfc3339) {
        Ok(at) => Some(at.into()),
        // TOML has dates alone and times of nowhere as well.
        Err(_) => node.fail("is not a point in time", "date, time and offset, as 2027-03-31T18:00:00Z"),
    }
}

/// A size in bytes above zero.
pub(super) fn size(node: &Node<'_>) -> Option<usize> {
    let bytes = big_size(node)?;
    usize::try_from(bytes).ok().or_else(|| node.fail("is too large for this machine", ""))
}

/// A size in bytes above zero, for what is not memory of ours.
pub(super) fn big_size(node: &Node<'_>) -> Option<u64> {
    let bytes = if node.is_string() { node.parsed(units::size) } else { node.whole_or("a size", SIZE_HELP) }?;
    if bytes == 0 { node.fail("must not be zero", "") } else { Some(bytes) }
}

/// A whole number from 0.
pub(super) fn count(node: &Node<'_>) -> Option<usize> {
    // Semaphores and channels of the runtime take a few bits less than a `usize`.
    let most = u32::MAX as usize;
    let number = usize::try_from(node.whole()?).unwrap_or(usize::MAX);
    if number > most { node.fail(format!("must be at most {most}"), "") } else { Some(number) }
}

/// A whole number from 1.
pub(super) fn number(node: &Node<'_>) -> Option<usize> {
    let number = count(node)?;
    if number == 0 { node.fail("must not be zero", "") } else { Some(number) }
}

/// A whole number from 1, for what is not memory of ours.
pub(super) fn big_number(node: &Node<'_>) -> Option<u64> {
    let number = node.whole()?;
    if number == 0 { node.fail("must not be zero", "") } else { Some(number) }
}

/// A whole number between two bounds, both included.
pub(super) fn between(least: usize, most: usize) -> impl Fn(&Node<'_>) -> Option<usize> {
    move |node| {
        let number = count(node)?;
        if (least..=most).contains(&number) {
            Some(number)
        } else {
            node.fail(format!("must be between {least} and {most}"), "")
        }
    }
}

/// One of a few words.
pub(super) fn choice<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Node<'_>) -> Option<T> {
    move |node| {
        let text = node.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(*value);
        }
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let quoted: Vec<String> = all.iter().map(|word| format!("{word:?}")).collect();
        let help = if text.literal { suggestion(&text.value, &all) } else { String::new() };
        node.fail(format!("must be one of {}", quoted.join(", ")), &help.replace("known key", "word"))
    }
}

/// Any text, several lines too.
pub(super) fn text(node: &Node<'_>) -> Option<String> {
    node.text().map(|text| text.value)
}

/// Text of one line with something in it.
pub(super) fn line(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        if text.trim().is_empty() {
            Err(Wrong::new("is empty", ""))
        } else if text.chars().any(char::is_control) {
            Err(Wrong::new("holds a line break or another control character", ""))
        } else {
            Ok(text.to_owned())
        }
    })
}

/// Like [`line`], with where it is and whether it may be shown.
pub(super) fn line_with_place(node: &Node<'_>) -> Option<(Text, Place)> {
    line(node)?;
    Some((node.text()?, node.place()))
}

/// Like [`text`], with where it is and whether it may be shown.
pub(super) fn text_with_place(node: &Node<'_>) -> Option<(Text, Place)> {
    Some((node.text()?, node.place()))
}

/// Several strings of one line, with where each is.
pub(super) fn lines_with_place(node: &Node<'_>) -> Option<Vec<(Text, Place)>> {
    each(node, "an array of strings", line_with_place)
}

/// Reads every element, so that each wrong one is reported; one wrong makes the whole wrong.
pub(super) fn each<T>(
    node: &Node<'_>,
    wanted: &str,
    read: impl Fn(&Node<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let read: Vec<Option<T>> = node.elements(wanted, "")?.iter().map(read).collect();
    read.into_iter().collect()
}

/// A file or folder; relative ones are under the folder of the file it is written in.
pub(super) fn path(node: &Node<'_>) -> Option<PathBuf> {
    Some(node.dir().join(line(node)?))
}

/// An IP address and a port.
pub(super) fn address(node: &Node<'_>) -> Option<SocketAddr> {
    node.parsed(|text| {
        text.parse().map_err(|_| {
            Wrong::new("is not an IP address and a port", "as \"127.0.0.1:8080\", or \"[::]:8080\" for IPv6")
        })
    })
}

/// A network, or one address.
pub(super) fn network(node: &Node<'_>) -> Option<IpNet> {
    node.parsed(|text| {
        let one = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        let network = text.parse::<IpNet>().map(|network| network.trunc()).or_else(|_| one());
        network.map_err(|_| {
            Wrong::new(
                "is not a network",
                "as \"10.0.0.0/8\" or \"fd00::/8\", or one address as \"10.1.2.3\"",
            )
        })
    })
}

/// An array of globs.
pub(super) fn globs(node: &Node<'_>) -> Option<Globs> {
    let patterns = each(node, "an array of globs", glob)?.into_iter().map(|(text, _)| text.value).collect();
    // Each pattern has been compiled alone; what is left is that together they are too big.
    Globs::new(patterns).map_or_else(|_| node.fail("these globs are too large together", ""), Some)
}

/// An array of globs, with where each is.
pub(super) fn globs_with_place(node: &Node<'_>) -> Option<(Globs, Vec<(Text, Place)>)> {
    let patterns = each(node, "an array of globs", glob)?;
    let globs = Globs::new(patterns.iter().map(|(text, _)| text.value.clone()).collect());
    globs
        .map_or_else(|_| node.fail("these globs are too large together", ""), |globs| Some((globs, patterns)))
}

fn glob(node: &Node<'_>) -> Option<(Text, Place)> {
    let (text, place) = line_with_place(node)?;
    match Globs::new(vec![text.value.clone()]) {
        Ok(_) => Some((text, place)),
        Err(error) => {
            // The reason can quote the pattern, which is only shown when it stands in the file.
            let why = if text.literal { format!(": {}", error.kind()) } else { String::new() };
            node.fail(format!("{} is not a glob{why}", text.shown()), "")
        }
    }
}

/// An `http` or `https` URL with a host. Never shown: URLs hold tokens more often than one thinks.
pub(super) fn http_url(node: &Node<'_>) -> Option<Url> {
    node.parsed_secret(|text| {
        let url = url_of(text, &["http", "https"])?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Wrong::new(
                "holds a user name or password",
                "use credentials with `kind = \"basic\"`",
            ));
        }
        Ok(url)
    })
}

/// An `http` or `https` URL of scheme, host and port only.
pub(super) fn origin_url(node: &Node<'_>) -> Option<Url> {
    let url = http_url(node)?;
    if url.path() != "/" || url.query().is_some() {
        return node.fail(
            "must have neither path nor query",
            "scheme, host and port, as \"https://mcp.example.com\"",
        );
    }
    Some(url)
}

/// The URL of an HTTP proxy; it may hold a user name and password.
pub(super) fn proxy_url(node: &Node<'_>) -> Option<Url> {
    node.parsed_secret(|text| {
        let url = url_of(text, &["http"])?;
        if url.path() != "/" || url.query().is_some() {
            return Err(Wrong::new("must have neither path nor query", "as \"http://proxy.internal:3128\""));
        }
        Ok(url)
    })
}

fn url_of(text: &str, schemes: &[&str]) -> Result<Url, Wrong> {
    let url = Url::parse(text).map_err(|error| Wrong::new(format!("is not a URL: {error}"), ""))?;
    if !schemes.contains(&url.scheme()) {
        return Err(Wrong::new(format!("must begin with {}://", schemes.join(":// or ")), ""));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(Wrong::new("has no host", ""));
    }
    if url.fragment().is_some() {
        return Err(Wrong::new("must not have a fragment (`#…`)", ""));
    }
    Ok(url)
}

/// A secret of one line that can travel in a header.
pub(super) fn header_secret(node: &Node<'_>) -> Option<Secret> {
    node.parsed_secret(|text| {
        header_value(text)?;
        Ok(Secret::new(text))
    })
}

fn header_value(text: &str) -> Result<(), Wrong> {
    let wrong = |what: &str| Err(Wrong::new(what, ""));
    if text.is_empty() {
        wrong("is empty")
    } else if text.contains(['\r', '\n']) {
        wrong("holds a line break")
    } else if !text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
        wrong("holds a character that cannot stand in a header")
    } else if text.trim() != text {
        wrong("begins or ends with white space")
    } else {
        Ok(())
    }
}

/// A bearer token: a header's value without white space.
pub(super) fn token(node: &Node<'_>) -> Option<Secret> {
    node.parsed_secret(|text| {
        header_value(text)?;
        if text.contains([' ', '\t']) {
            return Err(Wrong::new("holds white space", "the token alone, without `Bearer`"));
        }
        Ok(Secret::new(text))
    })
}

/// Half of HTTP basic credentials.
pub(super) fn basic_part(node: &Node<'_>) -> Option<Secret> {
    node.parsed_secret(|text| {
        if text.is_empty() {
            Err(Wrong::new("is empty", ""))
        } else if text.chars().any(char::is_control) {
            Err(Wrong::new("holds a line break or another control character", ""))
        } else {
            Ok(Secret::new(text))
        }
    })
}

/// Text for a child process: anything but NUL.
pub(super) fn child_text(node: &Node<'_>) -> Option<Secret> {
    node.parsed_secret(|text| {
        if text.contains('\0') { Err(Wrong::new("holds a NUL character", "")) } else { Ok(Secret::new(text)) }
    })
}

/// Base64 (either alphabet, padded or not) of a long enough key.
pub(super) fn sealing_key(node: &Node<'_>) -> Option<SecretBytes> {
    node.parsed_secret(|text| {
        let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let alphabet = if text.contains(['-', '_']) { alphabet::URL_SAFE } else { alphabet::STANDARD };
        let help = "make one with `openssl rand -base64 32`";
        let bytes = GeneralPurpose::new(&alphabet, config)
            .decode(text)
            .map_err(|_| Wrong::new("is not base64", help))?;
        if bytes.len() < MIN_KEY_BYTES {
            return Err(Wrong::new(format!("is shorter than {MIN_KEY_BYTES} bytes"), help));
        }
        Ok(SecretBytes::new(bytes))
    })
}
