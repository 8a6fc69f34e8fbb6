//! Parsing of quantities, to compare them.

/// Parses a quantity into billionths, the precision of Kubernetes; absent where the text is not a quantity.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let scale = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let digits = u32::try_from(fraction.len()).ok()?;
    mantissa.checked_mul(scale)?.checked_div(10_i128.checked_pow(digits)?)
}

/// Returns the factor of a suffix, in billionths.
fn scale(suffix: &str) -> Option<i128> {
    const ONE: i128 = 1_000_000_000;
    let binary = |power: u32| ONE.checked_mul(1024_i128.checked_pow(power)?);
    let decimal = |power: i32| match u32::try_from(power) {
        Ok(power) => ONE.checked_mul(10_i128.checked_pow(power)?),
        Err(_) => Some(ONE / 10_i128.checked_pow(power.unsigned_abs())?),
    };
    match suffix {
        "" => Some(ONE),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|power| (-9..=18).contains(power))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_quantities_are_equal_however_they_are_written() {
        for (a, b) in [
            ("1Gi", "1024Mi"),
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1E", "1e18"),
            ("+2", "2"),
        ] {
            assert!(parse(a).is_some(), "{a}");
            assert_eq!(parse(a), parse(b), "{a} {b}");
        }
        assert!(parse("999Mi") < parse("1Gi"));
        assert!(parse("1G") < parse("1Gi"));
    }

    #[test]
    fn a_text_that_is_no_quantity_has_no_value() {
        for text in ["", "Gi", "1gi", "1.2.3", "one", "1e", "1e99", "--1", "9999999999999999999999999999999999999999E"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
