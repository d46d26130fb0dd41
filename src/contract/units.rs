//! Units in the words of a description: a number keeps its type when its unit changes, and means something else.

/// Words of one dimension: the word as it is said, and what else means it.
type Dimension = &'static [(&'static str, &'static [&'static str])];

const DIMENSIONS: [Dimension; 8] = [
    &[
        ("nanoseconds", &["nanosecond", "ns"]),
        ("microseconds", &["microsecond", "us", "µs"]),
        ("milliseconds", &["millisecond", "ms", "millis"]),
        ("seconds", &["second", "secs", "sec"]),
        ("minutes", &["minute", "mins", "min"]),
        ("hours", &["hour", "hrs"]),
        ("days", &["day"]),
        ("weeks", &["week"]),
    ],
    &[
        ("bytes", &["byte"]),
        ("kilobytes", &["kilobyte", "kb", "kib"]),
        ("megabytes", &["megabyte", "mb", "mib"]),
        ("gigabytes", &["gigabyte", "gb", "gib"]),
    ],
    &[
        ("metres", &["metre", "meters", "meter"]),
        ("kilometres", &["kilometre", "kilometers", "kilometer", "km"]),
        ("miles", &["mile"]),
        ("feet", &["foot", "ft"]),
        ("millimetres", &["millimetre", "millimeters", "millimeter", "mm"]),
        ("centimetres", &["centimetre", "centimeters", "centimeter", "cm"]),
        ("inches", &["inch"]),
    ],
    &[("celsius", &["°c"]), ("fahrenheit", &["°f"]), ("kelvin", &[])],
    &[("cents", &["cent"]), ("euros", &["euro", "eur", "€"]), ("dollars", &["dollar", "usd", "$"])],
    &[
        ("grams", &["gram", "g"]),
        ("kilograms", &["kilogram", "kg"]),
        ("pounds", &["pound", "lbs", "lb"]),
        ("ounces", &["ounce", "oz"]),
    ],
    &[("degrees", &["degree"]), ("radians", &["radian", "rad"])],
    &[("percent", &["%", "percentage"]), ("fraction", &["ratio"])],
];

/// Of each dimension that both texts name exactly one unit of: the two, where they differ.
pub(super) fn changed(old: &str, new: &str) -> Option<(&'static str, &'static str)> {
    let (old, new) = (words(old), words(new));
    DIMENSIONS.iter().find_map(|dimension| match (only(dimension, &old), only(dimension, &new)) {
        (Some(before), Some(after)) if before != after => Some((before, after)),
        _ => None,
    })
}

fn words(text: &str) -> Vec<String> {
    let split = |c: char| !(c.is_alphanumeric() || matches!(c, '%' | '$' | '€' | '°'));
    text.to_lowercase().split(split).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The one unit of a dimension that is named, if it is one.
fn only(dimension: Dimension, words: &[String]) -> Option<&'static str> {
    let named = |(unit, others): &&(&'static str, &'static [&'static str])| {
        words.iter().any(|word| word == unit || others.contains(&word.as_str()))
    };
    let mut found = dimension.iter().filter(named);
    match (found.next(), found.next()) {
        (Some((unit, _)), None) => Some(unit),
        _ => None,
    }
}
