//! Back from the revision that decides to one that did: by verdict, for the new one does worse, or because a
//! person says so. And what is told of a component afterwards that is not taken again by itself.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crate::reconcile::slot::Refused;
use crate::reconcile::views::Views;
use crate::rollout::history::{Event, History};
use crate::rollout::install::{Start, waits};
use crate::rollout::managed_plugin::Supervised;
use crate::sandbox::error::LoadError;
use crate::sandbox::revision::Revision;
use crate::shadow::impact;
use crate::telemetry::swap_timer::Stopwatch;
use hotshoe_core::flow::probation::Relapse;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::object::Key;

/// How long going back may take: shorter than the patience of whoever asked for it, and files wait meanwhile.
const WAY_BACK: Duration = Duration::from_secs(50);
/// Why a component does not decide again that did.
const NOT_KEPT: &str = "it is not kept any more; build it again and reload it (`hotshoe history` shows what is kept)";

impl Supervised {
    /// Goes back from the revision that decides, which is not taken again by itself. Where that is not
    /// possible now, it is tried again while that one goes on doing worse. The file holds what was `offered`
    /// last.
    pub(crate) async fn take_back(self: Arc<Self>, relapse: Relapse, offered: Option<Digest>) {
        let Some(bad) = self.controller.logic().map(|logic| logic.revision.clone()) else { return };
        let (plugin, Relapse { why, failed_on }) = (&*self.controller.name, relapse);
        let before = match self.predecessor(bad.digest()).await {
            Ok(before) => before,
            Err(lost) => {
                tracing::error!(plugin, digest = %bad.digest(), "{why}; but {lost}");
                return self.controller.probation.resume(std::time::Instant::now());
            }
        };
        if self.fails_alike(&before, &failed_on).await {
            tracing::warn!(plugin, digest = %bad.digest(), before = %before.digest(), "{why}; but the one before it fails on the same objects, so it goes on");
            return self.controller.probation.excuse();
        }
        let error = LoadError::TakenBack(why.clone());
        let is_noted = self.history().taken_back(bad.digest()).is_some();
        if !is_noted {
            self.note(&bad, Event::TakenBack, &why).await;
        }
        let (place, way) = (format!("in the place of {}", bad.digest()), (Some(bad.digest()), before.digest()));
        let refused = self.controller.slot.refused();
        let _under_way = self.begin(before.digest());
        match self.in_time(self.install(before, None, Start::Return(&place), Stopwatch::start())).await {
            Ok(()) => {
                self.refuse(Some(bad.digest()), &error);
                self.say_what_still_is_refused(offered, way, refused);
            }
            Err(failed) => {
                tracing::error!(plugin, digest = %bad.digest(), "{error}; but the one before it cannot be taken either: {failed}");
                self.controller.probation.resume(std::time::Instant::now());
            }
        }
    }

    /// The one that decided before this one: from memory, or as it is kept.
    async fn predecessor(&self, bad: Digest) -> Result<Arc<Revision>, String> {
        if let Some(before) = self.state.lock().before.clone() {
            return Ok(before);
        }
        let earlier = self.history().before(Some(bad));
        let lost = "no component that decided before it is kept; build an earlier one again";
        let kept = self.kept(*earlier.first().ok_or(lost)?).await.ok_or(lost)?;
        let (shared, plugin) = (&self.shared, self.plugin());
        let loaded = Revision::load(&shared.engine, &shared.compiler, kept, plugin.limits.clone()).await;
        let loaded = loaded.map_err(|error| format!("the one before it cannot be loaded: {error}"))?;
        Ok(loaded.revision)
    }

    /// Whether a revision fails on the same parents: it would not do better.
    async fn fails_alike(&self, before: &Arc<Revision>, failed_on: &[Key]) -> bool {
        if failed_on.is_empty() {
            return false;
        }
        let plugin = self.plugin();
        let views = Views::under(self.shared.watches.clone(), self.candidate_name());
        let asked = async {
            let before = before.under(&plugin.limits);
            let logic = views.open(&self.controller, plugin, before, &[]).await.ok()?;
            Some(impact::fails_on_all(&self.controller, &logic, failed_on).await)
        };
        tokio::time::timeout(WAY_BACK, asked).await.ok().flatten().unwrap_or(false)
    }

