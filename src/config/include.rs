//! Which files `include` means: globs relative to the including file, by name.

use std::io;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// Why an `include` cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncludeError {
    /// A folder on the way cannot be listed.
    #[error("the folder cannot be listed: {}", .0.kind())]
    List(#[from] io::Error),
    /// A part is not a glob.
    #[error("is not a glob")]
    Glob(#[from] globset::Error),
    /// `**`
    #[error("`**` is not supported, one `*` stands for one folder")]
    Deep,
}

/// The files a pattern means, by name. A pattern without wildcards means one file, whether it is there or not.
/// `listed` is told of every folder that was looked through.
pub(super) fn matches(
    dir: &Path,
    pattern: &str,
    listed: &mut dyn FnMut(&Path),
) -> Result<Vec<PathBuf>, IncludeError> {
    let mut found = vec![dir.to_path_buf()];
    let mut wild = false;
    for component in Path::new(pattern).components() {
        let Component::Normal(part) = component else {
            // A root replaces what is before it; `..` and `.` go where they say.
            found = found.iter().map(|path| path.join(component)).collect();
            continue;
        };
        let part = part.to_string_lossy();
        if part == "**" {
            return Err(IncludeError::Deep);
        }
        if part.contains(['*', '?', '[', '{']) {
            wild = true;
            found.iter().for_each(|folder| listed(folder));
            found = step(&found, &part)?;
        } else {
            found = found.iter().map(|path| path.join(&*part)).collect();
        }
    }
    if wild {
        found.retain(|path| path.is_file());
    }
    Ok(found)
}

/// The entries of some folders whose names match, hidden ones only if the pattern says so.
fn step(folders: &[PathBuf], part: &str) -> Result<Vec<PathBuf>, IncludeError> {
    let matcher = GlobBuilder::new(part).build()?.compile_matcher();
    let hidden = part.starts_with('.');
    let mut found = Vec::new();
    for folder in folders.iter().filter(|path| folders.len() == 1 || path.is_dir()) {
        list(folder, &matcher, hidden, &mut found)?;
    }
    Ok(found)
}

fn list(folder: &Path, matcher: &GlobMatcher, hidden: bool, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut names = Vec::new();
    for entry in listed.read_dir()? {
        let name = entry?.file_name();
        if matcher.is_match(&name) && (hidden || !name.as_encoded_bytes().starts_with(b".")) {
            names.push(name);
        }
    }
    names.sort();
    found.extend(names.into_iter().map(|name| folder.join(name)));
    Ok(())
}
