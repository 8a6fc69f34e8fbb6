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
    /// The least of the runs.
    pub min: f64,
    /// The most of the runs.
    pub max: f64,
    /// For example `s`; `ratio` where it has none.
    pub unit: &'static str,
    /// What it should be; none for what only helps to read the others.
    pub target: Option<Target>,
}

/// What a figure should be.
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

/// So large a share of these, which are sorted, is no larger; nothing of nothing.
pub fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Figure {
    /// The median of these, one of each run; none where there are none.
    pub fn of(name: &str, unit: &'static str, runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let (low, high) = (sorted.get(middle.saturating_sub(1 - sorted.len() % 2))?, sorted.get(middle)?);
        Some(Self { name: name.to_owned(), value: f64::midpoint(*low, *high), min, max, unit, target: None })
    }

    /// With a target.
    #[must_use]
    pub fn target(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    /// Whether it is as it should be.
    pub fn is_met(&self) -> bool {
        // What is printed is what is judged.
        let value = (self.value * 1000.0).round() / 1000.0;
        match self.target {
            None => true,
            Some(Target::AtLeast(target)) => value >= target,
            Some(Target::Above(target)) => value > target,
            Some(Target::AtMost(target)) => value <= target,
            Some(Target::Exactly(target)) => value == target,
        }
    }

    /// What the runs ranged over.
    pub fn range(&self) -> String {
        format!("{}..{}", short(self.min), short(self.max))
    }
}

/// The line that machines read.
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

/// As many digits as mean something, and no blank zeros.
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