    /// A way back that takes no longer than what waits for it may have to wait.
    pub(crate) async fn in_time<E: Display>(&self, back: impl Future<Output = Result<(), E>>) -> Result<(), String> {
        // It stays until it is said what it waits for.
        let mut back = std::pin::pin!(back);
        match tokio::time::timeout(WAY_BACK, &mut back).await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it is not ready after {WAY_BACK:?}: {}", self.awaited())),
        }
    }

    /// Which revision is meant by this beginning of a digest; the last one before the present where none
    /// is given.
    ///
    /// # Errors
    /// Why there is none to go back to, for whoever asked.
    pub(crate) fn earlier(&self, to: Option<&str>) -> Result<Digest, String> {
        let present = self.controller.logic().map(|logic| logic.revision.digest());
        let earlier = match to {
            Some(prefix) => self.history().find_decided(prefix)?,
            None => {
                // Just after a start, none decides yet.
                let history = self.history();
                let before = history.before(present.or_else(|| history.current()));
                drop(history);
                last_at_hand(&before, |earlier| self.is_at_hand(earlier))?
            }
        };
        if present == Some(earlier) {
            return Err(format!("{earlier} decides already"));
        }
        Ok(earlier)
    }

    /// Whether a component that decided earlier is kept, on the disk or in memory.
    pub(crate) fn is_at_hand(&self, digest: Digest) -> bool {
        self.history().is_kept(digest) || self.in_memory(digest).is_some()
    }

    /// The revision that decided before the present one, if it is this.
    fn in_memory(&self, digest: Digest) -> Option<Arc<Revision>> {
        self.state.lock().before.clone().filter(|before| before.digest() == digest)
    }

    /// Has an earlier revision decide, from what is kept of it, or else as it is in memory.
    async fn take_again(&self, target: Digest, start: Start<'_>) -> Result<(), String> {
        let in_words = |error: LoadError| error.to_string();
        if let Some(kept) = self.kept(target).await {
            return self.try_take(kept, start).await.map_err(in_words);
        }
        let revision = self.in_memory(target).ok_or(NOT_KEPT)?;
        self.plugin().ensure_granted(revision.descriptor()).map_err(in_words)?;
        let _under_way = self.begin(target);
        self.install(revision, None, start, Stopwatch::start()).await.map_err(in_words)
    }

    /// Has an earlier revision decide. The file holds what was `offered` last; with `newer`, that was just
    /// being taken, and is taken no more than what decides.
    ///
    /// # Errors
    /// Why that is not possible, for whoever asked.
    pub(crate) async fn roll_back(
        self: Arc<Self>,
        target: Digest,
        offered: Option<Digest>,
        newer: bool,
    ) -> Result<(), String> {
        let refused = self.controller.slot.refused();
        let current = self.controller.logic().map(|logic| logic.revision.clone());
        self.in_time(self.take_again(target, Start::Return("somebody went back to it")))
            .await
            .map_err(|why| format!("{target} cannot be taken: {why}"))?;
        let plugin = &*self.controller.name;
        if let Some(current) = &current {
            self.note(current, Event::TakenBack, "somebody went back to another revision").await;
            self.controller.metrics.revision(plugin, "TakenBack");
            tracing::info!(plugin, digest = %target, left = %current.digest(), "somebody went back; what was left is not taken again until somebody approves it");
        }
        let known = [Some(target), current.as_ref().map(|current| current.digest())];
        if let Some(newer) = offered.filter(|offered| newer && !known.contains(&Some(*offered))) {
            let why = "somebody went back to another revision while it was being taken";
            self.remember(move |history| history.note(newer, "", Event::TakenBack, why)).await;
        }
        self.say_what_still_is_refused(offered, (current.map(|current| current.digest()), target), refused);
        Ok(())
    }

    fn say_what_still_is_refused(
        &self,
        offered: Option<Digest>,
        way: (Option<Digest>, Digest),
        before: Option<Refused>,
    ) {
        match still_refused(&self.history(), offered, way, before) {
            Some(refused) => self.controller.slot.refuse(refused),
            None => self.controller.slot.forgive(),
        }
    }

    /// Lets a component decide that was held or taken back.
    ///
    /// # Errors
    /// When it is not the one that is not taken now.
    pub(crate) async fn approve(&self, wanted: Option<&str>) -> Result<(), String> {
        let refused = self
            .controller
            .slot
            .refused()
            .ok_or("nothing waits for an approval; `hotshoe status` shows what decides")?;
        let digest = refused.digest.filter(|_| refused.can_be_approved());
        let digest = digest.ok_or_else(|| format!("no approval helps what is not taken: {}", refused.message))?;
        let prefix = wanted.map(|wanted| wanted.strip_prefix("sha256:").unwrap_or(wanted).to_ascii_lowercase());
        if let Some(prefix) = prefix.filter(|prefix| !digest.full().starts_with(prefix)) {
            return Err(format!("{prefix} is not what waits for an approval; {digest} is"));
        }
        self.remember(move |history| history.approve(digest)).await;
        tracing::info!(plugin = &*self.controller.name, %digest, "somebody approved of this component");
        Ok(())
    }
}

