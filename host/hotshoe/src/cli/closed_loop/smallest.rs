//! The smallest start from which a property does not hold, as a case.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::follow::{Broken, Followed, Property, from_nothing, limit};
use super::rounds::Plugin;
use crate::cli::api_server::ApiServer;
use crate::cli::schema::smaller;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::cases::{Case, CaseOutcome, Steady};

/// The maximum number of smaller starts that are tried. Each is followed, and its children are lost one by one.
const MAX_TRIED: usize = 500;
/// The time after which no smaller start is tried. One of Memcached takes about 5 ms.
const MAX_TIME: Duration = Duration::from_secs(10);

/// A start from which a property does not hold.
pub(super) struct Smallest {
    /// With the present answer as the expected one.
    pub(super) case: Case,
    pub(super) broken: Broken,
}

/// Tries starts whether they break one property.
struct Search<'a, 's> {
    property: Property,
    plugin: Plugin<'a>,
    api_server: &'s mut ApiServer<'a>,
    tries_left: usize,
    end: Instant,
}

/// Searches the smallest start that breaks the same property as a case does. None if the case alone does, together with
/// what was followed before it.
pub(super) async fn search<'a>(
    case: &Case,
    broken: &Broken,
    plugin: Plugin<'a>,
    api_server: &mut ApiServer<'a>,
) -> Option<Smallest> {
    let end = Instant::now() + MAX_TIME;
    let mut search = Search { property: broken.property, plugin, api_server, tries_left: MAX_TRIED, end };
    let start = if broken.from_nothing { from_nothing(case) } else { case.clone() };
    let within = limit(case).try_into().ok()?;
    let start = Case { steady: Some(Steady { within }), expect: None, ..start };
    let mut smallest = search.tried(start).await?;
    while let Some(smaller) = search.smaller(&smallest.case).await {
        smallest = smaller;
    }
    Some(smallest)
}

impl Search<'_, '_> {
    /// Returns the first of the smaller starts that breaks the property.
    async fn smaller(&mut self, start: &Case) -> Option<Smallest> {
        let schema = self.api_server.schema_of(&start.parent);
        let parents = schema.into_iter().flat_map(|schema| smaller::objects(schema, &start.parent));
        let with_smaller_parent = parents.map(|parent| Case { parent, ..start.clone() });
        for smaller in with_less_around(start).chain(with_smaller_parent) {
            if self.tries_left == 0 || Instant::now() >= self.end {
                return None;
            }
            self.tries_left -= 1;
            let smaller = self.tried(Case { expect: None, ..smaller }).await;
            if smaller.is_some() {
                return smaller;
            }
        }
        None
    }

    /// Follows a start; none if it does not break the property, or its parent cannot be stored.
    async fn tried(&mut self, start: Case) -> Option<Smallest> {
        let shown = self.api_server.as_shown(&start);
        let broken = Followed::default().follow(&shown, self.plugin).await?;
        if broken.property != self.property {
            return None;
        }
        let refused = self.api_server.refused(&start.parent, None).await.is_some_and(|problems| !problems.is_empty());
        if refused && start.valid {
            return None;
        }
        let CaseOutcome::Differs { actual } = start.run(self.plugin.revision).await.verdict else { return None };
        let expect: Option<Expect> = Some(*actual);
        Some(Smallest { case: Case { expect, ..start }, broken })
    }
}

/// Returns starts in which one thing less is there beside the parent, or its status is not.
fn with_less_around(start: &Case) -> impl Iterator<Item = Case> {
    let children = (0..start.children.len()).map(|place| {
        let mut smaller = start.clone();
        smaller.children.remove(place);
        smaller
    });
    let refusals = (0..start.refusals.len()).map(|place| {
        let mut smaller = start.clone();
        smaller.refusals.remove(place);
        smaller
    });
    let places =
        |(key, objects): (&'_ String, &Vec<Value>)| (0..objects.len()).map(|place| (key.clone(), place)).collect();
    let related = start.related.iter().flat_map(places as fn(_) -> Vec<_>).map(|(key, place)| {
        let mut smaller = start.clone();
        smaller.related.entry(key).and_modify(|objects| drop(objects.remove(place)));
        smaller.related.retain(|_, objects| !objects.is_empty());
        smaller
    });
    let mut without_status = start.clone();
    let status = without_status.parent.as_object_mut().and_then(|parent| parent.remove("status"));
    children.chain(refusals).chain(related).chain(status.map(|_| without_status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_start_lacks_one_child_one_refusal_one_related_object_or_the_status() {
        let start = "name: a\nparent: {spec: {}, status: {ready: 1}}\nchildren: [{a: 1}, {b: 2}]\n\
             refusals: [{version: v1, kind: A, name: a, code: 403, reason: Forbidden, message: no}]\n\
             related: {one: [{c: 3}], two: [{d: 4}, {e: 5}]}\n";
        let start = Case::from_yaml(start).unwrap();
        let all: Vec<Case> = with_less_around(&start).collect();
        let sizes = |case: &Case| {
            let related: usize = case.related.values().map(Vec::len).sum();
            (case.children.len(), case.refusals.len(), related, case.parent.get("status").is_some())
        };
        let mut expected = vec![(1, 1, 3, true); 2];
        expected.push((2, 0, 3, true));
        expected.extend([(2, 1, 2, true); 3]);
        expected.push((2, 1, 3, false));
        assert_eq!(all.iter().map(sizes).collect::<Vec<_>>(), expected);
        assert!(all.iter().any(|case| !case.related.contains_key("one")));
    }
}
