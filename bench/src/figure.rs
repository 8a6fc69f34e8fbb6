//! A figure with its target.

use std::fmt;

use serde::Serialize;

/// One figure of a report.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// In kebab case.
    pub name: String,
    /// The median over the runs.
    pub value: f64,
    /// The smallest value of the runs.
    pub min: f64,
    /// The largest value of the runs.
    pub max: f64,
    /// For example `s`; `ratio` for a figure without a unit.
    pub unit: &'static str,
    /// The target; absent for figures that only help to read the others.
    pub target: Option<Target>,
}

/// A target of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// At least.
    AtLeast(f64),
    /// More than.
    Above(f64),
    /// At most.
    AtMost(f64),
    /// Exactly.
    Exactly(f64),
}

/// Returns the quantile of sorted values; the default where there are none.
pub fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Figure {
    /// Builds a figure of one value for each run; none where there are no runs.
    pub fn of(name: &str, unit: &'static str, runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let (low, high) = (sorted.get(middle.saturating_sub(1 - sorted.len() % 2))?, sorted.get(middle)?);
        Some(Self { name: name.to_owned(), value: f64::midpoint(*low, *high), min, max, unit, target: None })
    }

    /// Sets the target.
    #[must_use]
    pub fn target(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    /// Whether the target is met.
    pub fn is_met(&self) -> bool {
        // Rounded as it is printed, so that a line never contradicts itself.
        let value = (self.value * 1000.0).round() / 1000.0;
        match self.target {
            None => true,
            Some(Target::AtLeast(target)) => value >= target,
            Some(Target::Above(target)) => value > target,
            Some(Target::AtMost(target)) => value <= target,
            Some(Target::Exactly(target)) => value == target,
        }
    }

    /// Returns the range of the runs' values.
    pub fn range(&self) -> String {
        format!("{}..{}", short(self.min), short(self.max))
    }
}

/// Writes the line that scripts read.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.target.is_some() { "figure" } else { "fact" };
        write!(f, "{word} {} {} {}", self.name, short(self.value), self.unit)?;
        if let Some(target) = self.target {
            write!(f, " target {target} {}", if self.is_met() { "ok" } else { "short" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, value) = match self {
            Self::AtLeast(value) => (">=", value),
            Self::Above(value) => (">", value),
            Self::AtMost(value) => ("<=", value),
            Self::Exactly(value) => ("=", value),
        };
        write!(f, "{operator} {}", short(*value))
    }
}

/// Formats a number with three decimals at most, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_figure_value_unit_target_and_whether_it_is_met() {
        let figure = Figure::of("cold-start", "ratio", &[0.9, 0.8, 1.0]).unwrap().target(Target::AtLeast(0.85));
        assert_eq!(figure.to_string(), "figure cold-start 0.9 ratio target >= 0.85 ok");
        assert_eq!(figure.range(), "0.8..1");
        assert!(!figure.target(Target::AtMost(0.85)).is_met());
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!(Figure::of("a", "s", &[1.0, 2.0]).unwrap().value, 1.5);
        assert_eq!(Figure::of("a", "s", &[3.0]).unwrap().value, 3.0);
        assert!(Figure::of("a", "s", &[]).is_none());
    }
}
