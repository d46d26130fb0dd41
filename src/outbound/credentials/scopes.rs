//! Lists of scopes, as servers write them and as they are asked for (A-39, RFC 6749 §3.3).

/// Scopes that are asked for together; a server that wants more wants to be a nuisance.
const MOST: usize = 64;
/// Letters of one scope.
const LONGEST: usize = 256;

/// The scopes of a text; none if one of them is no scope, or there are too many.
pub(super) fn words(text: &str) -> Vec<String> {
    checked(text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// These scopes, unless one of them is none, or there are too many.
pub(super) fn checked(scopes: Vec<String>) -> Vec<String> {
    let fine = scopes.len() <= MOST && scopes.iter().all(|scope| is_scope(scope));
    if fine { scopes } else { Vec::new() }
}

fn is_scope(scope: &str) -> bool {
    let letter = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !scope.is_empty() && scope.len() <= LONGEST && scope.bytes().all(letter)
}

/// Those of both, each once, in this order; the first alone where both together are too many.
pub(super) fn union(first: &[String], second: &[String]) -> Vec<String> {
    let mut all = first.to_vec();
    for scope in second {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    if all.len() <= MOST { all } else { first.to_vec() }
}

/// Whether all of these are among those.
pub(super) fn within(these: &[String], those: &[String]) -> bool {
    these.iter().all(|scope| those.contains(scope))
}