/// The last that may decide in the place of the present one and is at hand; of those `before` it, which are the
/// best first.
fn last_at_hand(before: &[Digest], is_at_hand: impl Fn(Digest) -> bool) -> Result<Digest, String> {
    let Some(last) = before.first() else {
        return Err("there is no earlier revision to go back to that was good; `hotshoe history` shows what there was, and `--to DIGEST` goes back to any that is kept".to_owned());
    };
    let at_hand = before.iter().copied().find(|earlier| is_at_hand(*earlier));
    at_hand.ok_or_else(|| format!("{last} cannot be taken: {NOT_KEPT}"))
}

/// Why what the file holds is not taken, after a way back from one revision to another: what a person sees and
/// approves is what the file holds, which need be neither of them. It is the one that was left as far as is
/// known, where the file was not read.
fn still_refused(
    history: &History,
    offered: Option<Digest>,
    (left, target): (Option<Digest>, Digest),
    before: Option<Refused>,
) -> Option<Refused> {
    if offered == Some(target) {
        return None;
    }
    let waiting = |digest| waits(history, digest).map(|error| Refused::new(Some(digest), &error));
    let before = before.filter(|before| before.digest == offered);
    match offered {
        Some(offered) => waiting(offered).or(before),
        None => before.or_else(|| waiting(left?)),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::rollout::history::AtWork;

    /// Of components with these words: the first ones decided, and of what became of them each is told once more.
    fn history_of(published: &[&str], events: &[(&str, Event)]) -> History {
        let mut history = History::default();
        published.iter().for_each(|words| history.publish(digest(words), "1", AtWork::default(), ""));
        events.iter().for_each(|(words, event)| history.note(digest(words), "1", *event, "so"));
        history
    }

    fn digest(words: &str) -> Digest {
        Digest::of(words.as_bytes())
    }

    /// What is said after a way back, of which component and why.
    fn said(
        history: &History,
        offered: Option<&str>,
        (left, target): (&str, &str),
        before: Option<Refused>,
    ) -> Option<(Option<Digest>, Cow<'static, str>)> {
        let refused = still_refused(history, offered.map(digest), (Some(digest(left)), digest(target)), before);
        refused.map(|refused| (refused.digest, refused.reason))
    }

    fn waits(words: &str, reason: &'static str) -> Option<(Option<Digest>, Cow<'static, str>)> {
        Some((Some(digest(words)), reason.into()))
    }

    #[test]
    fn after_a_way_back_what_the_file_holds_is_what_is_refused() {
        let both = history_of(&["a", "b", "c"], &[("c", Event::TakenBack), ("b", Event::TakenBack)]);
        let c_waits = waits("c", "TakenBack");
        assert_eq!(said(&both, Some("c"), ("b", "a"), None), c_waits);
        let held = history_of(&["b", "c"], &[("h", Event::Held), ("c", Event::TakenBack)]);
        assert_eq!(said(&held, Some("h"), ("c", "b"), None), waits("h", "Held"));
        assert_eq!(said(&held, None, ("c", "b"), None), c_waits, "as far as is known");
        assert_eq!(said(&held, Some("b"), ("c", "b"), None), None, "the file holds what decides now");
    }

    #[test]
    fn after_a_way_back_another_reason_to_refuse_what_the_file_holds_still_stands() {
        let history = history_of(&["b", "c"], &[("c", Event::TakenBack)]);
        let refused = |words: Option<&str>, error: LoadError| Some(Refused::new(words.map(digest), &error));
        let lacking = || refused(Some("n"), LoadError::NotGranted("much".to_owned()));
        assert_eq!(said(&history, Some("n"), ("c", "b"), lacking()), waits("n", "NotGranted"));
        assert_eq!(said(&history, Some("m"), ("c", "b"), lacking()), None, "it was said of another file");
        let large = refused(None, LoadError::TooLarge { size: 2, limit: 1 });
        assert_eq!(said(&history, None, ("c", "b"), large), Some((None, "ComponentTooLarge".into())));
    }

    #[test]
    fn who_goes_back_goes_to_the_last_that_is_at_hand() {
        let before = ["c", "b", "a"].map(digest);
        assert_eq!(last_at_hand(&before, |_| true), Ok(digest("c")));
        assert_eq!(last_at_hand(&before, |earlier| earlier == digest("a")), Ok(digest("a")));
        let gone = last_at_hand(&before, |_| false).unwrap_err();
        assert!(gone.contains(&digest("c").to_string()) && gone.contains("not kept any more"), "{gone}");
        assert!(last_at_hand(&[], |_| true).unwrap_err().contains("no earlier revision"));
    }
}
