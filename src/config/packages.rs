//! Is the package or image that a command like `npx`, `uvx` or `docker run` fetches pinned to one version?

/// Programs that fetch a package and run it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registry {
    Npm,
    Python,
}

/// The runner, when this command fetches a package or an image without an exact version.
pub fn unpinned(argv: &[String]) -> Option<&'static str> {
    let program = argv.first()?.rsplit('/').next()?;
    let word = |index: usize| argv.get(index).map(String::as_str);
    if let Some(runner) = ["docker", "podman"].into_iter().find(|runner| *runner == program) {
        let skip = match (word(1), word(2)) {
            (Some("run"), _) => 2,
            (Some("container"), Some("run")) => 3,
            _ => return None,
        };
        let pinned = image(&argv[skip..]).is_some_and(is_pinned_image);
        return (!pinned).then_some(runner);
    }
    let (runner, registry, skip) = match (program, word(1), word(2)) {
        ("npx", ..) => ("npx", Registry::Npm, 1),
        ("bunx", ..) => ("bunx", Registry::Npm, 1),
        ("npm", Some("exec" | "x"), _) => ("npm exec", Registry::Npm, 2),
        ("pnpm", Some("dlx"), _) => ("pnpm dlx", Registry::Npm, 2),
        ("yarn", Some("dlx"), _) => ("yarn dlx", Registry::Npm, 2),
        ("uvx", ..) => ("uvx", Registry::Python, 1),
        ("uv", Some("tool"), Some("run")) => ("uv tool run", Registry::Python, 3),
        ("pipx", Some("run"), _) => ("pipx run", Registry::Python, 2),
        _ => return None,
    };
    let packages = packages(&argv[skip..], registry);
    let pinned = !packages.is_empty() && packages.iter().all(|package| is_pinned(package, registry));
    (!pinned).then_some(runner)
}

/// The packages that will be fetched: those named by an option, else the first word.
fn packages(words: &[String], registry: Registry) -> Vec<&str> {
    let (named, valued): (&[&str], &[&str]) = match registry {
        Registry::Npm => (&["-p", "--package"], &["-c", "--call", "-w", "--workspace", "--registry"]),
        Registry::Python => (
            &["--from", "--with", "--spec"],
            &["-p", "--python", "--index-url", "-i", "--index", "--default-index", "--extra-index-url"],
        ),
    };
    let mut found = Vec::new();
    let mut names_first = false;
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) =
            word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        if named.contains(&option) {
            // `--with` adds to what the first word names; the others replace it.
            names_first |= option != "--with";
            found.extend(value.or_else(|| words.next()));
        } else if valued.contains(&option) {
            if value.is_none() {
                words.next();
            }
        } else if !word.starts_with('-') {
            if !names_first {
                found.push(word);
            }
            break;
        }
    }
    found
}

/// The image that `docker run` with these words starts.
fn image(words: &[String]) -> Option<&str> {
    /// Options without a value.
    const SWITCHES: &[&str] = &[
        "--rm",
        "--init",
        "--interactive",
        "--tty",
        "--detach",
        "--privileged",
        "--read-only",
        "--publish-all",
        "--quiet",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--sig-proxy",
    ];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-') else { return Some(word) };
        let alone = if letters.starts_with('-') {
            word.contains('=') || SWITCHES.contains(&word)
        } else {
            // As `-it`, or with its value behind it, as `-eKEY`.
            letters.len() > 1 || letters.bytes().all(|letter| b"itdPq".contains(&letter))
        };
        if !alone {
            words.next();
        }
    }
    None
}

/// A digest is one image for ever; a tag with a version is meant to be.
fn is_pinned_image(image: &str) -> bool {
    if let Some((_, digest)) = image.rsplit_once("@sha256:") {
        return digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    // The `:` of a port stands before a `/`.
    let tag = image.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'));
    tag.is_some_and(|tag| is_exact(tag.strip_prefix('v').unwrap_or(tag), 2))
}

fn is_pinned(package: &str, registry: Registry) -> bool {
    // A path is what is on the machine.
    if package.starts_with(['.', '/']) {
        return true;
    }
    // A repository is pinned by a whole commit.
    if package.contains("://") || package.starts_with("github:") {
        return package.rsplit(['#', '@']).next().is_some_and(is_commit);
    }
    match registry {
        Registry::Npm => {
            // The `@` of a scope is the first character.
            package.rfind('@').is_some_and(|at| at > 0 && is_exact(&package[at + 1..], 3))
        }
        Registry::Python => match package.split_once("===").or_else(|| package.split_once("==")) {
            Some((_, version)) => is_exact(version.trim(), 1),
            None => package.split_once('@').is_some_and(|(_, version)| is_exact(version.trim(), 1)),
        },
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a version is exact: at least so many numbers between dots, and no range or wildcard.
fn is_exact(version: &str, least: usize) -> bool {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let release: Vec<&str> = version[..end].split('.').collect();
    let numbers =
        release.iter().take_while(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+!".contains(&byte);
    numbers.count() >= least && version.bytes().all(plain) && !release.contains(&"x")
}
